# SPDX-License-Identifier: Apache-2.0
"""Collectives on the host as benchmarks/collectives/run.sh compares them: the table, its verdict, and Tandem's program.

usage: collectives_test.py [TestCase...]; the program is in the folder that TANDEM_TEST_BUILD names.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COLLECTIVES = Path(__file__).resolve().parents[2] / "benchmarks" / "collectives"
sys.path.append(str(COLLECTIVES))

import table  # noqa: E402


def line(library, time, wrong=0, op="all_reduce", ranks=2, size=1024, mean=1):
    return f"{library} {op} {ranks} {size} {size // 4} float sum {time:.2f} {mean:.2f} 1.000 2.000 {wrong}\n"


class Table(unittest.TestCase):
    def test_has_the_medians_of_the_rounds(self):
        lines, right = table.render([line("tandem", time, mean=time / 2) for time in (3, 900, 2)] + [line("gloo", 50)])
        self.assertTrue(right)
        text = "\n".join(lines)
        self.assertRegex(text, r"(?m)^ +tandem +1024 +256 +float +sum +3\.00 +1\.50 +1\.000 +2\.000 +0$")
        self.assertRegex(text, r"(?m)^ +gloo +1024 +256 +float +sum +50\.00 +1\.00 +1\.000 +2\.000 +0$")

    def test_shows_no_time_of_what_was_wrong_once(self):
        lines, right = table.render([line("gloo", 2, wrong) for wrong in (0, 7)] + [line("tandem", 3), line("openmpi", 4)])
        self.assertTrue(right)  # a peer's matter
        self.assertRegex("\n".join(lines), r"(?m)^ +gloo +1024 +256 +float +sum +- +- +- +- +7$")
        self.assertIn("tandem, 1 rows with a peer, by the median: 1 ahead of the better peer, 0 level with it (within 5%), "
                      "0 behind", lines)

    def test_ends_with_how_many_rows_are_ahead_level_and_behind(self):
        rows = []
        for size, own, plain in ((1024, 0.94, 1.06), (4096, 0.96, 1.04), (8192, 1.04, 0.5), (16384, 1.06, 0.5)):
            rows += [line("tandem", 100 * own, size=size, mean=2), line("tandem-plain", 100 * plain, size=size, mean=0.5),
                     line("openmpi", 100, size=size), line("gloo", 500, size=size)]
        lines, right = table.render(rows)
        self.assertTrue(right)
        self.assertEqual(lines[lines.index("") + 1:], [
            "tandem, 4 rows with a peer, by the median: 1 ahead of the better peer, 2 level with it (within 5%), 1 behind",
            "  behind: all_reduce of 16384 B by 2 ranks, 106.00 us, openmpi 100.00 us (1.06 of it)",
            "tandem, 4 rows with a peer, by the mean: 0 ahead of the better peer, 0 level with it (within 5%), 4 behind",
            *(f"  behind: all_reduce of {size} B by 2 ranks, 2.00 us, openmpi 1.00 us (2.00 of it)"
              for size in (1024, 4096, 8192, 16384)),
            "tandem-plain, 4 rows with a peer, by the median: 2 ahead of the better peer, 1 level with it (within 5%), "
            "1 behind",
            "  behind: all_reduce of 1024 B by 2 ranks, 106.00 us, openmpi 100.00 us (1.06 of it)",
            "tandem-plain, 4 rows with a peer, by the mean: 4 ahead of the better peer, 0 level with it (within 5%), "
            "0 behind"])

    def test_counts_each_operation_and_number_of_ranks(self):
        rows = [line(library, time, op=op, ranks=ranks) for library, time in (("tandem", 9), ("gloo", 5))
                for op in ("all_gather", "all_reduce") for ranks in (2, 3)]
        lines, _ = table.render(rows)
        self.assertEqual([each.split(",")[0] for each in lines if each.startswith("  behind")],
                         [f"  behind: {op} of 1024 B by {ranks} ranks" for ranks in (2, 3)
                          for op in ("all_gather", "all_reduce")])

    def test_compares_with_nobody_where_no_peer_is_right(self):
        lines, _ = table.render([line("tandem", 1), line("gloo", 2, wrong=1)])
        self.assertIn("tandem, 0 rows with a peer, by the median: 0 ahead of the better peer, 0 level with it (within 5%), "
                      "0 behind", lines)

    def test_says_where_tandem_is_wrong(self):
        lines, right = table.render([line("tandem-plain", 1, wrong=3), line("tandem", 1), line("openmpi", 2)])
        self.assertFalse(right)
        self.assertEqual(lines[-1], "tandem-plain: wrong in all_reduce of 1024 B by 2 ranks, 3 elements")
        self.assertRegex(lines[-2], "^tandem-plain, 0 rows with a peer")


class Program(unittest.TestCase):
    @staticmethod
    def run_program(*arguments):
        program = Path(os.environ["TANDEM_TEST_BUILD"]) / "benchmarks" / "collectives" / "collectives-tandem"
        command = [program, "--ranks", "3", "--begin", "20000", "--end", "20000", "--seconds", "0.01", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)

    def test_measures_every_operation_on_both_kinds_of_memory(self):
        for data in ("still", "fresh"):
            run = self.run_program("--data", data)
            self.assertEqual(run.returncode, 0, run.stderr)
            cases = table.load(run.stdout.splitlines())
            self.assertEqual(list(cases), [(3, "all_gather"), (3, "all_reduce"), (3, "reduce_scatter")])
            for case, rows in cases.items():
                libraries, = rows.values()
                self.assertEqual({library: wrong for library, (wrong, _) in libraries.items()},
                                 {"tandem": 0, "tandem-plain": 0}, (data, case))

    def test_refuses_what_it_does_not_know(self):
        run = self.run_program("--data", "stale")
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertIn("--data stale: expected", run.stderr)
        self.assertIn("--data still|fresh", run.stderr)


class Driver(unittest.TestCase):
    def test_passes_on_what_goes_wrong(self):
        with tempfile.TemporaryDirectory() as build:
            program = Path(build) / "benchmarks" / "collectives" / "collectives-tandem"
            program.parent.mkdir(parents=True)
            program.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
            program.chmod(0o755)
            run = subprocess.run([COLLECTIVES / "run.sh", "--build", build, "--ranks", "2", "--rounds", "2"],
                                 capture_output=True, text=True, check=False, timeout=100)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertEqual(run.stdout.count("tandem: ended with an error"), 2, run.stdout)


if __name__ == "__main__":
    unittest.main()
