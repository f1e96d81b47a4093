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
    gathered: tuple  # bytes a rank gives to all_gather; each a `factor` times the one before
    gather_factor: int
    reduced: tuple  # bytes of all_reduce
    reduce_factor: int
    beside_bytes: int  # a rank gives to the all_gather beside a product
    beside_shape: tuple  # that product's M, N, K
    shapes: dict  # operation: its (M, N, K)


REDUCING = ((8192, 8192, 28672), (8192, 8192, 8192), (4096, 12288, 49152))
PLANS = {
    # The shapes that others publish.
    "node": Plan(
        gathered=(MIB, 8 * MIB, 64 * MIB), gather_factor=8, reduced=tuple(1024 << 2 * i for i in range(9)), reduce_factor=4,
        beside_bytes=64 * MIB, beside_shape=(8192, 8192, 8192),
        shapes={"all_gather_linear": ((8192, 57344, 8192), (4096, 49152, 12288), (8192, 10240, 8192), (1024, 28672, 8192),
                                      (64, 28672, 8192)),
                "linear_reduce_scatter": REDUCING, "linear_all_reduce": REDUCING}),
    # For machines without GPUs, or with fewer than ranks.
    "small": Plan(
        gathered=(16384, 65536), gather_factor=4, reduced=(1024, 65536), reduce_factor=64, beside_bytes=65536,
        beside_shape=(128, 96, 64),
        shapes={"all_gather_linear": ((240, 480, 96), ), "linear_reduce_scatter": ((240, 96, 480), ),
                "linear_all_reduce": ((240, 96, 480), )}),
}


def dtypes(device):
    """Of everything, and of what goes on beside a product."""
    return ("bf16", "f16") if device == "cuda" else ("f32", "f32")


def ways(device):
    """How calls are made: each by itself, and where that is possible, many in one CUDA graph."""
    return ("eager", "graph") if device == "cuda" else ("eager", )


def most_bytes(plan, ranks):
    """What the largest case has in tensors that ranks read from one another, in 2 bytes an element or as many as that."""
    gathers = [(ranks + 1) * size for size in (*plan.gathered, plan.beside_bytes)]
    gathers += [2 * 4 * m * k for m, _, k in plan.shapes["all_gather_linear"]]
    sums = [2 * 4 * m * n for name in ("linear_reduce_scatter", "linear_all_reduce") for m, n, _ in plan.shapes[name]]
    return max(*gathers, *sums, *(2 * size for size in plan.reduced))


def tandem_runs(plan, device, ranks, iterations, calls, launches):
    """(way, operation, arguments) of each run of `tandem bench`. Its size of all_gather is what a rank gets."""
    dtype, beside_dtype = dtypes(device)
    eager = ["--iters", str(iterations)]
    graph = ["--iters", str(calls), "-G", str(launches)]

    def of_sizes(first, last, factor):
        return ["-b", str(first), "-e", str(last), "-f", str(factor)]

    gather = of_sizes(plan.gathered[0] * ranks, plan.gathered[-1] * ranks, plan.gather_factor)
    runs = [("eager", "all_gather", ["-d", dtype, *gather, *eager])]
    if "graph" in ways(device):
        runs.append(("graph", "all_gather", ["-d", dtype, *gather, *graph]))
    # All reductions are compared in one way: in place, as most peers do them, and as graphs where there are any.
    reduce_way = ways(device)[-1]
    runs.append((reduce_way, "all_reduce", ["-d", dtype, *of_sizes(plan.reduced[0], plan.reduced[-1], plan.reduce_factor),
                                            "--in-place", *(graph if reduce_way == "graph" else eager)]))
    beside = plan.beside_bytes * ranks
    runs.append(("beside", "all_gather", ["-d", beside_dtype, *of_sizes(beside, beside, 2), "--beside",
                                          ",".join(map(str, plan.beside_shape)), *eager]))
    for operation, shapes in plan.shapes.items():
        given = [word for shape in shapes for word in ("--shape", ",".join(map(str, shape)))]
        runs.append(("eager", operation, ["-d", dtype, *given, *eager]))
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
