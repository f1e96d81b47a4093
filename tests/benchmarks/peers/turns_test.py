# SPDX-License-Identifier: Apache-2.0
"""Who is measured when, and what becomes of those that break."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from support import PEERS

import plan
import turns


# Stands for `tandem bench` and for PyTorch's ranks, of which it is all: writes down what it is asked for, and does it in no
# time, unless BREAKS says otherwise: {"WHO CASE": "end" or "hang"}.
STAND_IN = """#!{python} -IS
import json, os, pathlib, socket, sys, time

def option(name):
    return sys.argv[sys.argv.index(name) + 1]

def do(who, what):
    with open(os.environ["NOTES"], "a") as notes:
        print(who, what, file=notes)
    how = json.loads(os.environ["BREAKS"]).get(who + " " + what)
    if how == "end":
        sys.exit("broken")
    if how == "hang":
        time.sleep(60)

if "bench" in sys.argv:
    do("tandem", pathlib.Path(option("--json")).name.split(".", 2)[2][:-len(".json")])
    sys.exit()
memory = option("--memory")
do(memory, "start")
with socket.socket(fileno=0) as asker:
    asker.sendall(b"ready\\n")
    for line in asker.makefile():
        do(memory, line.strip())
        asker.sendall(line.encode())
do(memory, "end")
"""


class Turns(unittest.TestCase):
    MEMORIES = ("symmetric", "registered")
    NAMES = [case.name for case in plan.cases(plan.PLANS["small"], "host", 2)]

    def run_turns(self, *more, **breaks):
        """(the exit status, what was said, what was asked for in order, what was left out)"""
        with tempfile.TemporaryDirectory() as folder:
            out, notes, stand_in = Path(folder) / "out", Path(folder) / "notes", Path(folder) / "stand-in"
            out.mkdir()
            stand_in.write_text(STAND_IN.replace("{python}", sys.executable), encoding="utf-8")
            stand_in.chmod(0o700)
            words = ["turns.py", "--tandem", str(stand_in), "--python", str(stand_in), "--out", str(out),
                     *(f"--memory={memory}" for memory in self.MEMORIES), *more]
            said = io.StringIO()
            with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(said), \
                 contextlib.redirect_stderr(io.StringIO()), mock.patch.object(turns.Program, "failed", 0), \
                 mock.patch.dict(os.environ, {"NOTES": str(notes), "BREAKS": json.dumps(breaks)}), \
                 mock.patch.object(signal, "signal"):
                status = turns.main()
            left_out = out / "left_out.txt"
            return (status, said.getvalue(), notes.read_text(encoding="utf-8").splitlines() if notes.exists() else [],
                    left_out.read_text(encoding="utf-8") if left_out.exists() else "")

    def test_take_case_by_case_and_another_first_in_each_round(self):
        status, said, notes, left_out = self.run_turns("--rounds", "3")
        self.assertEqual((status, said, left_out), (0, "", ""))
        sides = ("tandem", *self.MEMORIES)
        asked = [note for note in notes if not note.endswith((" start", " end"))]
        self.assertEqual(asked, [f"{side} {name}" for first in range(3) for name in self.NAMES
                                 for side in sides[first:] + sides[:first]])
        for memory in self.MEMORIES:  # the ranks stay for a round
            self.assertEqual(notes.count(f"{memory} start"), 3)
            self.assertEqual(notes.count(f"{memory} end"), 3)

    def test_go_on_where_one_breaks(self):
        broken = self.NAMES[1]
        status, said, notes, _ = self.run_turns("--rounds", "1", **{f"tandem {broken}": "end", f"symmetric {broken}": "end"})
        self.assertEqual(status, 1)
        for who in ("tandem", "pytorch, symmetric"):
            self.assertIn(f"{who}, {broken}: ended with 1; the last that it said:\nbroken\n", said)
        for name in self.NAMES:
            for side in ("tandem", *self.MEMORIES):
                self.assertEqual(notes.count(f"{side} {name}"), 1)
        self.assertEqual([notes.count(f"{memory} start") for memory in self.MEMORIES], [2, 1])

    def test_do_without_ranks_that_do_not_start(self):
        status, said, notes, _ = self.run_turns("--rounds", "1", **{"symmetric start": "end"})
        self.assertEqual((status, said.count("ended with")), (1, 1))
        self.assertIn("pytorch, symmetric, their start: ended with 1", said)
        self.assertEqual(notes.count("symmetric start"), 1)
        for name in self.NAMES:
            self.assertIn(f"tandem {name}", notes)
            self.assertIn(f"registered {name}", notes)

    def test_wait_for_nobody_without_end(self):
        with mock.patch.object(turns, "PATIENCE", 5):
            status, said, notes, _ = self.run_turns("--rounds", "1", **{f"registered {self.NAMES[2]}": "hang",
                                                                      f"tandem {self.NAMES[3]}": "hang"})
        self.assertEqual(status, 1)
        self.assertIn(f"pytorch, registered, {self.NAMES[2]}: ended with -15", said)
        self.assertIn(f"tandem, {self.NAMES[3]}: ended with -15", said)
        self.assertIn(f"tandem {self.NAMES[-1]}", notes)
        self.assertIn(f"registered {self.NAMES[-1]}", notes)

    def test_end_between_cases_at_the_limit_and_say_what_is_missing(self):
        passed = iter(range(100))
        with mock.patch.object(turns.time, "monotonic", lambda: next(passed)):  # a second for each look
            status, _, notes, left_out = self.run_turns("--rounds", "3", "--limit", "4")
        self.assertEqual(status, 0)
        self.assertEqual([name for name in self.NAMES if f"tandem {name}" in notes], self.NAMES[:3])
        self.assertEqual(left_out, f"of round 1 of 3 {', '.join(self.NAMES[3:])}: the limit of 4 s came first\n")

    def test_take_only_the_cases_asked_for(self):
        wanted = [name for name in self.NAMES if name.startswith("eager.linear_")]
        self.assertTrue(wanted)
        status, _, notes, left_out = self.run_turns("--rounds", "1", "--only", "eager.linear_*")
        self.assertEqual((status, left_out), (0, ""))
        self.assertEqual([note.split()[1] for note in notes if note.startswith("tandem ")], wanted)

    def test_say_which_cases_there_are_if_none_is_asked_for(self):
        with self.assertRaisesRegex(SystemExit, rf"no case matches --only 'eagr\.\*'; there are {', '.join(self.NAMES)}$"):
            self.run_turns("--only", "eagr.*")

    def test_leave_nobody_behind_if_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            stand_in, notes = Path(folder) / "stand-in", Path(folder) / "notes"
            stand_in.write_text(STAND_IN.replace("{python}", sys.executable), encoding="utf-8")
            stand_in.chmod(0o700)
            variables = os.environ | {"NOTES": str(notes), "BREAKS": json.dumps({f"tandem {self.NAMES[0]}": "hang"})}
            words = [sys.executable, "-B", PEERS / "turns.py", "--tandem", stand_in, "--python", stand_in, "--out", folder,
                     *(f"--memory={memory}" for memory in self.MEMORIES)]
            with subprocess.Popen(words, env=variables, stderr=subprocess.DEVNULL) as process:
                self.wait_for(lambda: notes.exists() and f"tandem {self.NAMES[0]}" in notes.read_text(encoding="utf-8"))
                process.kill()
            self.wait_for(lambda: all(f"{memory} end" in notes.read_text(encoding="utf-8") for memory in self.MEMORIES))

    def wait_for(self, is_so):
        until = time.monotonic() + 20
        while not is_so():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()
