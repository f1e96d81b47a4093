# SPDX-License-Identifier: Apache-2.0
"""The checks of what PyTorch gives, in a world of one rank on gloo; skipped where there is no torch."""

import importlib.util
import math
import os
import socket
import tempfile
import unittest
from unittest import mock

import support  # noqa: F401

import columns

HAS_TORCH = importlib.util.find_spec("torch") is not None


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

    def test_sees_one_wrong_element_of_a_product_of_8_bit_floats(self):
        import linear
        from peer import Peer, Plain

        peer = Peer("gloo", Plain(self.device))
        for operation in linear.COLLECTIVES:
            operands = linear.Operands(operation, (16, 32, 48), self.torch.float8_e4m3fn, 1, self.device, None)
            case = linear.Sequence(peer, operands)
            self.assertEqual(case.y.dtype, self.torch.bfloat16)
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


if __name__ == "__main__":
    unittest.main()
