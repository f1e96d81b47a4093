# SPDX-License-Identifier: Apache-2.0
"""What benchmarks/long_sequence does without torch: the table and the driver.

usage: long_sequence_test.py [TestCase...]; Driver runs the programs in the folder that TANDEM_TEST_BUILD names.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "long_sequence"
sys.path.insert(0, str(BENCHMARK))

import table  # noqa: E402

SEQUENCE = {"tokens": 64, "batch": 1, "heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "bf16", "mask": "causal", "rest": 0,
            "ranks": 2}


def tandem_round(us, wrong=0, **more):
    def figures(us, wrong):
        return {"compute_us": us, "communication_us": us / 2, "sequence_us": 2 * us, "overlap_us": us + 10, "wrong": wrong}

    return {**SEQUENCE, "forward": figures(us, 0), "backward": figures(3 * us, wrong), **more}


def pytorch_round(us, wrong=0, **more):
    def both(us):
        return {"forward": us, "backward": 3 * us}

    return {**SEQUENCE, "torch": "2.0", "us": {"compute": both(us), "allgather": both(3 * us)},
            "backend": {"compute": "cudnn", "allgather": "flash"}, "wrong": {"allgather": {"forward": 0, "backward": wrong}},
            "left_out": {"alltoall": "needs CUDA"}, **more}


class Table(unittest.TestCase):
    def test_has_the_medians_of_the_rounds_and_their_ratios(self):
        lines, right = table.render([tandem_round(us) for us in (40, 1000, 90)], [pytorch_round(us) for us in (60, 80, 7)])
        forward, backward = "\n".join(lines).split("\nbackward")
        self.assertTrue(right)
        self.assertIn("communication alone: forward 45.0, backward 135.0", forward)
        self.assertRegex(forward, r"(?m)^Tandem +90\.0 +100\.0 +1\.111 +1\.000 +0$")
        self.assertRegex(forward, r"(?m)^Tandem, in sequence +90\.0 +180\.0 +2\.000 +1\.800 +0$")
        self.assertRegex(forward, r"(?m)^PyTorch, allgather +60\.0 +180\.0 +3\.000 +1\.800 +0$")
        self.assertRegex(backward, r"(?m)^Tandem +270\.0 +280\.0 +1\.037 +1\.000 +0$")
        self.assertRegex(backward, r"(?m)^PyTorch, allgather +180\.0 +540\.0 +3\.000 +1\.929 +0$")
        self.assertIn("PyTorch, alltoall: left out, needs CUDA", forward)
        self.assertIn("PyTorch, compute: by cudnn", forward)
        self.assertIn("PyTorch, allgather: by flash", forward)

    def test_shows_no_speed_of_a_wrong_result(self):
        for tandem, pytorch, rows in ((3, 0, r"(?m)^Tandem +- +- +- +- +3$"), (0, 5, r"(?m)^PyTorch, allgather +- +- +- +- +5$")):
            lines, right = table.render([tandem_round(10, tandem)], [pytorch_round(60, pytorch)])
            forward, backward = "\n".join(lines).split("\nbackward")
            self.assertFalse(right)
            self.assertRegex(forward, r"(?m)^Tandem +10\.0 +20\.0 +2\.000 +1\.000 +0$")
            self.assertRegex(backward, rows)

    def test_has_no_speed_of_a_mode_that_was_wrong_in_all_rounds(self):
        pytorch = pytorch_round(60) | {"us": {"compute": {"forward": 1, "backward": 1}},
                                       "wrong": {"allgather": {"forward": 2, "backward": 0}}}
        lines, right = table.render([tandem_round(10)], [pytorch])
        self.assertFalse(right)
        self.assertRegex("\n".join(lines), r"(?m)^PyTorch, allgather +- +- +- +- +2$")
        self.assertRegex("\n".join(lines), r"(?m)^PyTorch, allgather +- +- +- +- +0$")

    def test_does_without_pytorch(self):
        lines, right = table.render([tandem_round(10)], [])
        self.assertTrue(right)
        self.assertNotIn("PyTorch", "\n".join(lines))

    def test_refuses_rounds_of_different_sequences(self):
        with self.assertRaisesRegex(SystemExit, "one round has tokens 9, another one 64"):
            table.render([tandem_round(10), tandem_round(10, tokens=9)], [])
        with self.assertRaisesRegex(SystemExit, "one round has ranks 3, another one 2"):
            table.render([tandem_round(10)], [pytorch_round(10, ranks=3)])


class Driver(unittest.TestCase):
    def run_driver(self, *more):
        command = [BENCHMARK / "run.sh", "--build", os.environ["TANDEM_TEST_BUILD"], "--ranks", "2", "--rounds", "2",
                   "--python", "false", "--tokens", "50", "--head-dim", "16", "--iters", "2", "--warmup", "1", *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    def test_does_without_torch_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            run = self.run_driver("--out", folder)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["tandem.1.json", "tandem.2.json"])
        self.assertIn("pytorch: left out, since false has no torch", run.stdout)
        for row in ("Tandem", "Tandem, in sequence"):
            self.assertEqual(len(table_rows(run.stdout, row)), 2, run.stdout)

    def test_passes_on_what_goes_wrong(self):
        run = self.run_driver("--dtype", "f99")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("f99", run.stdout)
        self.assertRegex(run.stdout, r"(?m)^tandem: ended with [1-9]")


class Program(unittest.TestCase):
    """The example itself."""

    def run_program(self, *more, ranks=3):
        build = Path(os.environ["TANDEM_TEST_BUILD"])
        command = [build / "tools" / "tandem", "run", "-n", str(ranks), "--device", "host", "--",
                   build / "examples" / "long_sequence" / "long_sequence", "--tokens", "70", "--head-dim", "16", "--iters", "1",
                   "--warmup", "0", *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    def test_knows_no_computation_alone_of_a_window(self):
        with tempfile.TemporaryDirectory() as folder:
            figures = Path(folder, "figures.json")
            run = self.run_program("--mask", "window", "--window", "9", "--json", figures)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            found = json.loads(figures.read_text(encoding="utf-8"))
        self.assertIsNone(found["forward"]["compute_us"])
        self.assertIsNone(found["backward"]["sequence_us"])
        for direction in ("forward", "backward"):
            self.assertRegex(run.stdout, rf"(?m){direction} +- +\d+\.\d +- +\d+\.\d +- +- +\d+\.\d+ +0$")

    def test_writes_what_runs_when(self):
        with tempfile.TemporaryDirectory() as folder:
            timeline = Path(folder, "timeline.json")
            run = self.run_program("--split", "contiguous", "--timeline", timeline)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            events = json.loads(timeline.read_text(encoding="utf-8"))["traceEvents"]
        names = {event["name"] for event in events}
        self.assertLessEqual({"attention", "fetch keys and values", "add gradients"}, names)

    def test_refuses_a_window_without_its_length(self):
        for arguments in (("--mask", "window"), ("--window", "9")):
            run = self.run_program(*arguments, ranks=1)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn("--mask window needs --window N", run.stdout + run.stderr)


def table_rows(text, name):
    """The figures of the table's rows of this name that are right."""
    figures = [line[22:].split() for line in text.splitlines() if line[:22].rstrip() == name]
    return [each for each in figures if len(each) == 5 and each[-1] == "0" and "-" not in each]


if __name__ == "__main__":
    unittest.main()
