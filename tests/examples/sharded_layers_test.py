# SPDX-License-Identifier: Apache-2.0
"""What benchmarks/sharded_layers does without torch: the table and the driver.

usage: sharded_layers_test.py [TestCase...]; Driver runs the programs in the folder that TANDEM_TEST_BUILD names.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "sharded_layers"
sys.path.insert(0, str(BENCHMARK))

import table  # noqa: E402

LAYERS = {"layers": 2, "tokens": 8, "hidden": 4, "mlp": 6, "dtype": "bf16", "gradient_dtype": "f32", "shard_dtype": "bf16",
          "rest": 0, "ranks": 2}


def tandem_round(us, wrong=0, **more):
    return {**LAYERS, "compute_us": us, "communication_us": us / 2, "sequence_us": 2 * us, "overlap_us": us + 10,
            "wrong": wrong, **more}


def pytorch_round(us, wrong=0, **more):
    return {**LAYERS, "torch": "2.0", "us": {"compute": us, "fsdp": 3 * us}, "wrong": {"fsdp": wrong},
            "left_out": {"copy-engine": "needs CUDA"}, **more}


class Table(unittest.TestCase):
    def test_has_the_medians_of_the_rounds_and_their_ratios(self):
        lines, right = table.render([tandem_round(us) for us in (40, 1000, 90)], [pytorch_round(us) for us in (60, 80, 7)])
        text = "\n".join(lines)
        self.assertTrue(right)
        self.assertIn("communication alone: 45.0", text)
        self.assertRegex(text, r"(?m)^Tandem +90\.0 +100\.0 +1\.111 +1\.000 +0$")
        self.assertRegex(text, r"(?m)^Tandem, in sequence +90\.0 +180\.0 +2\.000 +1\.800 +0$")
        self.assertRegex(text, r"(?m)^PyTorch, fsdp +60\.0 +180\.0 +3\.000 +1\.800 +0$")
        self.assertIn("PyTorch, copy-engine: left out, needs CUDA", text)

    def test_shows_no_speed_of_a_wrong_result(self):
        for tandem, pytorch, rows in ((3, 0, r"(?m)^Tandem +- +- +- +- +3$"), (0, 5, r"(?m)^PyTorch, fsdp +- +- +- +- +5$")):
            lines, right = table.render([tandem_round(10, tandem)], [pytorch_round(60, pytorch)])
            self.assertFalse(right)
            self.assertRegex("\n".join(lines), rows)

    def test_does_without_pytorch(self):
        lines, right = table.render([tandem_round(10)], [])
        self.assertTrue(right)
        self.assertNotIn("PyTorch", "\n".join(lines))

    def test_refuses_rounds_of_different_layers(self):
        with self.assertRaisesRegex(SystemExit, "one round has tokens 9, another one 8"):
            table.render([tandem_round(10), tandem_round(10, tokens=9)], [])
        with self.assertRaisesRegex(SystemExit, "one round has ranks 3, another one 2"):
            table.render([tandem_round(10)], [pytorch_round(10, ranks=3)])


class Driver(unittest.TestCase):
    def run_driver(self, *more):
        command = [BENCHMARK / "run.sh", "--build", os.environ["TANDEM_TEST_BUILD"], "--ranks", "2", "--rounds", "2",
                   "--python", "false", "--layers", "3", "--tokens", "20", "--hidden", "16", "--mlp", "12", "--iters", "2",
                   "--warmup", "1", *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    def test_does_without_torch_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            run = self.run_driver("--out", folder)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["tandem.1.json", "tandem.2.json"])
        self.assertIn("pytorch: left out, since false has no torch", run.stdout)
        for row in ("Tandem", "Tandem, in sequence"):
            self.assertRegex(run.stdout, rf"(?m)^{row} +\d+\.\d +\d+\.\d +\d+\.\d+ +\d+\.\d+ +0$")

    def test_passes_on_what_goes_wrong(self):
        run = self.run_driver("--dtype", "f99")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("f99", run.stdout)
        self.assertRegex(run.stdout, r"(?m)^tandem: ended with [1-9]")


if __name__ == "__main__":
    unittest.main()
