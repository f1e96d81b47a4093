# SPDX-License-Identifier: Apache-2.0
"""Times of what the ranks of a PyTorch benchmark run."""

import statistics
import time

import torch
import torch.distributed as dist


class Timing:
    """Medians of the slowest rank's time; bodies run in turns, each after a barrier of the ranks. With `ahead`, the
    host on CUDA queues all turns before it waits for one, as `tandem bench` does: launch overhead then shows only where
    it exceeds the work's time. Before each turn the device is idle for `rest` seconds."""

    def __init__(self, device, ahead=False, rest=0.0):
        self.device = device
        self.ahead = ahead
        self.rest = rest
        self.flag = torch.zeros(1, device=device)

    def run(self, prepare, body):
        if self.rest > 0:
            self.wait()
            time.sleep(self.rest)
        prepare()
        dist.all_reduce(self.flag)  # a barrier: on CUDA of the streams, on the host of the ranks
        if self.device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            body()
            end.record()
            return lambda: begin.elapsed_time(end) * 1e-3
        begin = time.perf_counter()
        body()
        taken = time.perf_counter() - begin
        return lambda: taken

    def in_turns(self, bodies, warmup, iterations):
        turns = []
        for _ in range(warmup + iterations):
            turns.append([self.run(*body) for body in bodies])
            if not self.ahead:
                self.wait()
        self.wait()
        taken = [[seconds() for seconds in turn] for turn in turns[warmup:]]
        slowest = torch.tensor(taken, dtype=torch.float64, device=self.device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        return [statistics.median(column) for column in slowest.t().tolist()]

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()
