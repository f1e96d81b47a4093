#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the peers are measured on. Without torch.

    plan.py --size node --ranks 4 [--device cuda] [--iters N]

prints what `tandem bench` is to be told for each of its runs: WAY OPERATION ARGUMENT...
"""

import argparse
from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Plan:
    # Sizes in bytes, each as many times the one before.
    shards: tuple  # a rank gives to all_gather, gets of reduce_scatter, and gives each rank in all_to_all
    reduced: tuple  # the whole of all_reduce
    spread: tuple  # the whole of broadcast
    beside_bytes: int  # a rank gives to the all_gather beside a product
    beside_shape: tuple  # that product's M, N, K
    shapes: dict  # operation: its (M, N, K)


@dataclass(frozen=True)
class Collective:
    """One that is measured by itself."""
    operation: str
    sizes: tuple  # bytes, as SIZE of `tandem bench` counts them
    ways: tuple
    forms: tuple  # apart, in place


REDUCING = ((8192, 8192, 28672), (8192, 8192, 8192), (4096, 12288, 49152), (1024, 8192, 28672), (64, 8192, 28672))
FEW_TOKENS = 1024  # up to here linear operations run in graphs, too: eager, the caller's part hides them
PLANS = {
    # The shapes that others publish.
    "node": Plan(
        shards=(MIB, 8 * MIB, 64 * MIB), reduced=tuple(1024 << 2 * i for i in range(9)), spread=(MIB, 8 * MIB, 64 * MIB),
        beside_bytes=64 * MIB, beside_shape=(8192, 8192, 8192),
        shapes={"all_gather_linear": ((8192, 57344, 8192), (4096, 49152, 12288), (8192, 10240, 8192), (1024, 28672, 8192),
                                      (64, 28672, 8192)),
                "linear_reduce_scatter": REDUCING, "linear_all_reduce": REDUCING}),
    # For machines without GPUs, or with fewer than ranks.
    "small": Plan(
        shards=(16384, 65536), reduced=(1024, 65536), spread=(1024, 65536),
        beside_bytes=65536, beside_shape=(128, 96, 64),
        shapes={"all_gather_linear": ((240, 480, 96), ), "linear_reduce_scatter": ((240, 96, 480), ),
                "linear_all_reduce": ((240, 96, 480), )}),
}


def dtypes(device):
    """Of everything, and of what goes on beside a product."""
    return ("bf16", "f16") if device == "cuda" else ("f32", "f32")


def ways(device):
    """How calls are made: each by itself, and where that is possible, many in one CUDA graph."""
    return ("eager", "graph") if device == "cuda" else ("eager", )


def collectives(plan, device, ranks):
    sharded = tuple(ranks * size for size in plan.shards)
    every = ways(device)
    return (
        Collective("all_gather", sharded, every, ("apart", "in place")),
        Collective("reduce_scatter", sharded, every, ("apart", "in place")),
        # All reductions are compared in one way: in place, as most peers do them, and as graphs where there are any.
        Collective("all_reduce", plan.reduced, every[-1:], ("in place", )),
        Collective("all_to_all", sharded, every, ("apart", )),
        Collective("broadcast", plan.spread, every, ("in place", )),
    )


def shapes_in(plan, way):
    """{operation: its shapes} of linear operations that are called in this way."""
    return {operation: tuple(shape for shape in shapes if way == "eager" or shape[0] <= FEW_TOKENS)
            for operation, shapes in plan.shapes.items()}


def most_bytes(plan, ranks):
    """What the largest case has in tensors that ranks read from one another, in 2 bytes an element or as many as that."""
    exchanges = [2 * ranks * size for size in plan.shards]
    gathers = [(ranks + 1) * plan.beside_bytes]
    gathers += [2 * 4 * m * k for m, _, k in plan.shapes["all_gather_linear"]]
    sums = [2 * 4 * m * n for name in ("linear_reduce_scatter", "linear_all_reduce") for m, n, _ in plan.shapes[name]]
    return max(*exchanges, *gathers, *sums, *(2 * size for size in plan.reduced), *plan.spread)


def tandem_runs(plan, device, ranks, iterations, calls, launches):
    """(way, operation, arguments) of each run of `tandem bench`."""
    dtype, beside_dtype = dtypes(device)
    repetitions = {"eager": ["--iters", str(iterations)], "graph": ["--iters", str(calls), "-G", str(launches)]}
    runs = []
    for each in collectives(plan, device, ranks):
        sizes = ["-b", str(each.sizes[0]), "-e", str(each.sizes[-1]), "-f", str(each.sizes[1] // each.sizes[0])]
        form = ["--in-place"] if each.forms == ("in place", ) else []
        runs += [(way, each.operation, ["-d", dtype, *sizes, *form, *repetitions[way]]) for way in each.ways]
    beside = str(plan.beside_bytes * ranks)
    runs.append(("beside", "all_gather", ["-d", beside_dtype, "-b", beside, "-e", beside, "--beside",
                                          ",".join(map(str, plan.beside_shape)), *repetitions["eager"]]))
    for way in ways(device):
        for operation, shapes in shapes_in(plan, way).items():
            given = [word for shape in shapes for word in ("--shape", ",".join(map(str, shape)))]
            runs.append((way, operation, ["-d", dtype, *given, *repetitions[way]]))
    return runs


def add_arguments(parser):
    """What the plan's users are told alike."""
    parser.add_argument("--size", choices=PLANS, default="small", help="node or small (default)")
    parser.add_argument("--device", choices=("host", "cuda"), default="host", help="host (default) or cuda")
    parser.add_argument("--iters", type=int, default=20, help="timed calls (default 20)")
    parser.add_argument("--calls", type=int, default=50, help="calls in a CUDA graph (default 50)")
    parser.add_argument("--launches", type=int, default=10, help="timed launches of a graph (default 10)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    for way, operation, words in tandem_runs(PLANS[options.size], options.device, options.ranks, options.iters,
                                             options.calls, options.launches):
        print(way, operation, *words)


if __name__ == "__main__":
    main()
