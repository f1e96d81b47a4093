# SPDX-License-Identifier: Apache-2.0
"""The cases on which Tandem and its peers are measured. Does not need torch."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Plan:
    # Sizes in bytes. Within each tuple they grow by a constant factor.
    shards: tuple  # input of all_gather, output of reduce_scatter, input of all_to_all for each rank
    reduced: tuple  # the whole tensor of all_reduce
    spread: tuple  # the whole tensor of broadcast
    beside_bytes: int  # what a rank passes to the all_gather that is concurrent with a GEMM
    beside_shape: tuple  # M, N, K of that GEMM
    shapes: dict  # operation: its (M, N, K)


@dataclass(frozen=True)
class Case:
    """What all are measured on in one turn."""
    way: str  # eager, graph, or beside a product
    operation: str
    sizes: tuple = ()  # for a collective: bytes, as SIZE in `tandem bench`
    forms: tuple = ()  # for a collective: apart (out-of-place), in place
    shape: tuple = ()  # for a GEMM: M, N, K
    dtype: str = ""  # for a linear layer of 8-bit floats

    @property
    def name(self):
        shape = ["x".join(map(str, self.shape))] if self.shape else []
        return ".".join((self.way, self.operation, *([self.dtype] if self.dtype else []), *shape))


REDUCING = ((8192, 8192, 28672), (8192, 8192, 8192), (4096, 12288, 49152), (1024, 8192, 28672), (64, 8192, 28672))
FEW_TOKENS = 1024  # up to here linear operations also run in graphs: in eager mode launch overhead hides them
PLANS = {
    # Shapes that others have published results for.
    "node": Plan(
        shards=(MIB, 8 * MIB, 64 * MIB), reduced=tuple(1024 << 2 * i for i in range(9)), spread=(MIB, 8 * MIB, 64 * MIB),
        beside_bytes=64 * MIB, beside_shape=(8192, 8192, 8192),
        shapes={"all_gather_linear": ((8192, 57344, 8192), (4096, 49152, 12288), (8192, 10240, 8192), (1024, 28672, 8192),
                                      (64, 28672, 8192)),
                "linear_reduce_scatter": REDUCING, "linear_all_reduce": REDUCING}),
    # For machines without GPUs, or with fewer GPUs than ranks.
    "small": Plan(
        shards=(16384, 65536), reduced=(1024, 65536), spread=(1024, 65536),
        beside_bytes=65536, beside_shape=(128, 96, 64),
        shapes={"all_gather_linear": ((240, 480, 96), ), "linear_reduce_scatter": ((240, 96, 480), ),
                "linear_all_reduce": ((240, 96, 480), )}),
}


FLOAT8 = "f8e4m3"  # with one scale for each tensor, into bf16


def dtypes(device):
    """The dtype of everything else, and the one of the cases that overlap a collective with a GEMM."""
    return ("bf16", "f16") if device == "cuda" else ("f32", "f32")


def ways(device):
    """How calls are made: each by itself and, if the device can, many in one CUDA graph."""
    return ("eager", "graph") if device == "cuda" else ("eager", )


def cases(plan, device, ranks):
    """Ordered by importance: a time limit cuts off the last ones."""
    sharded = tuple(ranks * size for size in plan.shards)
    every = ways(device)

    def collective(operation, sizes, forms, called=every):
        return [Case(way, operation, sizes, forms) for way in called]

    def linear(way, dtype=""):
        return [Case(way, operation, shape=shape, dtype=dtype) for operation, shapes in plan.shapes.items()
                for shape in shapes if way == "eager" or shape[0] <= FEW_TOKENS]

    return [
        # All reductions are compared in one form and way: in place, as most peers do them, and in graphs if possible.
        *collective("all_reduce", plan.reduced, ("in place", ), every[-1:]),
        *collective("all_gather", sharded, ("apart", "in place")),
        Case("beside", "all_gather", (ranks * plan.beside_bytes, ), ("apart", "in place"), plan.beside_shape),
        *(case for way in every for case in linear(way)),
        *collective("reduce_scatter", sharded, ("apart", "in place")),
        *collective("all_to_all", sharded, ("apart", )),
        *collective("broadcast", plan.spread, ("in place", )),
        *(case for way in every if device == "cuda" for case in linear(way, FLOAT8)),
    ]


def most_bytes(plan, ranks):
    """Upper bound of a case's bytes that ranks read from each other, with up to 4 bytes per element."""
    exchanges = [2 * ranks * size for size in plan.shards]
    gathers = [(ranks + 1) * plan.beside_bytes]
    gathers += [2 * 4 * m * k for m, _, k in plan.shapes["all_gather_linear"]]
    sums = [2 * 4 * m * n for name in ("linear_reduce_scatter", "linear_all_reduce") for m, n, _ in plan.shapes[name]]
    return max(*exchanges, *gathers, *sums, *(2 * size for size in plan.reduced), *plan.spread)


def tandem_arguments(case, options):
    """The other arguments of `tandem bench OPERATION`; `options` are those of add_arguments."""
    dtype, beside_dtype = dtypes(options.device)
    words = ["--device", options.device, "-d", case.dtype or (beside_dtype if case.way == "beside" else dtype)]
    if case.dtype:
        words += ["--scaling", "per_tensor"]
    if case.sizes:
        words += ["-b", str(case.sizes[0]), "-e", str(case.sizes[-1])]
    if len(case.sizes) > 1:
        words += ["-f", str(case.sizes[1] // case.sizes[0])]
    if case.forms == ("in place", ):
        words.append("--in-place")
    if case.shape:
        words += ["--beside" if case.way == "beside" else "--shape", ",".join(map(str, case.shape))]
    if case.operation == "linear_all_reduce" and options.device == "cuda":
        words.append("--symmetric")  # as one-shot's and two-shot's results are
    if case.way == "graph":
        return [*words, "--iters", str(options.calls), "-G", str(options.launches)]
    return [*words, "--iters", str(options.iters)]


def add_arguments(parser):
    """The arguments that all scripts which use the plan share."""
    parser.add_argument("--size", choices=PLANS, default="small", help="node or small (default)")
    parser.add_argument("--device", choices=("host", "cuda"), default="host", help="host (default) or cuda")
    parser.add_argument("--iters", type=int, default=20, help="timed calls (default 20)")
    parser.add_argument("--calls", type=int, default=50, help="calls in a CUDA graph (default 50)")
    parser.add_argument("--launches", type=int, default=10, help="timed launches of a graph (default 10)")
