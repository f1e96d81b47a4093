#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rounds of Tandem and its peers: each case of the plan in turns, and who comes first changes from round to round.

    turns.py --tandem build/release/tools/tandem --out DIR [--ranks N] [--only PATTERN] [--rounds N] [--limit SECONDS]
             [--python PROGRAM] [--memory symmetric] [--memory registered] [ARGUMENT OF THE PLAN]...
             [-- ARGUMENT OF pytorch.py...]

leaves DIR/tandem.ROUND.CASE.json of `tandem bench`, DIR/pytorch.ROUND.MEMORY.START.json of PyTorch's ranks, and a line in
DIR/left_out.txt for what the limit has cut off. Without torch. The exit status says whether nothing failed.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from fnmatch import fnmatchcase
from pathlib import Path

import plan

PATIENCE = 150  # seconds for a case, or for ranks to start: more than the timeouts that these have for one operation
LAST_WORDS = 15  # lines


class Program:
    """A program in its own session. Its output is kept in case it fails."""

    failed = 0  # how many programs have failed

    def __init__(self, command, **more):
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(list(map(str, command)), stdout=self.log, stderr=subprocess.STDOUT,
                                        start_new_session=True, **more)

    def ended(self, seconds):
        """Its exit status; it is terminated if it takes longer than that."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                return self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, how)
                seconds = 40  # torchrun gives its ranks 30
        return self.process.wait()

    def finish(self, name, seconds, right=(0, )):
        """Waits for it; if it fails, counts that and prints its last lines."""
        status = self.ended(seconds)
        if status in right:
            return
        Program.failed += 1
        self.log.seek(0)
        words = self.log.read().splitlines()[-LAST_WORDS:]
        print(f"{name}: ended with {status}; the last that it said:", *words, sep="\n", flush=True)


class Ranks(Program):
    """PyTorch's ranks, which run the cases that are requested (asked.py) until the requester has ended."""

    def __init__(self, command):
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(PATIENCE)
        self.answers = self.socket.makefile(encoding="utf-8")
        self.ready = False
        with theirs:
            super().__init__(command, stdin=theirs)

    def answer(self, text):
        """Whether this is the next answer: before the ranks end, and in time."""
        try:
            return self.answers.readline() == f"{text}\n"
        except OSError:
            return False

    def run(self, name):
        """Whether the ranks have finished the case."""
        try:
            self.socket.sendall(f"{name}\n".encode())
        except OSError:
            return False
        return self.answer(name)

    def finish(self, name, seconds, right=(0, )):
        self.socket.shutdown(socket.SHUT_RDWR)
        super().finish(name, seconds, right)


class Tandem:
    """`tandem bench`, started for each case."""

    def __init__(self, options, number):
        self.options, self.number = options, number
        self.program = None

    def get_ready(self):
        """Nothing to start."""

    def measure(self, case):
        options = self.options
        self.program = Program([options.tandem, "bench", case.operation, "-n", options.ranks,
                                *plan.tandem_arguments(case, options),
                                "--json", options.out / f"tandem.{self.number}.{case.name}.json"])
        self.program.finish(f"tandem, {case.name}", PATIENCE)
        self.program = None

    def end(self, seconds):
        if self.program:
            self.program.finish("tandem", seconds)


class Pytorch:
    """PyTorch's ranks with one kind of memory, for a round. If they end during a case, others start for the next."""

    def __init__(self, options, number, memory):
        self.options, self.number, self.memory = options, number, memory
        self.starts = 0
        self.start()

    def start(self):
        self.starts += 1
        self.starts_again = False
        options = self.options
        told = [word for name in ("size", "device", "iters", "calls", "launches")
                for word in (f"--{name}", getattr(options, name))]
        patience = PATIENCE * (len(options.memory) + 1)  # includes the turns of the others
        self.ranks = Ranks([
            options.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", options.ranks,
            Path(__file__).with_name("pytorch.py"), *told, *options.pytorch, "--memory", self.memory, "--asked", patience,
            "--json", options.out / f"pytorch.{self.number}.{self.memory}.{self.starts}.json"])

    def get_ready(self):
        """Ranks that fail to start are not started again."""
        if self.ranks and not self.ranks.ready:
            self.ranks.ready = self.ranks.answer("ready")
            if not self.ranks.ready:
                self.lose("their start")

    def measure(self, case):
        if self.starts_again:
            self.start()
        self.get_ready()
        if self.ranks and not self.ranks.run(case.name):
            self.lose(case.name)
            self.starts_again = True

    def lose(self, where):
        self.ranks.finish(f"pytorch, {self.memory}, {where}", 5, right=())
        self.ranks = None

    def end(self, seconds):
        if self.ranks:
            self.ranks.finish(f"pytorch, {self.memory}", seconds)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    plan.add_arguments(parser)
    parser.add_argument("--tandem", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=3600, help="seconds, after which no case begins")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="a shell pattern of the cases' names")
    parser.add_argument("--python", default="python3", help="with torch")
    parser.add_argument("--memory", action="append", default=[], help="of a world of PyTorch's ranks")
    parser.add_argument("pytorch", nargs="*", metavar="-- ARGUMENT", help="what pytorch.py is told besides")
    return parser.parse_args()


def run_round(options, number, cases, is_over):
    """Returns the names of the cases that were not run for lack of time."""
    left = list(cases)
    sides = [] if is_over() else [Tandem(options, number), *(Pytorch(options, number, memory) for memory in options.memory)]
    patience = 0  # for programs that still run when an exception is raised
    try:
        for side in sides:
            side.get_ready()
        while left and not is_over():
            case = left.pop(0)
            print(f"round {number} of {options.rounds}: {case.name}", file=sys.stderr, flush=True)
            first = (number - 1) % len(sides)
            for side in sides[first:] + sides[:first]:
                side.measure(case)
        patience = PATIENCE
    finally:
        for side in sides:
            side.end(patience)
    return [case.name for case in left]


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # also ends what it started
    every = plan.cases(plan.PLANS[options.size], options.device, options.ranks)
    cases = [case for case in every if fnmatchcase(case.name, options.only)]
    if not cases:
        sys.exit(f"turns.py: no case matches --only '{options.only}'; there are {', '.join(case.name for case in every)}")
    over = time.monotonic() + options.limit
    for number in range(1, options.rounds + 1):
        missing = run_round(options, number, cases, lambda: time.monotonic() > over)
        if missing:
            with (options.out / "left_out.txt").open("a", encoding="utf-8") as left_out:
                print(f"of round {number} of {options.rounds} {', '.join(missing)}: "
                      f"the limit of {options.limit:g} s came first", file=left_out)
            break
    return 1 if Program.failed else 0


if __name__ == "__main__":
    sys.exit(main())
