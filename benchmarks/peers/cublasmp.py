# SPDX-License-Identifier: Apache-2.0
"""cuBLASMp's GEMMs with communication, through ctypes. Does not need torch.

cuBLASMp's matrices are column-major: a row-major matrix is, to it, the transposed one. So y = x·Wᵀ is computed as yᵀ =
W·xᵀ, with W as A, transposed, and x as B.
"""

import ctypes
import ctypes.util
import os
import site
import sys
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path

NAMES = "libcublasmp.so*", "libcublasMp.so*"

# From the headers of cuBLASMp, cuBLAS and CUDA.
STATUSES = ("success", "not initialized", "allocation failed", "invalid value", "architecture mismatch", "execution failed",
            "internal error", "not supported")
TRANSA, ALGORITHM, EPILOGUE = 0, 3, 5
# Chunks overlapped with GEMMs, and in sequence. The other pipelines need NVLink multicast, or kernels that wait.
ALGORITHMS = {"SPLIT_P2P": 1, "NO_OVERLAP": 5}
NOT_SUPPORTED = 7
EPILOGUE_ALLREDUCE = 1
LAYOUT_COLUMN_MAJOR, LAYOUT_ROW_MAJOR = 0, 1
OP_T = 1
COMPUTE_32F = 68
TYPES = {"f32": 0, "f16": 2, "bf16": 14}


@dataclass(frozen=True)
class Matrix:
    """A matrix as cuBLASMp sees it: the whole, one rank's block, and the dimension that is split over the ranks."""
    rows: int
    columns: int
    block_rows: int
    block_columns: int
    split: str  # "rows" or "columns"


def matrices(operation, shape, ranks):
    """W, x and y of an operation with M tokens, N outputs and K inputs in total."""
    m, n, k = shape
    if operation == "all_gather_linear":
        return (Matrix(k, n, k, n // ranks, "columns"), Matrix(k, m, k, m // ranks, "columns"),
                Matrix(n, m, n // ranks, m // ranks, "rows"))
    weight = Matrix(k, n, k // ranks, n, "rows")
    if operation == "linear_reduce_scatter":
        return weight, Matrix(k, m, k // ranks, m // ranks, "rows"), Matrix(n, m, n, m // ranks, "columns")
    # Every rank has a whole y of its own.
    return weight, Matrix(k, m, k // ranks, m, "rows"), Matrix(n, m * ranks, n, m, "columns")


def packages():
    """The folders of NVIDIA's libraries among Python's packages."""
    folders = {Path(folder) for folder in (*site.getsitepackages(), *sys.path) if folder}
    return [root for folder in sorted(folders) for root in sorted((folder / "nvidia").glob("*"))]


def libraries():
    """Where it is installed: where the loader finds it, in CUBLASMP_HOME, or in one of Python's packages."""
    found = [ctypes.util.find_library(name) for name in ("cublasmp", "cublasMp")]
    roots = [Path(os.environ["CUBLASMP_HOME"])] if "CUBLASMP_HOME" in os.environ else []
    roots += packages()
    roots += [folder for root in roots for folder in sorted(root.glob("cu[0-9]*"))]
    found += [str(path) for root in roots for name in NAMES for path in sorted(root.glob(f"lib*/{name}"))]
    return [path for path in dict.fromkeys(found) if path]


def loaded(name):
    """A library that the process has loaded, that the loader finds, or that is in one of Python's packages."""
    places = [name, *(str(root / "lib" / name) for root in packages())]
    for place in places:
        try:
            return ctypes.CDLL(place, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    raise FileNotFoundError(f"{name}, which it needs, is not installed")


class NotSupported(RuntimeError):
    pass


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]  # ncclUniqueId


class Installation:
    """cuBLASMp and the NCCL that it needs, loaded. Local: it may fail on one rank only."""

    def __init__(self):
        found = libraries()
        if not found:
            raise FileNotFoundError("it is not installed")
        self.nccl = loaded("libnccl.so.2")
        self.cublasmp = self.load(found[0])

    @staticmethod
    def load(path):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            if "nvshmem" not in str(error):
                raise
        loaded("libnvshmem_host.so.3")  # up to version 0.7
        return ctypes.CDLL(path)


class Library:
    """cuBLASMp on one stream, for the ranks of a world. Collective, if all have loaded it; so are its GEMMs."""

    def __init__(self, installation, rank, ranks, stream, share, agree):
        """`share` returns the first rank's bytes on all ranks; `agree` returns whether all ranks passed True."""
        self.ranks, self.agree = ranks, agree
        self.nccl, self.library = installation.nccl, installation.cublasmp
        own = UniqueId()
        has_id = rank != 0 or self.nccl.ncclGetUniqueId(byref(own)) == 0
        shared = share(bytes(own) if has_id else b"")
        if not shared:
            raise RuntimeError("ncclGetUniqueId failed on the first rank")
        communicator = c_void_p()
        self.check("ncclCommInitRank", self.nccl.ncclCommInitRank(
            byref(communicator), c_int(ranks), UniqueId.from_buffer_copy(shared), c_int(rank)))
        self.handle = c_void_p()
        self.call("cublasMpCreate", byref(self.handle), c_void_p(stream))
        self.grids = {}
        for split, sides, layout in (("rows", (ranks, 1), LAYOUT_COLUMN_MAJOR), ("columns", (1, ranks), LAYOUT_ROW_MAJOR)):
            self.grids[split] = c_void_p()
            self.call("cublasMpGridCreate", *map(c_int64, sides), c_int(layout), communicator, byref(self.grids[split]))
        self.workspaces = {}  # split of y: address and size
        # Up to version 0.7 the workspaces are NVSHMEM's memory.
        self.registers = hasattr(self.library, "cublasMpBufferRegister")
        self.algorithms = {}  # operation: the algorithms that it has used

    @staticmethod
    def check(function, status):
        if status:
            ours = function.startswith("cublasMp")
            name = STATUSES[status] if ours and status < len(STATUSES) else f"status {status}"
            raise (NotSupported if ours and status == NOT_SUPPORTED else RuntimeError)(f"{function}: {name}")

    def call(self, function, *arguments):
        self.check(function, getattr(self.library, function)(*arguments))

    def version(self):
        number = c_int()
        self.call("cublasMpGetVersion", byref(number))
        return number.value

    def set(self, description, attribute, value):
        new = hasattr(self.library, "cublasMpMatmulDescriptorSetAttribute")  # since version 0.8
        self.call(f"cublasMpMatmulDescriptor{'SetAttribute' if new else 'AttributeSet'}", description, c_int(attribute),
                  byref(c_int(value)), c_size_t(ctypes.sizeof(c_int)))

    def describe(self, matrix, dtype):
        descriptor = c_void_p()
        sizes = (matrix.rows, matrix.columns, matrix.block_rows, matrix.block_columns, 0, 0, matrix.block_rows)
        self.call("cublasMpMatrixDescriptorCreate", *map(c_int64, sizes), c_int(TYPES[dtype]), self.grids[matrix.split],
                  byref(descriptor))
        return descriptor

    def workspace(self, size, split):
        """At least `size` bytes of memory that all ranks can access; all ranks must request the same size. A workspace
        that is too small is kept, since earlier GEMMs hold its address."""
        address, has = self.workspaces.get(split, (None, 0))
        if size <= has:
            return address
        if not self.registers:
            nvshmem = loaded("libnvshmem_host.so.3")
            nvshmem.nvshmem_malloc.restype = c_void_p
            address = nvshmem.nvshmem_malloc(c_size_t(size))
            if not address:
                raise MemoryError(f"nvshmem_malloc of {size} bytes")
        else:
            memory = c_void_p()
            status = self.nccl.ncclMemAlloc(byref(memory), c_size_t(size))
            if not self.agree(status == 0):
                raise MemoryError(f"ncclMemAlloc of {size} bytes failed" + ("" if status else " on another rank"))
            self.call("cublasMpBufferRegister", self.grids[split], memory, c_size_t(size))
            address = memory.value
        self.workspaces[split] = (address, size)
        return address

    def products(self, operation, shape, dtype, weight, x, y):
        """{algorithm: a function that runs the operation once with it}: y = x·Wᵀ of these addresses, whose blocks are
        row-major and dense."""
        made = {}
        for algorithm in ALGORITHMS:
            # Version 0.7 accepts this algorithm with an all-reduce, but returned, on one rank, the GELU of the result.
            if operation == "linear_all_reduce" and algorithm == "NO_OVERLAP" and not self.registers:
                continue
            try:
                made[algorithm] = self.product(operation, shape, dtype, weight, x, y, algorithm)
            except NotSupported as error:
                refused = error
        if not made:
            raise refused
        self.algorithms[operation] = tuple(made)
        return made

    def product(self, operation, shape, dtype, weight, x, y, algorithm):
        m, n, k = shape
        splits = matrices(operation, shape, self.ranks)
        a, b, d = (self.describe(matrix, dtype) for matrix in splits)
        description = c_void_p()
        self.call("cublasMpMatmulDescriptorCreate", byref(description), c_int(COMPUTE_32F))
        self.set(description, TRANSA, OP_T)
        self.set(description, ALGORITHM, ALGORITHMS[algorithm])
        if operation == "linear_all_reduce":
            self.set(description, EPILOGUE, EPILOGUE_ALLREDUCE)
        one, zero, first = c_float(1), c_float(0), c_int64(1)
        arguments = (self.handle, description, *map(c_int64, (n, m, k)), byref(one), c_void_p(weight), first, first, a,
                     c_void_p(x), first, first, b, byref(zero), None, first, first, None, c_void_p(y), first, first, d)
        on_device, on_host = c_size_t(), c_size_t()
        self.call("cublasMpMatmul_bufferSize", *arguments, byref(on_device), byref(on_host))
        work = c_void_p(self.workspace(on_device.value, splits[2].split))
        host_work = ctypes.create_string_buffer(max(on_host.value, 1))
        return lambda: self.call("cublasMpMatmul", *arguments, work, on_device, host_work, on_host)
