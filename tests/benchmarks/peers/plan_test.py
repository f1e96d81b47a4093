# SPDX-License-Identifier: Apache-2.0
"""Which sizes and shapes the comparison has, and what Tandem and its peers are told of them."""

import argparse
import unittest

import support  # noqa: F401

import columns
import plan

OPTIONS = argparse.Namespace(iters=7, calls=50, launches=10)


def tandem_words(case, device):
    return plan.tandem_arguments(case, argparse.Namespace(device=device, **vars(OPTIONS)))


class Plan(unittest.TestCase):
    def test_gives_tandem_the_sizes_that_ranks_give(self):
        for name, chosen in plan.PLANS.items():
            given = {"all_gather": [3 * size for size in chosen.shards], "all_reduce": list(chosen.reduced),
                     "broadcast": list(chosen.spread)}
            given["reduce_scatter"] = given["all_to_all"] = given["all_gather"]
            for device in ("host", "cuda"):
                collectives = [case for case in plan.cases(chosen, device, 3) if case.sizes and not case.shape]
                self.assertEqual({case.operation for case in collectives}, set(columns.COLLECTIVES))
                for case in collectives:
                    words = tandem_words(case, device)
                    begin, end, factor = (int(words[words.index(option) + 1]) for option in ("-b", "-e", "-f"))
                    sizes = []
                    while begin <= end:
                        sizes.append(begin)
                        begin *= factor
                    self.assertEqual((sizes, list(case.sizes)), (given[case.operation], ) * 2, name)
                    self.assertEqual("--in-place" in words, "apart" not in case.forms)

    def test_adds_up_in_symmetric_memory_as_peers_do(self):
        for device in ("host", "cuda"):
            for case in plan.cases(plan.PLANS["node"], device, 4):
                sums = device == "cuda" and case.operation == "linear_all_reduce"
                self.assertEqual("--symmetric" in tandem_words(case, device), sums, case.name)

    def test_names_each_case_once_and_without_what_paths_have(self):
        for chosen in plan.PLANS.values():
            names = [case.name for case in plan.cases(chosen, "cuda", 2)]
            self.assertEqual(len(set(names)), len(names))
            for name in names:
                self.assertRegex(name, r"^(eager|graph|beside)\.[a-z_]+(\.f8e4m3)?(\.\d+x\d+x\d+)?$")

    def test_captures_where_there_are_graphs(self):
        for device, graphs in (("host", 0), ("cuda", 11)):  # every operation, and layers of 8-bit floats
            captured = [case for case in plan.cases(plan.PLANS["small"], device, 2) if case.way == "graph"]
            self.assertEqual(len(captured), graphs)
            for case in captured:
                self.assertEqual(tandem_words(case, device)[-4:], ["--iters", "50", "-G", "10"])

    def test_has_every_operation_and_shape(self):
        for chosen in plan.PLANS.values():
            linear = [case for case in plan.cases(chosen, "host", 2) if case.shape and case.way == "eager"]
            self.assertEqual({case.operation for case in linear},
                             {"all_gather_linear", "linear_reduce_scatter", "linear_all_reduce"})
            for operation, shapes in chosen.shapes.items():
                self.assertEqual(tuple(case.shape for case in linear if case.operation == operation), shapes)

    def test_captures_products_of_few_tokens(self):
        for chosen in plan.PLANS.values():
            cases = plan.cases(chosen, "cuda", 2)
            few = [case for case in cases if case.way == "eager" and case.shape and case.shape[0] <= 1024]
            graphs = [case for case in cases if case.way == "graph" and case.shape]
            self.assertEqual([(case.operation, case.shape) for case in graphs],
                             [(case.operation, case.shape) for case in few])

    def test_begins_with_what_one_would_miss_most(self):
        cases = plan.cases(plan.PLANS["node"], "cuda", 2)
        self.assertEqual([case.operation for case in cases[:2]], ["all_reduce", "all_gather"])
        self.assertEqual([case.operation for case in cases if not case.dtype][-1], "broadcast")
        self.assertLess(max(i for i, case in enumerate(cases) if case.shape and not case.dtype),
                        min(i for i, case in enumerate(cases) if case.operation == "all_to_all"))
        self.assertTrue(cases[-1].dtype)

    def test_scales_8_bit_floats_on_gpus(self):
        for device in ("host", "cuda"):
            cases = [case for case in plan.cases(plan.PLANS["node"], device, 2) if case.shape and case.way != "beside"]
            narrow = [(case.way, case.operation, case.shape) for case in cases if case.dtype]
            wide = [(case.way, case.operation, case.shape) for case in cases if not case.dtype]
            self.assertEqual(narrow, wide if device == "cuda" else [])
            for case in cases:
                words = tandem_words(case, device)
                self.assertEqual(("--scaling" in words, words[words.index("-d") + 1] == plan.FLOAT8),
                                 (bool(case.dtype), ) * 2)

    def test_leaves_room_for_every_case(self):
        for chosen in plan.PLANS.values():
            for ranks in (1, 2, 4, 8):
                most = plan.most_bytes(chosen, ranks)
                self.assertGreaterEqual(most, (ranks + 1) * chosen.beside_bytes)
                self.assertGreaterEqual(most, 2 * ranks * max(chosen.shards))
                self.assertGreaterEqual(most, max(2 * max(chosen.reduced), max(chosen.spread)))
                for m, n, k in chosen.shapes["all_gather_linear"]:
                    self.assertGreaterEqual(most, 4 * (m * k + m * k // ranks))
                for m, n, k in chosen.shapes["linear_reduce_scatter"]:
                    self.assertGreaterEqual(most, 4 * (m * n + m * n // ranks))


if __name__ == "__main__":
    unittest.main()
