# SPDX-License-Identifier: Apache-2.0
"""The comparison of Tandem with its peers: its plan, columns, table and driver; with torch, its checks, too.

usage: peers_test.py [TestCase...]; the drivers run the program in the folder that TANDEM_TEST_BUILD names. Where
TANDEM_TEST_PYTHON names a python, that is the one with torch.
"""

import importlib.util
import math
import os
import subprocess
import sys
import tempfile
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
from columns import Place  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None


class Plan(unittest.TestCase):
    def test_gives_tandem_the_sizes_that_ranks_give(self):
        for name, chosen in plan.PLANS.items():
            for device in ("host", "cuda"):
                runs = plan.tandem_runs(chosen, device, 3, 7, 50, 10)
                self.assertEqual(len({(way, operation) for way, operation, _ in runs}), len(runs))  # each has its file
                given = {"all_gather": [3 * size for size in chosen.shards], "all_reduce": list(chosen.reduced),
                         "broadcast": list(chosen.spread)}
                given["reduce_scatter"] = given["all_to_all"] = given["all_gather"]
                for each in plan.collectives(chosen, device, 3):
                    last = each.ways[-1], each.operation
                    words, = (words for way, operation, words in runs if (way, operation) == last)
                    begin, end, factor = (int(words[words.index(option) + 1]) for option in ("-b", "-e", "-f"))
                    sizes = []
                    while begin <= end:
                        sizes.append(begin)
                        begin *= factor
                    self.assertEqual((sizes, list(each.sizes)), (given[each.operation], ) * 2, name)
                    self.assertEqual("--in-place" in words, "apart" not in each.forms)

    def test_captures_where_there_are_graphs(self):
        for device, graphs in (("host", 0), ("cuda", 8)):  # every operation
            runs = plan.tandem_runs(plan.PLANS["small"], device, 2, 7, 50, 10)
            self.assertEqual(sum(way == "graph" for way, _, _ in runs), graphs)
            self.assertEqual(sum("-G" in words for _, _, words in runs), graphs)

    def test_has_every_operation(self):
        for chosen in plan.PLANS.values():
            self.assertEqual({each.operation for each in plan.collectives(chosen, "host", 2)}, set(columns.COLLECTIVES))
            self.assertEqual(set(chosen.shapes), {"all_gather_linear", "linear_reduce_scatter", "linear_all_reduce"})

    def test_captures_products_of_few_tokens(self):
        for chosen in plan.PLANS.values():
            self.assertEqual(plan.shapes_in(chosen, "eager"), chosen.shapes)
            for operation, shapes in plan.shapes_in(chosen, "graph").items():
                self.assertTrue(shapes)  # without one, tandem bench has shapes of its own
                self.assertEqual(shapes, tuple(shape for shape in chosen.shapes[operation] if shape[0] <= 1024))

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

    def test_count_the_sequence_of_who_does_not_overlap(self):
        self.assertEqual(columns.taken({"t_seq": 3, "t_overlap": None}), 3)
        self.assertEqual(columns.taken({"t_seq": 3, "t_overlap": 2}), 2)
        self.assertIsNone(columns.taken({}))

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
        self.assertRegex(lines[-1], r"12\.5 +60\.0 nccl +4\.800 +0\.800 +0\.500")

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
        from beside import Beside, Product
        from peer import Peer, Plain

        peer = Peer("gloo", Plain(self.device))
        for operation in linear.COLLECTIVES:
            operands = linear.Operands(operation, (12, 10, 14), self.torch.float32, 1, self.device, None)
            case = linear.Sequence(peer, operands)
            self.expect_to_see(case, case.y)
        product = Product((12, 10, 14), self.torch.float32, 1, self.device, None)
        beside = Beside(peer, 77, product, self.torch.float32, False, 1, self.device)
        self.expect_to_see(beside, product.y)
        self.expect_to_see(beside, beside.gather.out)

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
        self.assertRegex(run.stdout, r"(?m)^tandem bench all_gather: ended with [1-9]")

    def test_shows_no_time_of_a_wrong_result(self):
        run = run_driver("--python", "false", "--rounds", "1", TANDEM_TEST_CORRUPT="1")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertRegex(run.stdout, r"(?m)^  all_reduce +1024 +f32 eager, in place tandem +[1-9]\d*( +-){4}$")
        self.assertRegex(run.stdout, r"(?m)^# wrong: linear_all_reduce .*, tandem: [1-9]\d* elements$")

    def test_begins_no_round_that_would_last_too_long(self):
        run = run_driver("--python", "false", "--rounds", "1000", "--limit", "6")
        self.assertRegex(run.stdout, r"(?m)^# \d+ of 1000 rounds: another one would have lasted beyond 6 s$")


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
