# SPDX-License-Identifier: Apache-2.0
"""How much linear layers hide over an emulated link: the table and its driver.

usage: overlap_test.py [TestCase...]; the driver runs the program in the folder that TANDEM_TEST_BUILD names.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS / "overlap"))

import table  # noqa: E402


def run_of(percent, wrong=0, operation="all_gather_linear", link="20us,0.2GB/s", ranks=2, shape=(8, 4, 2), to_hide=10):
    m, n, k = shape
    row = {"m": m, "n": n, "k": k, "wrong": wrong, "t_gemm_us": to_hide, "t_comm_us": to_hide + 1,
           "hidden_percent": None if wrong else percent}
    return {"operation": operation, "device": f"host, emulated link {link}", "ranks": ranks, "rows": [row]}


class Table(unittest.TestCase):
    def test_has_the_median_of_the_runs_the_least_and_the_most(self):
        lines, right = table.render([run_of(percent) for percent in (91, 120, 64)] + [run_of(85.4, ranks=3)])
        self.assertTrue(right)
        self.assertRegex(lines[1], r"^# operation +link +M,N,K +2 ranks +3 ranks$")
        self.assertRegex(lines[2], r"^  all_gather_linear +20us,0\.2GB/s +8,4,2 +91 \(64 to 120\) +85 \(85 to 85\)$")
        self.assertEqual(lines[3:], ["# of all that it could, all_gather_linear hides 88 %: 91 % on 2 ranks, 85 % on 3 ranks",
                                     "# 2 of 2 hide 80 % or more"])

    def test_adds_up_what_each_operation_hides(self):
        lines, _ = table.render([run_of(150, to_hide=30), run_of(60, to_hide=10, link="50us,0.2GB/s"),
                                 run_of(70, operation="linear_reduce_scatter", ranks=3)])
        self.assertEqual(lines[-3:-1], ["# of all that it could, all_gather_linear hides 90 %: 90 % on 2 ranks, - on 3 ranks",
                                        "# of all that it could, linear_reduce_scatter hides 70 %: - on 2 ranks, 70 % on 3 ranks"])

    def test_counts_what_was_measured_and_names_what_hides_less(self):
        lines, right = table.render([run_of(79.96), run_of(80, ranks=4), run_of(40, operation="linear_reduce_scatter"),
                                     run_of(60, link="50us,0.2GB/s")])
        self.assertTrue(right)
        self.assertEqual(lines[-6:-3], ["# less than 80 %: all_gather_linear 8,4,2 over 20us,0.2GB/s, 2 ranks: 80.0",
                                        "# less than 80 %: linear_reduce_scatter 8,4,2 over 20us,0.2GB/s, 2 ranks: 40.0",
                                        "# less than 80 %: all_gather_linear 8,4,2 over 50us,0.2GB/s, 2 ranks: 60.0"])
        self.assertEqual(lines[-1], "# 1 of 4 hide 80 % or more")

    def test_shows_nothing_of_what_was_wrong_once(self):
        lines, right = table.render([run_of(95), run_of(95, wrong=3), run_of(95, ranks=3)])
        self.assertFalse(right)
        self.assertRegex(lines[2], r" +- +95 \(95 to 95\)$")
        self.assertEqual(lines[-3:], ["# wrong: all_gather_linear 8,4,2 over 20us,0.2GB/s, 2 ranks: 3 elements",
                                      "# of all that it could, all_gather_linear hides 95 %: - on 2 ranks, 95 % on 3 ranks",
                                      "# 1 of 2 hide 80 % or more"])

    def test_refuses_what_was_measured_without_a_link(self):
        with self.assertRaisesRegex(SystemExit, "a run was on 'host', without an emulated link"):
            table.render([run_of(95) | {"device": "host"}])


def run_driver(*more):
    command = [BENCHMARKS / "overlap" / "run.sh", "--build", os.environ["TANDEM_TEST_BUILD"], "--ranks", "2", *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


class Driver(unittest.TestCase):
    def test_prints_what_the_chosen_cases_hide(self):
        with tempfile.TemporaryDirectory() as folder:
            run = run_driver("--link", "50us,0.5GB/s", "--runs", "2", "--iters", "1", "--out", folder)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            for operation in ("all_gather_linear", "linear_reduce_scatter"):
                self.assertRegex(run.stdout, rf"(?m)^  {operation} +50us,0\.5GB/s +512,1024,1024 +-?\d+ \(-?\d+ to -?\d+\)$")
            self.assertRegex(run.stdout.splitlines()[-1], r"^# [0-2] of 2 hide 80 % or more$")
            again = subprocess.run([BENCHMARKS / "overlap" / "table.py", folder], capture_output=True, text=True, check=True)
            self.assertEqual(again.stdout, run.stdout)

    def test_passes_on_what_goes_wrong(self):
        run = run_driver("--op", "linear_reduce_scatter", "--runs", "1", "--iters", "-1")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertEqual(run.stdout.count(": ended with 2;"), 8, run.stdout)
        self.assertIn("linear_reduce_scatter 512,256,1024 over 50us,200MB/s, 2 ranks: ended with 2", run.stdout)


if __name__ == "__main__":
    unittest.main()
