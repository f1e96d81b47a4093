# SPDX-License-Identifier: Apache-2.0
"""The comparison of Tandem with its peers: its plan, columns, table and driver; with torch, its checks, too.

usage: peers_test.py [TestCase...]; the drivers run the program in the folder that TANDEM_TEST_BUILD names. Where
TANDEM_TEST_PYTHON names a python, that is the one with torch.
"""

import argparse
import contextlib
import importlib.util
import io
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PEERS = BENCHMARKS / "peers"
sys.path += [str(BENCHMARKS / folder) for folder in ("peers", "common", "transformer_layer")]

import columns  # noqa: E402
import cublasmp  # noqa: E402
import plan  # noqa: E402
import table  # noqa: E402
import turns  # noqa: E402
from columns import Place  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None


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

    def test_names_each_case_once_and_without_what_paths_have(self):
        for chosen in plan.PLANS.values():
            names = [case.name for case in plan.cases(chosen, "cuda", 2)]
            self.assertEqual(len(set(names)), len(names))
            for name in names:
                self.assertRegex(name, r"^(eager|graph|beside)\.[a-z_]+(\.\d+x\d+x\d+)?$")

    def test_captures_where_there_are_graphs(self):
        for device, graphs in (("host", 0), ("cuda", 8)):  # every operation
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
        self.assertEqual(cases[-1].operation, "broadcast")
        self.assertLess(max(i for i, case in enumerate(cases) if case.shape),
                        min(i for i, case in enumerate(cases) if case.operation == "all_to_all"))

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


def tandem_gather(us, wrong=0, ranks=2, size=4096):
    row = {"size": size, "count": 0, "type": "f32", "redop": "none", "root": -1}
    for prefix in ("out_of_place", "in_place"):
        row |= {f"{prefix}_time_us": None if wrong else us, f"{prefix}_wrong": wrong}
    return {"ranks": ranks, "device": "host", "operation": "all_gather", "rows": [row]}


def tandem_overlap(us, operation="linear_reduce_scatter", **more):
    row = {"m": 8, "n": 4, "k": 2, "type": "f32", "wrong": 0, "t_gemm_us": us, "t_comm_us": us / 2, "t_seq_us": 2 * us,
           "t_overlap_us": 1.25 * us}
    return {"ranks": 2, "device": "host", "operation": operation, "rows": [row | more]}


def pytorch_round(entries, **changed):
    return {"ranks": 2, "device": "host", "torch": "0", "library": "gloo", "shared": False, "left_out": [], "notes": [],
            "entries": [{"place": vars(place), "peer": peer, "wrong": wrong, "times": times}
                        for place, peer, wrong, times in entries]} | changed


GATHER = Place("all_gather", "4096", "f32", "eager, in place")
SCATTER = Place("linear_reduce_scatter", "8,4,2", "f32", "eager")


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
        self.assertEqual(lines[-1], "# Tandem is behind in 0 of 1")

    def test_counts_a_peer_with_the_faster_of_its_two(self):
        times = {"t_gemm": 5, "t_comm": 5, "t_seq": 10, "t_overlap": 20}
        lines, _ = table.render([(1, "eager", tandem_overlap(10))], [pytorch_round([(SCATTER, "cublasmp", 0, times)])])
        self.assertRegex("\n".join(lines), r"cublasmp +0 +5\.0 +5\.0 +10\.0 +20\.0 +5\.0 +0\.500 +0\.800")
        self.assertEqual(lines[-2:], ["# behind: linear_reduce_scatter 8,4,2 eager: cublasmp takes 0.800 of its time",
                                      "# Tandem is behind in 1 of 1"])

    def test_names_what_is_slower_than_its_sequence_by_more_than_a_hundredth(self):
        def behind(**changed):
            tandem = [(1, "eager", tandem_overlap(10, **changed)), (1, "eager", tandem_gather(10))]
            lines, right = table.render(tandem, [pytorch_round([(GATHER, "nccl", 0, {"time": 10})])], ratios=True)
            self.assertTrue(right)
            return [line for line in lines if line.startswith(("# behind", "# Tandem"))]

        self.assertEqual(behind(t_seq_us=100, t_overlap_us=100.9), ["# Tandem is behind in 0 of 2"])
        self.assertEqual(behind(t_seq_us=100, t_overlap_us=101.1),
                         ["# behind: linear_reduce_scatter 8,4,2 eager: its own sequence takes 0.989 of its time",
                          "# Tandem is behind in 1 of 2"])

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


class CuBlasMp(unittest.TestCase):
    def test_is_found_where_it_is_said_to_be(self):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "lib" / "libcublasmp.so.0"
            library.parent.mkdir()
            library.touch()
            with mock.patch.dict(os.environ, {"CUBLASMP_HOME": folder}), \
                 mock.patch("ctypes.util.find_library", return_value=None):
                self.assertIn(str(library), cublasmp.libraries())

    def test_says_so_where_it_is_missing(self):
        with mock.patch.object(cublasmp, "libraries", return_value=[]):
            with self.assertRaisesRegex(FileNotFoundError, "it is not installed"):
                cublasmp.Installation()

    def test_fails_on_all_ranks_where_the_first_one_has_no_id(self):
        installation = mock.Mock()
        installation.nccl.ncclGetUniqueId.return_value = 2
        for rank in (0, 1):
            with self.assertRaisesRegex(RuntimeError, "on the first rank"):
                cublasmp.Library(installation, rank, 2, 0, lambda own, rank=rank: own if rank == 0 else b"", lambda yes: yes)
        installation.nccl.ncclCommInitRank.assert_not_called()

    def library(self, refuses=(), registers=True):
        """One whose products are their algorithms' names, but for those that it refuses."""
        def product(*arguments):
            if arguments[-1] in refuses:
                raise cublasmp.NotSupported(arguments[-1])
            return arguments[-1]

        library = cublasmp.Library.__new__(cublasmp.Library)
        library.registers, library.algorithms, library.product = registers, {}, product
        return library

    def test_has_each_algorithm_that_it_takes(self):
        shape = (6, 12, 18)
        library = self.library()
        for operation in ("all_gather_linear", "linear_all_reduce"):
            self.assertEqual(library.products(operation, shape, "bf16", 1, 2, 3),
                             {"SPLIT_P2P": "SPLIT_P2P", "NO_OVERLAP": "NO_OVERLAP"})
        self.assertEqual(library.algorithms["linear_all_reduce"], ("SPLIT_P2P", "NO_OVERLAP"))
        self.assertEqual(list(self.library(("SPLIT_P2P", )).products("linear_all_reduce", shape, "bf16", 1, 2, 3)),
                         ["NO_OVERLAP"])
        self.assertEqual(list(self.library(registers=False).products("linear_all_reduce", shape, "bf16", 1, 2, 3)),
                         ["SPLIT_P2P"])
        with self.assertRaises(cublasmp.NotSupported):
            self.library(("SPLIT_P2P", ), registers=False).products("linear_all_reduce", shape, "bf16", 1, 2, 3)

    def test_names_what_was_refused(self):
        cublasmp.Library.check("cublasMpMatmul", 0)
        with self.assertRaisesRegex(cublasmp.NotSupported, "cublasMpMatmul: not supported"):
            cublasmp.Library.check("cublasMpMatmul", 7)
        with self.assertRaisesRegex(RuntimeError, "ncclMemAlloc: status 7"):
            cublasmp.Library.check("ncclMemAlloc", 7)

    def test_reads_rows_as_the_columns_that_it_multiplies(self):
        """yᵀ = W·xᵀ of matrices that are put together of the ranks' blocks, each read by columns."""
        m, n, k = 6, 12, 18
        x = [[3 * i - 7 * j for j in range(k)] for i in range(m)]
        weight = [[5 * i + j * j for j in range(k)] for i in range(n)]
        y = [[sum(a * b for a, b in zip(row, column)) for column in weight] for row in x]

        def rows_of(matrix, ranks):
            count = len(matrix) // ranks
            return [matrix[rank * count:(rank + 1) * count] for rank in range(ranks)]

        def columns_of(matrix, ranks):
            return [[row[rank * (len(row) // ranks):(rank + 1) * (len(row) // ranks)] for row in matrix]
                    for rank in range(ranks)]

        def whole(matrix, blocks):
            """Element (row, column) of what the blocks, which lie in memory by rows, are to cuBLASMp."""
            memory = [[element for row in block for element in row] for block in blocks]

            def at(row, column):
                rank = row // matrix.block_rows if matrix.split == "rows" else column // matrix.block_columns
                if matrix.split == "rows":
                    row %= matrix.block_rows
                else:
                    column %= matrix.block_columns
                return memory[rank][row + column * matrix.block_rows]
            return at

        for ranks in (1, 2, 3):
            own = {"all_gather_linear": (rows_of(weight, ranks), rows_of(x, ranks), columns_of(y, ranks)),
                   "linear_reduce_scatter": (columns_of(weight, ranks), columns_of(x, ranks), rows_of(y, ranks)),
                   "linear_all_reduce": (columns_of(weight, ranks), columns_of(x, ranks), [y] * ranks)}
            for operation, blocks in own.items():
                matrices = cublasmp.matrices(operation, (m, n, k), ranks)
                for matrix in matrices:
                    self.assertEqual(matrix.rows // matrix.block_rows, ranks if matrix.split == "rows" else 1)
                a, b, d = (whole(matrix, block) for matrix, block in zip(matrices, blocks))
                for row in range(n):
                    for column in range(matrices[2].columns):  # of an all-reduce: every rank's, side by side
                        total = sum(a(i, row) * b(i, column % m) for i in range(k))
                        self.assertEqual(d(row, column), total, (operation, ranks, row, column))


@unittest.skipUnless(HAS_TORCH, "no torch")
class WithTorch(unittest.TestCase):
    """In one process, a world of one rank on gloo."""

    @classmethod
    def setUpClass(cls):
        import torch
        import torch.distributed as dist

        cls.torch, cls.dist = torch, dist
        cls.folder = tempfile.TemporaryDirectory()
        dist.init_process_group("gloo", init_method=f"file://{cls.folder.name}/store", rank=0, world_size=1)
        cls.device = torch.device("cpu")

    @classmethod
    def tearDownClass(cls):
        cls.dist.destroy_process_group()
        cls.folder.cleanup()

    def expect_to_see(self, case, tensor):
        """Right as it is; with NaN or another number anywhere, wrong in one element."""
        case.prepare()
        case.run()
        self.assertEqual(case.wrong(), 0)
        for place in (0, tensor.numel() - 1):
            for value in (math.nan, 3.0e3):
                before = tensor.flatten()[place].item()
                tensor.view(-1)[place] = value
                self.assertEqual(case.wrong(), 1)
                tensor.view(-1)[place] = before
        case.prepare()
        self.assertGreater(case.wrong(), 0)  # what nobody has written

    def second_of_three(self, shift=0):
        """Cases of a peer with which three ranks give and get, and this one is the second. With `shift`, it gets what
        belongs to another one, or comes from there."""
        import collectives
        from peer import Peer, Plain

        count, shard = 231, 77
        given = [collectives.given(1, rank, count, self.torch.bfloat16, self.device) for rank in range(3)]
        own = slice((1 + shift) * shard, (2 + shift) * shard)

        class Three(Peer):
            def gather(self, out, x, async_op=False):
                for rank in range(3):
                    out[rank * shard:(rank + 1) * shard] = given[(rank + shift) % 3][:shard]

            def exchange(self, out, x):
                for rank in range(3):
                    out[rank * shard:(rank + 1) * shard] = given[rank][own]

            def broadcast(self, x, root):
                x.copy_(given[root + shift])

            def add_up(self, out, x):
                out.copy_(given[0] + given[1] + given[2 - shift])

            def scatter_sums(self, out, x):
                out.copy_((given[0] + given[1] + given[2])[own])

        three = Three("three", Plain(self.device))
        with mock.patch.object(self.dist, "get_world_size", return_value=3), \
             mock.patch.object(self.dist, "get_rank", return_value=1):
            return [make(three, count, self.torch.bfloat16, in_place, 1, self.device)
                    for make in collectives.OF.values() for in_place in (False, True)]

    def test_sees_one_wrong_element_of_a_collective(self):
        import collectives

        for case in self.second_of_three():
            with self.subTest(type(case).__name__):
                self.expect_to_see(case, case.out)
                if isinstance(case, collectives.Broadcast):  # what it has given itself is not what it is to get
                    self.assertTrue(case.out.isnan().all())

    def test_sees_what_belongs_to_another_rank(self):
        for case in self.second_of_three(shift=1):
            with self.subTest(type(case).__name__):
                case.prepare()
                case.run()
                self.assertGreater(case.wrong(), case.out.numel() // 2)

    def test_calls_what_a_world_of_one_can_run(self):
        import collectives
        from peer import Peer, Plain

        self.assertEqual(tuple(collectives.OF), columns.COLLECTIVES)
        peer = Peer("gloo", Plain(self.device))
        for operation, make in collectives.OF.items():
            self.assertTrue(peer.takes(operation, 77))
            for in_place in (False, True):
                case = make(peer, 77, self.torch.float32, in_place, 1, self.device)
                case.prepare()
                case.run()
                self.assertEqual(case.wrong(), 0, operation)
                case.settle()

    def test_generates_any_part_alike(self):
        import collectives

        whole = collectives.given(1, 2, 50, self.torch.float32, self.device)
        self.assertTrue(self.torch.equal(collectives.given(1, 2, 20, self.torch.float32, self.device, 30), whole[30:]))

    def test_sees_one_wrong_element_of_a_product(self):
        import linear
        from peer import Peer, Plain

        peer = Peer("gloo", Plain(self.device))
        for operation in linear.COLLECTIVES:
            operands = linear.Operands(operation, (12, 10, 14), self.torch.float32, 1, self.device, None)
            case = linear.Sequence(peer, operands)
            self.expect_to_see(case, case.y)

    def test_sees_one_wrong_element_of_either_of_two_ways(self):
        import linear
        from peer import Peer, Plain

        operands = linear.Operands("linear_reduce_scatter", (12, 10, 14), self.torch.float32, 1, self.device, None)
        peer = Peer("gloo", Plain(self.device))
        right = linear.Sequence(peer, operands)

        def broken():
            right.sequence()
            right.y[3, 5] += 1

        for ways, wrong in (((right.sequence, right.sequence), 0), ((broken, right.sequence), 1), ((right.sequence, broken), 1),
                            ((broken, broken), 2)):
            library = mock.Mock()
            library.products.return_value = dict(zip(("SPLIT_P2P", "NO_OVERLAP"), ways))
            case = linear.CublasMp(peer, operands, library, "f32")
            case.y = right.y
            case.prepare()
            case.run()
            self.assertEqual(case.wrong(), wrong)

    def test_sees_one_wrong_element_of_a_product_beside_a_gather(self):
        from beside import Beside, Product
        from peer import Peer, Plain

        peer = Peer("gloo", Plain(self.device))
        product = Product((12, 10, 14), self.torch.float32, 1, self.device, None)
        beside = Beside(peer, 77, product, self.torch.float32, False, 1, self.device)
        self.expect_to_see(beside, product.y)
        self.expect_to_see(beside, beside.gather.out)

    def asked(self, cases, limit, names):
        """(the cases that are run, what is answered) where the names are asked for, and then no more."""
        from asked import asked_for

        asker, own = socket.socketpair()
        with asker, mock.patch.object(os, "dup", return_value=own.detach()):
            asker.sendall(names)
            if names:
                asker.shutdown(socket.SHUT_WR)
            ran = list(asked_for(cases, limit))
            return ran, asker.recv(100)

    def test_runs_what_it_is_asked_for_until_nobody_asks(self):
        self.assertEqual(self.asked({"a": 1, "b": 2, "c": 3}, 60, b"b\na\n"), ([2, 1], b"ready\nb\na\n"))

    def test_waits_for_no_name_without_end(self):
        with self.assertRaises(TimeoutError):
            self.asked({}, 0.1, b"")

    def test_cuts_one_allocation_at_the_same_places_each_time(self):
        import torch.distributed._symmetric_memory as symmetric_memory
        from peer import ALIGNMENT, Symmetric

        def empty(size, dtype, device):
            return self.torch.empty(size, dtype=dtype, device=device)

        with mock.patch.object(symmetric_memory, "empty", empty), \
             mock.patch.object(symmetric_memory, "rendezvous") as rendezvous:
            memory = Symmetric(self.device, 3 * ALIGNMENT, self.dist.group.WORLD)
        rendezvous.assert_called_once()
        for _ in range(2):
            memory.begin()
            one, two = memory.empty((3, 5), self.torch.bfloat16), memory.empty((7, ), self.torch.float32)
            self.assertEqual([one.data_ptr() - memory.whole.data_ptr(), two.data_ptr() - memory.whole.data_ptr()],
                             [0, ALIGNMENT])
            self.assertEqual((one.shape, two.dtype), ((3, 5), self.torch.float32))
            with self.assertRaises(MemoryError):
                memory.empty((ALIGNMENT + 1, ), self.torch.uint8)


# Stands for `tandem bench` and for PyTorch's ranks, of which it is all: writes down what it is asked for, and does it in no
# time, unless BREAKS says otherwise: {"WHO CASE": "end" or "hang"}.
STAND_IN = """#!{python} -IS
import json, os, pathlib, socket, sys, time

def option(name):
    return sys.argv[sys.argv.index(name) + 1]

def do(who, what):
    with open(os.environ["NOTES"], "a") as notes:
        print(who, what, file=notes)
    how = json.loads(os.environ["BREAKS"]).get(who + " " + what)
    if how == "end":
        sys.exit("broken")
    if how == "hang":
        time.sleep(15)

if "bench" in sys.argv:
    do("tandem", pathlib.Path(option("--json")).name.split(".", 2)[2][:-len(".json")])
    sys.exit()
memory = option("--memory")
do(memory, "start")
with socket.socket(fileno=0) as asker:
    asker.sendall(b"ready\\n")
    for line in asker.makefile():
        do(memory, line.strip())
        asker.sendall(line.encode())
do(memory, "end")
"""


class Turns(unittest.TestCase):
    MEMORIES = ("symmetric", "registered")
    NAMES = [case.name for case in plan.cases(plan.PLANS["small"], "host", 2)]

    def run_turns(self, *more, **breaks):
        """(the exit status, what was said, what was asked for in order, what was left out)"""
        with tempfile.TemporaryDirectory() as folder:
            out, notes, stand_in = Path(folder) / "out", Path(folder) / "notes", Path(folder) / "stand-in"
            out.mkdir()
            stand_in.write_text(STAND_IN.replace("{python}", sys.executable), encoding="utf-8")
            stand_in.chmod(0o700)
            words = ["turns.py", "--tandem", str(stand_in), "--python", str(stand_in), "--out", str(out),
                     *(f"--memory={memory}" for memory in self.MEMORIES), *more]
            said = io.StringIO()
            with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(said), \
                 contextlib.redirect_stderr(io.StringIO()), mock.patch.object(turns.Program, "failed", 0), \
                 mock.patch.dict(os.environ, {"NOTES": str(notes), "BREAKS": json.dumps(breaks)}), \
                 mock.patch.object(signal, "signal"):
                status = turns.main()
            left_out = out / "left_out.txt"
            return (status, said.getvalue(), notes.read_text(encoding="utf-8").splitlines() if notes.exists() else [],
                    left_out.read_text(encoding="utf-8") if left_out.exists() else "")

    def test_take_case_by_case_and_another_first_in_each_round(self):
        status, said, notes, left_out = self.run_turns("--rounds", "3")
        self.assertEqual((status, said, left_out), (0, "", ""))
        sides = ("tandem", *self.MEMORIES)
        asked = [note for note in notes if not note.endswith((" start", " end"))]
        self.assertEqual(asked, [f"{side} {name}" for first in range(3) for name in self.NAMES
                                 for side in sides[first:] + sides[:first]])
        for memory in self.MEMORIES:  # the ranks stay for a round
            self.assertEqual(notes.count(f"{memory} start"), 3)
            self.assertEqual(notes.count(f"{memory} end"), 3)

    def test_go_on_where_one_breaks(self):
        broken = self.NAMES[1]
        status, said, notes, _ = self.run_turns("--rounds", "1", **{f"tandem {broken}": "end", f"symmetric {broken}": "end"})
        self.assertEqual(status, 1)
        for who in ("tandem", "pytorch, symmetric"):
            self.assertIn(f"{who}, {broken}: ended with 1; the last that it said:\nbroken\n", said)
        for name in self.NAMES:
            for side in ("tandem", *self.MEMORIES):
                self.assertEqual(notes.count(f"{side} {name}"), 1)
        self.assertEqual([notes.count(f"{memory} start") for memory in self.MEMORIES], [2, 1])

    def test_do_without_ranks_that_do_not_start(self):
        status, said, notes, _ = self.run_turns("--rounds", "1", **{"symmetric start": "end"})
        self.assertEqual((status, said.count("ended with")), (1, 1))
        self.assertIn("pytorch, symmetric, their start: ended with 1", said)
        self.assertEqual(notes.count("symmetric start"), 1)
        for name in self.NAMES:
            self.assertIn(f"tandem {name}", notes)
            self.assertIn(f"registered {name}", notes)

    def test_wait_for_nobody_without_end(self):
        with mock.patch.object(turns, "PATIENCE", 1):
            status, said, notes, _ = self.run_turns("--rounds", "1", **{f"registered {self.NAMES[2]}": "hang",
                                                                      f"tandem {self.NAMES[3]}": "hang"})
        self.assertEqual(status, 1)
        self.assertIn(f"pytorch, registered, {self.NAMES[2]}: ended with -15", said)
        self.assertIn(f"tandem, {self.NAMES[3]}: ended with -15", said)
        self.assertIn(f"tandem {self.NAMES[-1]}", notes)
        self.assertIn(f"registered {self.NAMES[-1]}", notes)

    def test_end_between_cases_at_the_limit_and_say_what_is_missing(self):
        passed = iter(range(100))
        with mock.patch.object(turns.time, "monotonic", lambda: next(passed)):  # a second for each look
            status, _, notes, left_out = self.run_turns("--rounds", "3", "--limit", "4")
        self.assertEqual(status, 0)
        self.assertEqual([name for name in self.NAMES if f"tandem {name}" in notes], self.NAMES[:3])
        self.assertEqual(left_out, f"of round 1 of 3 {', '.join(self.NAMES[3:])}: the limit of 4 s came first\n")

    def test_leave_nobody_behind_if_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            stand_in, notes = Path(folder) / "stand-in", Path(folder) / "notes"
            stand_in.write_text(STAND_IN.replace("{python}", sys.executable), encoding="utf-8")
            stand_in.chmod(0o700)
            variables = os.environ | {"NOTES": str(notes), "BREAKS": json.dumps({f"tandem {self.NAMES[0]}": "hang"})}
            words = [sys.executable, "-B", PEERS / "turns.py", "--tandem", stand_in, "--python", stand_in, "--out", folder,
                     *(f"--memory={memory}" for memory in self.MEMORIES)]
            with subprocess.Popen(words, env=variables, stderr=subprocess.DEVNULL) as process:
                self.wait_for(lambda: notes.exists() and f"tandem {self.NAMES[0]}" in notes.read_text(encoding="utf-8"))
                process.kill()
            self.wait_for(lambda: all(f"{memory} end" in notes.read_text(encoding="utf-8") for memory in self.MEMORIES))

    def wait_for(self, is_so):
        until = time.monotonic() + 20
        while not is_so():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)


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
