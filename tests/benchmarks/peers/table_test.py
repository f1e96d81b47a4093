# SPDX-License-Identifier: Apache-2.0
"""The table of what was measured."""

import unittest

from support import GATHER, SCATTER, pytorch_round, tandem_gather, tandem_overlap

import table


class Table(unittest.TestCase):
    def test_has_the_medians_of_the_rounds_and_the_fastest_peer(self):
        tandem = [(i + 1, "eager", tandem_gather(us)) for i, us in enumerate((10, 1000, 20))]
        pytorch = [pytorch_round([(GATHER, "nccl", 0, {"time": us}), (GATHER, "registered", 0, {"time": 50})])
                   for us in (60, 80, 7)]
        lines, right = table.render(tandem, pytorch)
        text = "\n".join(lines)
        self.assertTrue(right)
        self.assertRegex(text, r"all_gather +4096 +f32 eager, in place nccl +0 +60\.00 +0\.07 +0\.03 +3\.000")
        self.assertRegex(text, r"all_gather +4096 +eager, in place +20\.0 +50\.0 registered +2\.500")
        lines, _ = table.render(tandem, pytorch, ratios=True)
        self.assertFalse([line for line in lines if "nccl" in line])

    def test_holds_each_overlap_against_its_own_parts(self):
        times = {"t_gemm": 20, "t_comm": 30, "t_seq": 60, "t_overlap": None}
        lines, right = table.render([(1, "eager", tandem_overlap(10))], [pytorch_round([(SCATTER, "nccl", 0, times)])])
        self.assertTrue(right)
        self.assertRegex("\n".join(lines), r"tandem +0 +10\.0 +5\.0 +20\.0 +12\.5 +10\.0 +0\.800 +1\.000")
        self.assertRegex("\n".join(lines), r"nccl +0 +20\.0 +30\.0 +60\.0 +- +30\.0 +0\.500 +4\.800")
        self.assertRegex(lines[-2], r"12\.5 +60\.0 nccl +4\.800 +1\.600 +0\.800 +0\.500")
        self.assertEqual(lines[-1], "# Tandem is behind in 0 of 1, and ahead of all peers by more than 5% in 1")

    def test_counts_a_peer_with_the_faster_of_its_two(self):
        times = {"t_gemm": 5, "t_comm": 5, "t_seq": 10, "t_overlap": 20}
        lines, _ = table.render([(1, "eager", tandem_overlap(10))], [pytorch_round([(SCATTER, "cublasmp", 0, times)])])
        self.assertRegex("\n".join(lines), r"cublasmp +0 +5\.0 +5\.0 +10\.0 +20\.0 +5\.0 +0\.500 +0\.800")
        self.assertEqual(lines[-2:], ["# behind: linear_reduce_scatter 8,4,2 eager: cublasmp takes 0.800 of its time",
                                      "# Tandem is behind in 1 of 1, and ahead of all peers by more than 5% in 0"])

    def test_names_what_is_slower_than_its_sequence_by_more_than_a_hundredth(self):
        def behind(**changed):
            tandem = [(1, "eager", tandem_overlap(10, **changed)), (1, "eager", tandem_gather(10))]
            lines, right = table.render(tandem, [pytorch_round([(GATHER, "nccl", 0, {"time": 10})])], ratios=True)
            self.assertTrue(right)
            return [line for line in lines if line.startswith(("# behind", "# Tandem"))]

        self.assertEqual(behind(t_seq_us=100, t_overlap_us=100.9), ["# Tandem is behind in 0 of 2, and ahead of all peers by more than 5% in 0"])
        self.assertEqual(behind(t_seq_us=100, t_overlap_us=101.1),
                         ["# behind: linear_reduce_scatter 8,4,2 eager: its own sequence takes 0.989 of its time",
                          "# Tandem is behind in 1 of 2, and ahead of all peers by more than 5% in 0"])

    def test_shows_no_time_of_what_was_wrong_once(self):
        pytorch = [pytorch_round([(GATHER, "nccl", wrong, {} if wrong else {"time": 60})]) for wrong in (0, 3)]
        lines, right = table.render([(1, "eager", tandem_gather(10))], pytorch)
        self.assertFalse(right)
        self.assertRegex("\n".join(lines), r"nccl +3 +- +- +- +-")
        self.assertIn("# wrong: all_gather 4096 eager, in place, nccl: 3 elements", lines)
        lines, right = table.render([(1, "eager", tandem_gather(10, wrong=2))], [])
        self.assertFalse(right)
        self.assertRegex("\n".join(lines), r"tandem +2 +- +- +- +-")

    def test_says_who_is_missing_and_why_once(self):
        left_out = ["two-shot: left out of everything: RuntimeError: no"]
        pytorch = [pytorch_round([], left_out=left_out), pytorch_round([], left_out=left_out)]
        lines, right = table.render([(1, "eager", tandem_gather(10))], pytorch, ["cublasmp: it is not installed"])
        self.assertTrue(right)
        self.assertEqual(lines.count("# two-shot: left out of everything: RuntimeError: no"), 1)
        self.assertIn("# cublasmp: left out, it is not installed", lines)
        self.assertEqual(lines.count("# tandem 0.1.0, commit fedcba9; plan cache: none"), 1)

    def test_times_nothing_where_ranks_share_gpus(self):
        pytorch = [pytorch_round([(GATHER, "two-shot", 0, {})], shared=True)]
        lines, right = table.render([(1, "eager", tandem_gather(12345))], pytorch)
        self.assertTrue(right)
        self.assertNotIn("12345", "\n".join(lines))
        self.assertIn("# ranks share GPUs: what is right and what is wrong, no times", lines)
        _, right = table.render([(1, "eager", tandem_gather(10))],
                                [pytorch_round([(GATHER, "two-shot", 1, {})], shared=True)])
        self.assertFalse(right)

    def test_refuses_rounds_of_different_teams(self):
        with self.assertRaisesRegex(SystemExit, "one run has ranks 2, another one 3"):
            table.render([(1, "eager", tandem_gather(10)), (1, "eager", tandem_gather(10, ranks=3))], [])


if __name__ == "__main__":
    unittest.main()
