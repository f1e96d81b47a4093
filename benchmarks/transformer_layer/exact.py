# SPDX-License-Identifier: Apache-2.0
"""The layer's expected results, in fp64, and the error that each element may have."""

import math
from dataclasses import dataclass

import layer
import values

# Results are y = x·Wᵀ, dx = dy·W and dw = dyᵀ·x of a part's tensors: x (0), the weight (1) and dy (2). LIKE: the tensor
# whose sizes and split a result has.
LIKE = {"y": "y", "dx": "x", "dw": "weight"}
ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class Narrow:
    """Operands of 8 bits."""
    dtype: object
    scale: float  # what a product of two is multiplied by: a power of two

    @staticmethod
    def error(terms):
        """Of a rank's sum, relative to sum|a b|: tensor cores keep some 14 bits, of 128 terms at a time."""
        return 2.0 ** -12 * min(1, math.sqrt(128 / max(terms, 1)))


def lines(torch, part, tensor, tokens, seed, chosen, along_rows, device, dtype):
    """[len(chosen), terms] in fp64: the chosen rows or columns of a generated tensor, rounded to `dtype`. `chosen` is a
    range."""
    rows, columns = layer.sizes_of(part, ("x", "weight", "y")[tensor], tokens)
    key = values.key_of(seed, 3 * part.number + tensor)
    if not len(chosen):
        return torch.empty(0, columns if along_rows else rows, dtype=torch.float64, device=device)
    span = (chosen[0], chosen[-1] + 1)
    own_rows, own_columns = (span, (0, columns)) if along_rows else ((0, rows), span)
    block = values.block(torch, key, columns, own_rows, own_columns, dtype, device)
    block = block if along_rows else block.t()
    return block[::chosen.step].to(torch.float64)


def compare(torch, part, result, tokens, seed, ranks, rank, own, other=None, only=None, narrow=None):
    """Compares a rank's block of a result with fp64 sums: (compared, #wrong, largest error / its bound, apart).

    `own` is (block, roundings); `other` is the same from another program, or None. `apart`: the largest difference
    between the two, relative to the sum of their bounds. `only`: how many rows to compare, evenly spread; None: all.
    `narrow`: what the operands are if they have 8 bits.

    An element is right if
        |out - sum| <= sqrt(2 K) eps32 sum|a b| + eps (|sum| + roundings · sum over ranks |its partial sum|)
    where eps is that of the block's dtype: K terms are multiplied and added in fp32; the stored result is rounded once,
    and partial sums that are transferred `roundings` times. Narrow.error is added where it applies.
    """
    (first, last), (left, right) = layer.block_of(part, LIKE[result], tokens, ranks, rank)
    device = own[0].device
    terms, a, b, travels = {
        "y": (part.inputs, (0, True), (1, True), not part.splits_outputs),
        "dx": (part.outputs, (2, True), (1, False), part.splits_outputs),
        "dw": (tokens, (2, False), (0, False), False),
    }[result]
    stored, scale = (narrow.dtype, narrow.scale) if narrow else (torch.float32, 1.0)
    step = max(1, (last - first) // only) if only else 1
    rows = range(first, last, step)
    against = lines(torch, part, b[0], tokens, seed, range(left, right), b[1], device, stored).t().contiguous()
    shares = [layer.shard(terms, ranks, r) for r in range(ranks)] if travels else [(0, terms)]
    compared, wrong, worst = 0, 0, 0.0
    apart = 0.0
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[begin:begin + ROWS_AT_ONCE]
        mine = lines(torch, part, a[0], tokens, seed, some, a[1], device, stored) * scale
        exact = torch.zeros(len(some), right - left, dtype=torch.float64, device=device)
        magnitude = torch.zeros_like(exact)
        partials = torch.zeros_like(exact)
        for share in shares:
            x, w = mine[:, share[0]:share[1]], against[share[0]:share[1]]
            partial = x @ w
            exact += partial
            partials += partial.abs()
            magnitude += x.abs() @ w.abs()

        def error_of(out):
            block, roundings = out
            eps = torch.finfo(block.dtype).eps / 2
            allowed = (math.sqrt(2 * terms) * 2.0 ** -24 + (narrow.error(terms // len(shares)) if narrow else 0)) * magnitude
            # What has been rounded once may be rounded again.
            allowed += eps * (1 + 2 * eps) * (exact.abs() + roundings * (partials if travels else 0))
            got = block[some[0] - first:some[-1] - first + 1:step].to(torch.float64)
            return got, allowed

        if exact.numel() == 0:
            continue
        got, allowed = error_of(own)
        error = (got - exact).abs()
        compared += exact.numel()
        wrong += int((~(error <= allowed)).sum())  # also where it is NaN
        worst = max(worst, float((error / allowed).nan_to_num(nan=math.inf).max()))
        if other:
            theirs, allowed_too = error_of(other)
            apart = max(apart, float(((got - theirs).abs() / (allowed + allowed_too)).nan_to_num(nan=math.inf).max()))
    return compared, wrong, worst, apart
