# SPDX-License-Identifier: Apache-2.0
"""Tandem's figures and its peers' in the same columns."""

import unittest

from support import GATHER, SCATTER, tandem_gather, tandem_overlap

import columns
from columns import Place


class Columns(unittest.TestCase):
    def test_are_the_same_of_tandem_and_its_peers(self):
        for document, way in ((tandem_gather(10), "eager"), (tandem_overlap(10), "eager")):
            for entry in columns.from_tandem(document, way):
                names = columns.TIMES if columns.is_overlap(entry.place) else ("time", )
                self.assertEqual(tuple(entry.times), names)
        places = [entry.place for entry in columns.from_tandem(tandem_gather(10), "eager")]
        self.assertIn(GATHER, places)
        self.assertEqual([entry.place for entry in columns.from_tandem(tandem_overlap(10), "eager")], [SCATTER])
        self.assertEqual([entry.place.way for entry in columns.from_tandem(tandem_overlap(10), "graph")], ["graph"])

    def test_have_no_form_that_an_operation_lacks(self):
        document = tandem_gather(10) | {"operation": "all_to_all"}
        document["rows"][0] |= {"in_place_time_us": None, "in_place_wrong": None}
        self.assertEqual([entry.place for entry in columns.from_tandem(document, "graph")],
                         [Place("all_to_all", "4096", "f32", "graph, apart")])

    def test_tell_a_gather_beside_a_product_from_a_gather(self):
        document = tandem_overlap(10, "all_gather", size=4096) | {"tensors": "symmetric in place"}
        entry, = columns.from_tandem(document, "beside")
        self.assertEqual(entry.place, Place(columns.beside("8,4,2"), "4096", "f32", "in place"))
        self.assertTrue(columns.is_overlap(entry.place))

    def test_count_the_faster_of_what_a_peer_has_and_what_tandem_has_chosen(self):
        self.assertEqual(columns.taken("nccl", {"t_seq": 3, "t_overlap": None}), 3)
        self.assertEqual(columns.taken("cublasmp", {"t_seq": 3, "t_overlap": 2}), 2)
        self.assertEqual(columns.taken("cublasmp", {"t_seq": 2, "t_overlap": 3}), 2)
        self.assertEqual(columns.taken("tandem", {"t_seq": 2, "t_overlap": 3}), 3)
        self.assertEqual(columns.taken("nccl", {"time": 4}), 4)
        self.assertIsNone(columns.taken("nccl", {}))

    def test_hold_an_overlap_against_its_sequence(self):
        self.assertEqual(columns.over_sequence({"t_seq": 3, "t_overlap": 2}), 1.5)
        self.assertIsNone(columns.over_sequence({"t_seq": 3, "t_overlap": None}))
        self.assertIsNone(columns.over_sequence({"time": 3}))

    def test_have_nccl_tests_bus_bandwidth(self):
        self.assertEqual(columns.bus_factor("all_gather", 4), 0.75)
        self.assertEqual(columns.bus_factor("all_reduce", 4), 1.5)
        self.assertEqual(columns.bus_factor("all_to_all", 4), 0.75)
        self.assertEqual(columns.bus_factor("broadcast", 4), 1)
        self.assertAlmostEqual(columns.algbw(Place("all_reduce", "1000000", "f32"), 10), 100)


if __name__ == "__main__":
    unittest.main()
