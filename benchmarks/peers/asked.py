# SPDX-License-Identifier: Apache-2.0
"""The cases that the ranks are asked for, one at a time, by who measures Tandem in between (turns.py).

Rank 0's standard input is a socket: names of cases come, and each goes back when all ranks are done with it. Nobody spins
meanwhile: rank 0 sleeps in a read, the others in gloo.
"""

import os
import socket
from datetime import timedelta

import torch.distributed as dist


def asked_for(cases, limit):
    """Those of `cases`, {name: case}, on all ranks. Ends where the asker does, even if it is killed, and throws where the
    next name takes longer than `limit` seconds."""
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
