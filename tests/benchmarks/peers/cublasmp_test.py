# SPDX-License-Identifier: Apache-2.0
"""cuBLASMp's products, as far as they go without it."""

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import support  # noqa: F401

import cublasmp


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


if __name__ == "__main__":
    unittest.main()
