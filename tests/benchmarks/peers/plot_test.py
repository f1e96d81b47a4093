# SPDX-License-Identifier: Apache-2.0
"""What the picture of the comparison is made of; without matplotlib."""

import unittest

from support import GATHER, SCATTER, Place, pytorch_round, tandem_gather, tandem_overlap

import plot
import table


def all_reduce(us, size):
    return tandem_gather(us, size=size) | {"operation": "all_reduce"}


def places(tandem, entries):
    return table.figures([(1, way, document) for way, document in tandem], [pytorch_round(entries)])[0]


class Plot(unittest.TestCase):
    def test_names_sizes(self):
        self.assertEqual([plot.size(text) for text in ("12", "1024", "393216", "268435456", str(1 << 32))],
                         ["12 bytes", "1 KiB", "384 KiB", "256 MiB", "4096 MiB"])

    def test_has_a_curve_for_each_library_in_the_order_of_sizes(self):
        sum_of = Place("all_reduce", "4096", "f32", "graph, in place")
        found = plot.curves(places([("graph", all_reduce(10, 1 << 20)), ("graph", all_reduce(2, 4096))],
                                   [(sum_of, "nccl", 0, {"time": 4})]), 2)
        self.assertEqual(list(found), ["tandem", "nccl"])
        self.assertEqual([size for size, _ in found["tandem"]][0], 4096)
        self.assertEqual([size for size, _ in found["tandem"]][-1], 1 << 20)
        self.assertAlmostEqual(found["nccl"][0][1], 4096 / 4 * 1e-3)  # of two ranks, algbw is busbw

    def test_has_a_dot_for_what_a_peer_can_do_too(self):
        overlap = {"t_gemm": 1, "t_comm": 1, "t_seq": 25, "t_overlap": 30}
        found = plot.dots(places([("eager", tandem_gather(10)), ("eager", tandem_overlap(8))],
                                 [(GATHER, "nccl", 0, {"time": 15}), (SCATTER, "async-tp", 0, overlap)]))
        self.assertEqual(found, [("all_gather 4 KiB, in place", "eager", 1.5, "NCCL"),
                                 ("GEMM + reduce_scatter 8,4,2", "eager", 2.5, "async TP")])

    def test_has_no_dot_for_a_wrong_result(self):
        self.assertEqual(plot.dots(places([("eager", tandem_gather(10, wrong=3))],
                                          [(GATHER, "nccl", 0, {"time": 15})])), [])


if __name__ == "__main__":
    unittest.main()
