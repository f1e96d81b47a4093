# SPDX-License-Identifier: Apache-2.0
"""`tandem demo` as a user runs it: demo_test.py PATH-OF-TANDEM"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TANDEM = sys.argv.pop(1)
SMALL = ["--device", "host", "--steps", "4", "--hidden", "24", "--layers", "1", "--batch", "22"]
LINES = "one, two, buckle my shoe; three, four, knock at the door\n" * 40


def demo(*arguments, **environment):
    return subprocess.run([TANDEM, "demo", *arguments], capture_output=True, text=True, timeout=200, check=False,
                          env={**os.environ, **environment})


def trace_of(path):
    """Which ranks a timeline has, and what they did."""
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    ranges = [event for event in document["traceEvents"] if event["ph"] == "X"]
    return {event["pid"] for event in ranges}, {event["cat"] for event in ranges}, document["otherData"]["label"]


def has_matplotlib():
    """For one of the Pythons that the demo tries."""
    return any(subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0
               for python in ("python3", "/usr/bin/python3"))


class Demo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / "out"
        self.text = Path(folder.name) / "rhyme.txt"
        self.text.write_text(LINES, encoding="utf-8")

    def test_trains_checks_and_draws(self):
        run = demo("-n", "4", *SMALL, "--out", str(self.out))
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for step in (1, 2, 4):
            self.assertRegex(run.stdout, rf"check step {step}: loss \d\.\d+ vs \d\.\d+, worst gradient [\d.]+ of its "
                                         r"bound \(\S+\): ok")
        self.assertIn("over 4 ranks on host", run.stdout)
        self.assertIn("up: forward", run.stdout)
        self.assertIn("t_overlap", run.stdout)
        self.assertIn("emulated link", run.stdout)
        ranks, kinds, label = trace_of(self.out / "timeline.json")
        self.assertEqual(ranks, {0, 1, 2, 3})
        self.assertLessEqual({"compute", "communication"}, kinds)
        self.assertEqual(label, "host")
        ranks, kinds, label = trace_of(self.out / "timeline-emulated-link.json")
        self.assertEqual(ranks, {0, 1, 2, 3})
        self.assertIn("emulated link", label)

    def test_draws_a_picture(self):
        run = demo("-n", "2", *SMALL, "--text", str(self.text), "--out", str(self.out))
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        if "no picture: matplotlib is missing" in run.stdout:
            self.assertFalse(has_matplotlib(), run.stdout)
            self.skipTest("matplotlib is missing; scripts/install_dependencies.sh --for demo installs it")
        self.assertIn("picture: ", run.stdout)
        self.assertEqual((self.out / "timeline.png").read_bytes()[:4], b"\x89PNG")

    def test_prints_json_alone(self):
        run = demo("-n", "3", *SMALL, "--text", str(self.text), "--link", "50us,1GB/s", "--dtype", "bf16", "--json", "-",
                   "--out", str(self.out))
        self.assertEqual(run.returncode, 0, run.stderr)
        document = json.loads(run.stdout)
        self.assertEqual(document["ranks"], 3)
        self.assertEqual(document["model"]["dtype"], "bf16")
        self.assertEqual(document["text"]["bytes"], len(LINES))
        self.assertEqual(len(document["losses"]), 4)
        self.assertEqual([check["step"] for check in document["checks"]], [1, 2, 4])
        self.assertTrue(document["passed"] and all(check["passed"] for check in document["checks"]))
        self.assertEqual(len(document["timelines"]), 2)
        self.assertEqual({row["device"] for row in document["operations"]},
                         {"host", "host, emulated link 50us,1GB/s"})
        for row in document["operations"]:
            self.assertGreater(row["t_overlap_us"], 0)

    def test_takes_device_and_link_from_the_environment_too(self):
        options = [option for option in SMALL if option not in ("--device", "host")]
        run = demo(*options, "--text", str(self.text), "--json", "-", "--out", str(self.out), TANDEM_DEVICE="host",
                   TANDEM_LINK="50us,1GB/s")
        self.assertEqual(run.returncode, 0, run.stderr)
        document = json.loads(run.stdout)
        self.assertEqual(document["ranks"], 4)
        self.assertEqual([trace_of(path)[2] for path in document["timelines"]],
                         ["host", "host, emulated link 50us,1GB/s"])
        run = demo(*options, "--link", "50us,1GB/s", "--out", str(self.out), TANDEM_DEVICE="cuda")
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("--link emulates a link of the host device; it does not go with TANDEM_DEVICE=cuda", run.stderr)

    def test_leaves_the_trace_of_the_environment_alone(self):
        run = demo("-n", "1", *SMALL, "--out", str(self.out), TANDEM_TRACE=str(self.out.parent / "whole.json"))
        self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
        self.assertIn("whole.json', but tandem demo keeps the trace of what it draws alone", run.stderr)
        self.assertFalse(self.out.exists())

    def test_one_rank_has_nobody_to_talk_to(self):
        run = demo("-n", "1", *SMALL, "--text", str(self.text), "--out", str(self.out))
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertFalse((self.out / "timeline-emulated-link.json").exists())

    def test_shows_a_wide_model_too(self):
        run = demo("-n", "2", *SMALL, "--text", str(self.text), "--wide", "40", "--link", "50us,1GB/s",
                   "--json", "-", "--out", str(self.out))
        self.assertEqual(run.returncode, 0, run.stderr)
        document = json.loads(run.stdout)
        self.assertEqual([trace_of(path)[2] for path in document["timelines"]],
                         ["host", "host, hidden 40", "host, emulated link 50us,1GB/s"])
        shapes = [row["shape"] for row in document["operations"] if row["device"] == "host, hidden 40"]
        self.assertEqual(shapes, ["80,160,40", "80,40,160", "80,160,40", "80,40,160", "80,160,40"])
        self.assertEqual(document["model"]["hidden"], 24)

    def test_repeats_itself(self):
        first, second, other = (
            json.loads(demo("-n", "2", *SMALL, "--text", str(self.text), "--seed", seed, "--json", "-", "--out",
                            str(self.out)).stdout)["losses"] for seed in ("5", "5", "6"))
        self.assertEqual(first, second)
        self.assertNotEqual(first, other)

    def test_goes_on_without_matplotlib(self):
        self.out.mkdir()
        (self.out / "matplotlib.py").write_text("raise ImportError('not on this machine')\n", encoding="utf-8")
        run = demo("-n", "2", *SMALL, "--text", str(self.text), "--out", str(self.out), PYTHONPATH=str(self.out))
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("no picture: matplotlib is missing (not on this machine)", run.stdout)
        self.assertEqual(trace_of(self.out / "timeline.json")[0], {0, 1})

    def test_help_has_an_example(self):
        run = demo("--help")
        self.assertEqual(run.returncode, 0)
        self.assertIn("Example: tandem demo", run.stdout)

    def test_refuses_bad_command_lines(self):
        short = self.out.parent / "short.txt"
        short.write_text("too short", encoding="utf-8")
        for arguments, what in (
                (["--steps", "0"], "--steps is '0'; allowed: a whole number from 1 to"),
                (["--steps", "many"], "--steps is 'many'"),
                (["--hidden", "-3"], "--hidden is '-3'"),
                (["--layers", "1.5"], "--layers is '1.5'"),
                (["--batch", ""], "--batch"),
                (["-n", "0"], "-n is '0'"),
                (["--seed", "x"], "--seed is 'x'"),
                (["--dtype", "f64"], "--dtype is 'f64'; allowed: f32, f16, bf16"),
                (["--dtype", "float7"], "float7"),
                (["--device", "tpu"], "--device is 'tpu'; allowed: auto, host, cuda"),
                (["--link", "fast"], "fast"),
                (["--link", "1us,1GB/s", "--device", "cuda"], "does not go with --device cuda"),
                (["--text", "/no/such/file"], "--text: cannot read '/no/such/file'"),
                (["--text", "/"], "--text: '/' is a folder"),
                (["--text", str(short)], "the text has 9 bytes; more than 64 are needed"),
                (["--epochs", "3"], "--epochs"),
                (["3"], "3")):
            run = demo(*arguments, "--out", str(self.out))
            self.assertEqual(run.returncode, 2, f"{arguments}: {run.stdout}{run.stderr}")
            self.assertIn(what, run.stderr, arguments)
            self.assertEqual(run.stdout, "", arguments)
            self.assertFalse(self.out.exists(), arguments)


if __name__ == "__main__":
    unittest.main()
