# SPDX-License-Identifier: Apache-2.0
"""The peers of Tandem's collectives, and the memory that they use."""

import torch
import torch.distributed as dist

from columns import COLLECTIVES

ALIGNMENT = 4096
ONE_SHOT_BYTES = 4 << 20  # for larger sizes, every rank reads too much


class Plain:
    """Memory that torch allocates."""

    def __init__(self, device):
        self.device = device

    def begin(self):
        pass

    def empty(self, shape, dtype):
        return torch.empty(shape, dtype=dtype, device=self.device)


class Symmetric:
    """One allocation that the ranks of a group read from each other, or that is registered with their NCCL. Each case
    takes its tensors from it, at the same offsets on all ranks."""

    def __init__(self, device, size, group):
        import torch.distributed._symmetric_memory as symmetric_memory

        self.whole = symmetric_memory.empty(size, dtype=torch.uint8, device=device)
        symmetric_memory.rendezvous(self.whole, group.group_name)
        self.used = 0

    def begin(self):
        self.used = 0

    def empty(self, shape, dtype):
        size = torch.Size(shape).numel() * dtype.itemsize
        begin = self.used
        if begin + size > self.whole.numel():
            raise MemoryError(f"{size} bytes do not fit behind {begin} of {self.whole.numel()}")
        self.used = -(-(begin + size) // ALIGNMENT) * ALIGNMENT
        return self.whole[begin:begin + size].view(dtype).view(shape)


class Peer:
    """Collectives of torch.distributed."""

    def __init__(self, name, memory, group=None, operations=COLLECTIVES, captures=True):
        self.name, self.memory, self.group = name, memory, group
        self.operations = operations
        self.captures = captures  # whether its calls can be captured in a CUDA graph

    def takes(self, operation, size):
        """Whether it supports this operation on so many bytes."""
        return operation in self.operations

    def gather(self, out, x, async_op=False):
        return dist.all_gather_into_tensor(out, x, group=self.group, async_op=async_op)

    def scatter_sums(self, out, x):
        dist.reduce_scatter_tensor(out, x, group=self.group)

    def sums_of(self, x):
        """The tensor for the sums of x."""
        return x

    def add_up(self, out, x):
        dist.all_reduce(x, group=self.group)

    def exchange(self, out, x):
        dist.all_to_all_single(out, x, group=self.group)

    def broadcast(self, x, root):
        dist.broadcast(x, src=root, group=self.group)


class TwoShot(Peer):
    """PyTorch's kernel on symmetric memory in which each rank sums a shard and all gather the sums, in place."""

    def __init__(self, memory, group):
        super().__init__("two-shot", memory, group, ("all_reduce", ))

    def add_up(self, out, x):
        torch.ops.symm_mem.two_shot_all_reduce_(x, "sum", self.group.group_name)


class OneShot(Peer):
    """PyTorch's kernel on symmetric memory in which every rank reads everything that its peers have."""

    def __init__(self, memory, group):
        super().__init__("one-shot", memory, group, ("all_reduce", ))

    def takes(self, operation, size):
        return super().takes(operation, size) and size <= ONE_SHOT_BYTES

    def sums_of(self, x):
        return torch.empty_like(x)

    def add_up(self, out, x):
        torch.ops.symm_mem.one_shot_all_reduce_out(x, "sum", self.group.group_name, out)
