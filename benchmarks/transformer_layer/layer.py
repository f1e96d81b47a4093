# SPDX-License-Identifier: Apache-2.0
"""The layer's sizes and each rank's share of it, as in examples/transformer_layer/layer.hpp. Does not need torch."""

from dataclasses import dataclass

SIZES = {  # tokens, hidden, MLP, QKV
    "small": (512, 256, 896, 320),
    "llama-70b": (8192, 8192, 28672, 10240),
}


@dataclass(frozen=True)
class Part:
    name: str
    number: int
    splits_outputs: bool  # column-parallel; false: the inputs are split (row-parallel)
    inputs: int
    outputs: int


def parts_of(hidden, mlp, qkv):
    return [Part("qkv", 0, True, hidden, qkv), Part("out", 1, False, hidden, hidden),
            Part("up", 2, True, hidden, 2 * mlp), Part("down", 3, False, mlp, hidden)]


def shard(whole, ranks, rank):
    """[begin, end) of a rank's shard: shards have ceil(whole / ranks), the last ones fewer or none."""
    size = -(-whole // ranks)
    begin = min(rank * size, whole)
    return begin, min(begin + size, whole)


def sizes_of(part, operand, tokens):
    """Rows and columns of a global tensor: x, weight or y. A gradient has the sizes of what it is the gradient of."""
    return {"x": (tokens, part.inputs), "weight": (part.outputs, part.inputs), "y": (tokens, part.outputs)}[operand]


def block_of(part, operand, tokens, ranks, rank):
    """[begin, end) of a rank's rows, and of its columns, of a global tensor."""
    rows, columns = sizes_of(part, operand, tokens)
    by_columns = operand == ("y" if part.splits_outputs else "x") or (operand == "weight" and not part.splits_outputs)
    if by_columns:
        return (0, rows), shard(columns, ranks, rank)
    return shard(rows, ranks, rank), (0, columns)
