# SPDX-License-Identifier: Apache-2.0
"""A gather concurrent with an unrelated GEMM, as a user of torch.distributed writes it."""

import torch

import collectives
import exact
import layer
import values


class Product:
    """y = x·Wᵀ on one rank."""

    def __init__(self, shape, dtype, seed, device, rows):
        m, n, k = shape
        self.rows = rows  # how many to compare
        self.tokens, self.seed = m, seed
        self.part = layer.Part("product", 0, True, k, n)
        self.x, self.weight = (values.block(torch, values.key_of(seed, tensor), k, (0, rows), (0, k), dtype, device)
                               for tensor, rows in ((0, m), (1, n)))
        self.y = torch.empty(m, n, dtype=dtype, device=device)

    def run(self):
        torch.mm(self.x, self.weight.t(), out=self.y)

    def wrong(self):
        return exact.compare(torch, self.part, "y", self.tokens, self.seed, 1, 0, (self.y, 1), only=self.rows)[1]


class Beside:
    def __init__(self, peer, count, product, dtype, in_place, seed, device):
        self.product = product
        self.gather = collectives.Gather(peer, count, dtype, in_place, seed, device)
        self.gemm, self.comm = product.run, self.gather.run

    def prepare(self):
        self.gather.prepare()
        self.product.y.fill_(float("nan"))

    def sequence(self):
        self.comm()
        self.gemm()

    def overlap(self):
        work = self.gather.peer.gather(self.gather.out, self.gather.x, async_op=True)
        self.gemm()
        work.wait()

    run = overlap

    def wrong(self):
        return self.gather.wrong() + self.product.wrong()
