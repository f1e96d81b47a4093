# SPDX-License-Identifier: Apache-2.0
"""Agreement between the ranks of a PyTorch benchmark."""

import torch
import torch.distributed as dist


def agreed(ok, device):
    """Whether `ok` holds on all ranks."""
    flag = torch.tensor([1 if ok else 0], device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MIN)
    return bool(flag.item())


def first_line(error):
    return (str(error).strip().splitlines() or [""])[0][:160]


def over_ranks(numbers, device):
    """Over all ranks: the sums of the first two numbers, the maxima of the rest."""
    sums = torch.tensor(numbers[:2], dtype=torch.float64, device=device)
    maxima = torch.tensor(numbers[2:], dtype=torch.float64, device=device)
    dist.all_reduce(sums)
    dist.all_reduce(maxima, op=dist.ReduceOp.MAX)
    return [int(x) for x in sums.tolist()] + maxima.tolist()
