# SPDX-License-Identifier: Apache-2.0
"""Linear layers with the communication that they need: in sequence with a peer's collectives, as async TP fuses them,
and as cuBLASMp does it."""

import torch
import torch.distributed as dist

import exact
import layer
import values

COLLECTIVES = {"all_gather_linear": "all_gather", "linear_reduce_scatter": "reduce_scatter", "linear_all_reduce": "all_reduce"}


SCALES = (0.5, 0.25)  # of 8-bit x and weight; the product of two is exact in fp32


class Operands:
    """A rank's blocks of x and of the weight, which have 8 bits or the result's dtype."""

    def __init__(self, operation, shape, dtype, seed, device, rows):
        m, n, k = shape
        self.scales, self.narrow, self.out_dtype = (), None, dtype
        if dtype.itemsize == 1:
            self.scales = tuple(torch.tensor(scale, device=device) for scale in SCALES)
            self.narrow, self.out_dtype = exact.Narrow(dtype, SCALES[0] * SCALES[1]), torch.bfloat16
        self.shape = shape
        self.rows = rows  # how many rows to compare
        self.operation, self.tokens, self.seed, self.dtype = operation, m, seed, dtype
        self.ranks, self.rank = dist.get_world_size(), dist.get_rank()
        uneven = [size for size in ((m, n) if operation == "all_gather_linear" else (m, k)) if size % self.ranks]
        if uneven:
            raise ValueError(f"{self.ranks} ranks do not divide {uneven[0]}")
        self.part = layer.Part(operation, 0, operation == "all_gather_linear", k, n)
        self.x, self.weight = (
            values.block(torch, values.key_of(seed, tensor), k, *layer.block_of(self.part, kind, m, self.ranks, self.rank),
                         dtype, device) for tensor, kind in ((0, "x"), (1, "weight")))


def as_moved(tensor):
    """Floats of 8 bits as bytes, which everything can move."""
    return tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor


class Sequence:
    """The GEMM and the collective in sequence."""

    overlap = None

    def __init__(self, peer, operands):
        self.peer, self.operands = peer, operands
        peer_empty, x, outputs = peer.memory.empty, operands.x, operands.weight.shape[0]
        if operands.operation == "all_gather_linear":
            self.shard = peer_empty(x.shape, x.dtype)
            self.shard.copy_(x)
            self.gathered = peer_empty((operands.tokens, x.shape[1]), x.dtype)
            self.y = torch.empty(operands.tokens, outputs, dtype=operands.out_dtype, device=x.device)
            return
        self.partial = peer_empty((operands.tokens, outputs), operands.out_dtype)
        self.y = (peer.sums_of(self.partial) if operands.operation == "linear_all_reduce" else
                  peer_empty((operands.tokens // operands.ranks, outputs), operands.out_dtype))

    def gemm(self):
        x, out = ((self.gathered, self.y) if self.operands.operation == "all_gather_linear" else
                  (self.operands.x, self.partial))
        if self.operands.narrow:
            torch._scaled_mm(x, self.operands.weight.t(), *self.operands.scales, out_dtype=out.dtype, out=out)
        else:
            torch.mm(x, self.operands.weight.t(), out=out)

    def comm(self):
        if self.operands.operation == "all_gather_linear":
            self.peer.gather(*(as_moved(tensor) for tensor in (self.gathered, self.shard)))
        elif self.operands.operation == "linear_reduce_scatter":
            self.peer.scatter_sums(self.y, self.partial)
        else:
            self.peer.add_up(self.y, self.partial)

    def sequence(self):
        parts = (self.gemm, self.comm)
        for part in reversed(parts) if self.operands.operation == "all_gather_linear" else parts:
            part()

    def prepare(self):
        self.y.fill_(float("nan"))
        if self.operands.operation == "all_gather_linear":
            as_moved(self.gathered).fill_(0x7f if self.operands.narrow else float("nan"))

    def run(self):
        self.sequence()

    def wrong(self):
        part, ranks = self.operands.part, self.operands.ranks
        owners = range(ranks) if self.operands.operation == "linear_all_reduce" else [self.operands.rank]
        wrong = 0
        for owner in owners:  # of rows of y: each rank of its own; for an all_reduce every rank of all
            (first, last), _ = layer.block_of(part, "y", self.operands.tokens, ranks, owner)
            block = self.y[first:last] if self.operands.operation == "linear_all_reduce" else self.y
            wrong += exact.compare(torch, part, "y", self.operands.tokens, self.operands.seed, ranks, owner, (block, ranks),
                                   only=self.operands.rows, narrow=self.operands.narrow)[1]
        return wrong


class AsyncTp(Sequence):
    """PyTorch's fused operations; the parts and the sequence are those of its plain peer."""

    OPERATIONS = ("all_gather_linear", "linear_reduce_scatter")

    def overlap(self):
        name, weight = dist.group.WORLD.group_name, self.operands.weight.t()
        if self.operands.narrow:
            self.y = self.overlap_scaled(name, weight, *self.operands.scales)
        elif self.operands.operation == "all_gather_linear":
            self.y = torch.ops.symm_mem.fused_all_gather_matmul(self.shard, [weight], 0, name, return_A=False)[1][0]
        else:
            self.y = torch.ops.symm_mem.fused_matmul_reduce_scatter(self.operands.x, weight, "sum", 0, name)

    def overlap_scaled(self, name, weight, x_scale, weight_scale):
        operands, fused = self.operands, torch.ops.symm_mem
        if operands.operation == "all_gather_linear":
            return fused.fused_all_gather_scaled_matmul(self.shard, [weight], x_scale, [weight_scale], 0, name, [None],
                                                        [None], [operands.out_dtype], [False])[1][0]
        sizes = [operands.tokens, weight.shape[1]]
        return fused.fused_scaled_matmul_reduce_scatter(operands.x, weight, x_scale, weight_scale, "sum", 0, 0, name, sizes,
                                                        None, None, operands.out_dtype, False)

    run = overlap


class CublasMp(Sequence):
    """cuBLASMp's operations in one call, overlapped or in sequence; the parts are those of its plain peer."""

    def __init__(self, peer, operands, library, dtype):
        super().__init__(peer, operands)
        x = self.shard if operands.operation == "all_gather_linear" else operands.x
        for tensor in (operands.weight, x, self.y):
            assert tensor.is_contiguous(), "it takes rows that are dense"
        calls = library.products(operands.operation, operands.shape, dtype, operands.weight.data_ptr(), x.data_ptr(),
                                 self.y.data_ptr())
        self.overlap, self.sequence = calls.get("SPLIT_P2P"), calls.get("NO_OVERLAP")
        self.run, *self.others = calls.values()

    def wrong(self):
        """Counts the wrong elements of all calls: of the result of `run`, then of the others."""
        wrong = super().wrong()
        for call in self.others:
            self.prepare()
            call()
            wrong += super().wrong()
        return wrong
