# SPDX-License-Identifier: Apache-2.0
"""benchmarks/peers/run.sh, which puts Tandem beside its peers.

usage: driver_test.py [TestCase...]; it runs the program in the folder that TANDEM_TEST_BUILD names. Where
TANDEM_TEST_PYTHON names a python, that is the one with torch.
"""

import os
import subprocess
import sys
import tempfile
import unittest

from support import PEERS

import columns
import plan


def run_driver(*more, **variables):
    command = [PEERS / "run.sh", "--build", os.environ["TANDEM_TEST_BUILD"], "--ranks", "2", "--iters", "2", *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280, env=os.environ | variables)


class Driver(unittest.TestCase):
    def test_does_without_torch_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            run = run_driver("--python", "false", "--rounds", "2", "--out", folder)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertIn("# pytorch: left out, false has no torch", run.stdout)
            for operation in plan.PLANS["small"].shapes:
                self.assertRegex(run.stdout, rf"(?m)^  {operation} .* tandem +0( +\d+\.\d){{5}} +\d+\.\d+ +1\.000$")
            self.assertRegex(run.stdout, r"(?m)^  all_gather beside .* tandem +0( +\d+\.\d){5} +\d+\.\d+ +1\.000$")
            for operation in columns.COLLECTIVES:
                line = rf"(?m)^  {operation} +\d+ +f32 eager, .* tandem +0( +\d+\.\d\d){{3}} +1\.000$"
                self.assertRegex(run.stdout, line)
            again = subprocess.run([PEERS / "table.py", folder, "--ratios"], capture_output=True, text=True, check=True)
            self.assertIn(again.stdout.splitlines()[-1], run.stdout)

    def test_passes_on_what_goes_wrong(self):
        run = run_driver("--python", "false", "--rounds", "1", "--iters", "-1")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertRegex(run.stdout, r"(?m)^tandem, eager.all_gather: ended with [1-9]")

    def test_shows_no_time_of_a_wrong_result(self):
        run = run_driver("--python", "false", "--rounds", "1", TANDEM_TEST_CORRUPT="1")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertRegex(run.stdout, r"(?m)^  all_reduce +1024 +f32 eager, in place tandem +[1-9]\d*( +-){4}$")
        self.assertRegex(run.stdout, r"(?m)^# wrong: linear_all_reduce .*, tandem: [1-9]\d* elements$")

    def test_begins_nothing_beyond_its_limit(self):
        run = run_driver("--python", "false", "--rounds", "1000", "--limit", "3")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertRegex(run.stdout, r"(?m)^# of round \d+ of 1000 .*eager.broadcast: left out, the limit of \d s came first$")


class DriverWithTorch(unittest.TestCase):
    def test_puts_pytorch_beside_tandem(self):
        python = os.environ.get("TANDEM_TEST_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
            self.skipTest("no torch")
        run = run_driver("--python", python, "--rounds", "1")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertNotIn("left out", run.stdout)
        for operation in plan.PLANS["small"].shapes:
            self.assertRegex(run.stdout, rf"(?m)^  {operation} .* gloo +0( +\d+\.\d){{3}} +- +\d+\.\d( +\d+\.\d+){{2}}$")
        for operation in columns.COLLECTIVES:
            line = rf"(?m)^  {operation} +\d+ +f32 eager, .* gloo +0( +\d+\.\d\d){{3}} +\d+\.\d+$"
            self.assertRegex(run.stdout, line)
        self.assertRegex(run.stdout, r"(?m)^  all_gather beside .* gloo +0( +\d+\.\d){5}( +\d+\.\d+){2}$")


if __name__ == "__main__":
    unittest.main()
