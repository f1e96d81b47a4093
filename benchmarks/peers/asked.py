# SPDX-License-Identifier: Apache-2.0
"""Runs the cases that turns.py requests one at a time, which measures Tandem in between.

Rank 0's standard input is a socket: it receives names of cases, and each is sent back when all ranks have finished the
case. No rank spins while it waits: rank 0 sleeps in a read, the others in gloo.
"""

import os
import socket
from datetime import timedelta

import torch.distributed as dist


def asked_for(cases, limit):
    """Yields the requested `cases`, {name: case}, on all ranks. Ends when the requester does, even if that is killed,
    and raises if the next name takes longer than `limit` seconds."""
    group = dist.new_group(backend="gloo", timeout=timedelta(seconds=limit))
    asker = None
    if dist.get_rank() == 0:
        asker = socket.socket(fileno=os.dup(0))
        asker.settimeout(limit)
        names = asker.makefile(encoding="utf-8")

    def answer(text):
        dist.barrier(group=group)
        if asker:
            asker.sendall(f"{text}\n".encode())

    def next_name():
        name = [names.readline().strip() if asker else ""]
        dist.broadcast_object_list(name, src=0, group=group)
        return name[0]

    answer("ready")
    while name := next_name():
        yield cases[name]
        answer(name)
