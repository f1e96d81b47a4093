# SPDX-License-Identifier: Apache-2.0
"""Collectives of one peer on random data, and how many elements of their results are wrong."""

import math

import torch
import torch.distributed as dist

import values

ROOT = 0


def given(seed, rank, count, dtype, device, begin=0):
    """`count` elements of a rank's input to a collective, from element `begin` on."""
    key = values.key_of(seed, rank)
    return values.block(torch, key, count, (0, 1), (begin, begin + count), dtype, device).flatten()


class Collective:
    """A collective with `count` elements in its longest tensor, which is SIZE in `tandem bench`."""

    def __init__(self, peer, count, dtype, in_place, seed, device):
        self.peer, self.count, self.seed = peer, count, seed
        self.ranks, self.rank = dist.get_world_size(), dist.get_rank()
        self.shard = count // self.ranks
        self.x, self.out = self.tensors(dtype, in_place)
        self.own = given(seed, self.rank, self.x.numel(), dtype, device)

    def empty(self, count, dtype):
        return self.peer.memory.empty((count, ), dtype)

    def own_shard(self, whole):
        return whole[self.rank * self.shard:(self.rank + 1) * self.shard]

    def prepare(self):
        self.out.fill_(math.nan)
        self.x.copy_(self.own)

    def source(self, rank, part, begin):
        """The elements of a rank's input from `begin` on, as many as this part of the result has."""
        return given(self.seed, rank, part.numel(), part.dtype, part.device, begin)

    def settle(self):
        """Called before timing: repeated runs must not let in-place sums grow."""


class Copied(Collective):
    """Collectives that only move data: results are exact."""

    def wrong(self):
        return sum(int((part != self.source(rank, part, begin)).sum()) for part, rank, begin in self.parts())


class Summed(Collective):
    """Collectives whose result is a sum over ranks."""

    first = 0  # the first element of each rank's input that is part of this rank's result

    def wrong(self):
        """An element is right if |out - sum| <= eps · (|sum| + ranks · sum over ranks |x|): rounded at each hop of a ring."""
        total = torch.zeros(self.out.shape, dtype=torch.float64, device=self.out.device)
        magnitude = torch.zeros_like(total)
        for rank in range(self.ranks):
            x = self.source(rank, self.out, self.first).to(torch.float64)
            total += x
            magnitude += x.abs()
        eps = torch.finfo(self.out.dtype).eps / 2
        allowed = eps * (1 + 2 * eps) * (total.abs() + self.ranks * magnitude)
        return int((~((self.out.to(torch.float64) - total).abs() <= allowed)).sum())  # also where it is NaN

    def settle(self):
        """Repeated in-place sums overflow any dtype, except sums of zeros."""
        self.x.zero_()


class Gather(Copied):
    def tensors(self, dtype, in_place):
        out = self.empty(self.count, dtype)
        return self.own_shard(out) if in_place else self.empty(self.shard, dtype), out

    def run(self):
        self.peer.gather(self.out, self.x)

    def parts(self):
        return [(part, rank, 0) for rank, part in enumerate(self.out.view(self.ranks, -1))]


class AllToAll(Copied):
    """Always out-of-place: no peer supports it in place."""

    def tensors(self, dtype, in_place):
        return self.empty(self.count, dtype), self.empty(self.count, dtype)

    def run(self):
        self.peer.exchange(self.out, self.x)

    def parts(self):
        return [(part, rank, self.rank * self.shard) for rank, part in enumerate(self.out.view(self.ranks, -1))]


class Broadcast(Copied):
    """Always in place, as in torch.distributed."""

    def tensors(self, dtype, in_place):
        x = self.empty(self.count, dtype)
        return x, x

    def prepare(self):
        super().prepare()
        if self.rank != ROOT:
            self.out.fill_(math.nan)

    def run(self):
        self.peer.broadcast(self.out, ROOT)

    def parts(self):
        return [(self.out, ROOT, 0)]


class AllReduce(Summed):
    """In place or not, as the peer does it: most do it in place."""

    def tensors(self, dtype, in_place):
        x = self.empty(self.count, dtype)
        return x, self.peer.sums_of(x)

    def run(self):
        self.peer.add_up(self.out, self.x)


class ReduceScatter(Summed):
    def tensors(self, dtype, in_place):
        x = self.empty(self.count, dtype)
        self.first = self.rank * self.shard
        return x, self.own_shard(x) if in_place else self.empty(self.shard, dtype)

    def run(self):
        self.peer.scatter_sums(self.out, self.x)


OF = {"all_gather": Gather, "reduce_scatter": ReduceScatter, "all_reduce": AllReduce, "all_to_all": AllToAll,
      "broadcast": Broadcast}
