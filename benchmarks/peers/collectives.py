# SPDX-License-Identifier: Apache-2.0
"""Collectives of one peer on random data, and how many elements of their results are wrong."""

import math

import torch
import torch.distributed as dist

import values


def given(seed, rank, count, dtype, device):
    """What a rank gives to a collective."""
    return values.block(torch, values.key_of(seed, rank), count, (0, 1), (0, count), dtype, device).flatten()


class Gather:
    """all_gather of `count` elements a rank."""

    def __init__(self, peer, count, dtype, in_place, seed, device):
        self.peer, self.count, self.seed = peer, count, seed
        ranks, rank = dist.get_world_size(), dist.get_rank()
        self.out = peer.memory.empty((ranks * count, ), dtype)
        self.x = self.out[rank * count:(rank + 1) * count] if in_place else peer.memory.empty((count, ), dtype)
        self.own = given(seed, rank, count, dtype, device)

    def prepare(self):
        self.out.fill_(math.nan)
        self.x.copy_(self.own)

    def run(self):
        self.peer.gather(self.out, self.x)

    def wrong(self):
        shards = self.out.view(-1, self.count)
        return sum(int((shard != given(self.seed, rank, self.count, shard.dtype, shard.device)).sum())
                   for rank, shard in enumerate(shards))

    def settle(self):
        """Before it is timed: what runs of one another may not add up."""


class AllReduce:
    """all_reduce of `count` elements: their sums."""

    def __init__(self, peer, count, dtype, seed, device):
        self.peer, self.seed = peer, seed
        self.x = peer.memory.empty((count, ), dtype)
        self.out = peer.sums_of(self.x)
        self.own = given(seed, dist.get_rank(), count, dtype, device)

    def prepare(self):
        self.out.fill_(math.nan)
        self.x.copy_(self.own)

    def run(self):
        self.peer.add_up(self.out, self.x)

    def wrong(self):
        """An element is right if |out - sum| <= eps · (|sum| + ranks · sum over ranks |x|): rounded at each hop of a ring."""
        ranks = dist.get_world_size()
        total = torch.zeros(self.out.shape, dtype=torch.float64, device=self.out.device)
        magnitude = torch.zeros_like(total)
        for rank in range(ranks):
            x = given(self.seed, rank, self.out.numel(), self.out.dtype, self.out.device).to(torch.float64)
            total += x
            magnitude += x.abs()
        eps = torch.finfo(self.out.dtype).eps / 2
        allowed = eps * (1 + 2 * eps) * (total.abs() + ranks * magnitude)
        return int((~((self.out.to(torch.float64) - total).abs() <= allowed)).sum())  # also where it is NaN

    def settle(self):
        """Sums of sums grow out of every dtype: zeros do not."""
        self.x.zero_()
