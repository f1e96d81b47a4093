#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tandem's peers in PyTorch, checked and timed on one plan.

    torchrun --standalone --nproc-per-node 4 pytorch.py [--device cuda] [--size node] [--memory symmetric|registered]

A process has one kind of symmetric memory, so the peers are of two runs:

    symmetric   gloo or nccl (plain memory), and on symmetric memory one-shot, two-shot (all_reduce) and async-tp; and
                cublasmp, which has memory of its own
    registered  nccl on registered memory: registered (its default policy) and copy-engine (its zero-CTA policy)

Every result is compared with fp64 sums, or with what was sent, of generated tensors before it is timed. All peers of a
place run in turns. With --asked, the ranks run the cases of the plan that turns.py asks them for; else, all.
"""

import argparse
import json
import os
import re
import sys
from datetime import timedelta
from pathlib import Path

sys.path += [str(Path(__file__).resolve().parents[1] / folder) for folder in ("common", "transformer_layer")]

# Multicast stays off, and async TP is the variant that overlaps chunks with GEMMs.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
os.environ |= NO_MULTICAST
os.environ.pop("TORCH_SYMM_MEM_ENABLE_NATIVE_ASYNC_TP", None)

import plan as plans  # noqa: E402
from columns import COLLECTIVES, TIMES, Entry, Place, beside, titled  # noqa: E402

try:
    import torch
    import torch.distributed as dist

    import collectives
    import cublasmp
    import linear
    from asked import asked_for
    from beside import Beside, Product
    from peer import OneShot, Peer, Plain, Symmetric, TwoShot
    from ranks import agreed, first_line, over_ranks
    from timing import Timing
except ImportError as error:
    sys.exit(f"pytorch.py: no torch ({error})")

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    plans.add_arguments(parser)
    parser.add_argument("--memory", choices=("symmetric", "registered"), default="symmetric", help="whose (see above)")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, help="compare only so many rows of each product, evenly spread")
    parser.add_argument("--shared", action="store_true", help="ranks share GPUs: check what can run so, and time nothing")
    parser.add_argument("--asked", type=float, metavar="SECONDS",
                        help="run what the socket that is standard input asks for; end if that takes longer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    options = parser.parse_args()
    if options.memory == "registered" and (options.device == "host" or options.shared):
        parser.error("--memory registered needs a GPU for each rank: NCCL refuses two on one")
    return options


def shared_bytes(mine):
    """The first rank's value, on all ranks."""
    all_of_them = [mine]
    dist.broadcast_object_list(all_of_them, src=0)
    return all_of_them[0]


def captured(body, calls):
    """A CUDA graph of `calls` calls."""
    graph = torch.cuda.CUDAGraph()
    # If a capture fails, this makes the previous stream current again.
    with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(calls):
            body()
    return graph


def copy_engine_group(ranks, device):
    """A group whose NCCL should not use SMs."""
    nccl = dist.ProcessGroupNCCL.Options()
    nccl.config.cta_policy = dist.ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO
    group = dist.new_group(list(range(ranks)), backend="nccl", pg_options=nccl)
    dist.all_reduce(torch.zeros(1, device=device), group=group)  # memory is registered only with existing communicators
    return group


class Comparison:
    """Runs the cases of the plan one after the other, with all peers in turns at each place of a case."""

    def __init__(self, options, device):
        self.options, self.device = options, device
        self.plan = plans.PLANS[options.size]
        self.dtype, self.beside_dtype = plans.dtypes(options.device)
        self.timing = Timing(device, ahead=True)
        self.peers, self.reasons, self.entries, self.notes = [], {}, [], []
        self.fuses = False  # whether there is the memory that async TP needs
        self.cublasmp = None

    def save(self):
        if dist.get_rank() != 0 or not self.options.json:
            return
        left_out = [f"{peer}: left out of {', '.join(places[:2])}{f' and {len(places) - 2} more' if len(places) > 2 else ''}: "
                    f"{reason}" for (peer, reason), places in self.reasons.items()]
        entries = [{"place": vars(entry.place), "peer": entry.peer, "wrong": entry.wrong, "times": entry.times}
                   for entry in self.entries]
        library = "gloo" if dist.get_backend() == "gloo" else "NCCL " + ".".join(map(str, torch.cuda.nccl.version()))
        document = {"ranks": dist.get_world_size(), "device": self.options.device, "torch": torch.__version__,
                    "library": library, "shared": self.options.shared, "left_out": left_out, "notes": self.notes,
                    "entries": entries}
        self.options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")

    def leave_out(self, peer, where, reason):
        self.reasons.setdefault((peer, reason), []).append(where)

    def attempt(self, peer, where, make):
        """What `make` returns, if it succeeds on all ranks; otherwise None, and the reason is recorded."""
        made, why = None, "failed on another rank"
        try:
            made = make()
        except Exception as error:  # whatever a peer raises: the others are still worth measuring
            why = f"{type(error).__name__}: {first_line(error)}"
        if agreed(made is not None, self.device):
            return made
        self.leave_out(peer, where, why)
        return None

    def meet_peers(self):
        """Determines which peers are available."""
        ranks, plain = dist.get_world_size(), Plain(self.device)
        room = 2 * plans.most_bytes(self.plan, ranks)  # for two peers at the same time
        world = dist.group.WORLD
        if self.options.memory == "registered":
            def registered():
                import torch.distributed._symmetric_memory as symmetric_memory

                symmetric_memory.set_backend("NCCL")
                self.leave_out("registered", "broadcast", "NCCL 2.28.9 never ended one of 8 MiB on two H100")
                operations = tuple(operation for operation in COLLECTIVES if operation != "broadcast")
                return Peer("registered", Symmetric(self.device, room, world), operations=operations)

            def copy_engine():
                group = copy_engine_group(ranks, self.device)
                return Peer("copy-engine", Symmetric(self.device, room, group), group, ("all_gather", ), captures=False)

            made = [self.attempt(name, "everything", make)
                    for name, make in (("registered", registered), ("copy-engine", copy_engine))]
            self.peers = [peer for peer in made if peer]
            return
        if not self.options.shared:
            self.peers.append(Peer(dist.get_backend(), plain, captures=self.options.device == "cuda"))
        if self.options.device == "cuda":
            memory = self.attempt("one-shot, two-shot and async-tp", "everything", lambda: Symmetric(self.device, room, world))
            if memory:
                self.peers += [OneShot(memory, world), TwoShot(memory, world)]
                self.fuses = True
            if self.options.shared:
                self.leave_out("cublasmp", "everything", "its NCCL refuses two ranks on one GPU")
                return
            installation = self.attempt("cublasmp", "everything", cublasmp.Installation)
            if installation:
                self.cublasmp = self.attempt("cublasmp", "everything", lambda: cublasmp.Library(
                    installation, dist.get_rank(), ranks, torch.cuda.current_stream().cuda_stream, shared_bytes,
                    lambda yes: agreed(yes, self.device)))

    def checked(self, place, makers, graphs=False):
        """{peer: case} for the peers whose result was right; entries for the others are added."""
        for peer in self.peers:
            peer.memory.begin()
        cases = {}

        def once(make):
            case = make()
            case.prepare()
            case.run()
            if graphs:  # only after an eager run: first runs connect and allocate
                case.prepare()
                captured(case.run, 1).replay()
            return case, case.wrong()

        where = f"{place.operation} {place.what}{', ' + place.way if place.way else ''}"
        for name, make in makers.items():
            made = self.attempt(name, where, lambda make=make: once(make))
            if made is None:
                continue
            case, wrong = made
            wrong = over_ranks([0, wrong, 0.0], self.device)[1]
            if wrong or self.options.shared:
                self.entries.append(Entry(place, name, wrong))
            else:
                cases[name] = case
        return cases

    def time(self, bodies, graphs):
        """Median times of a call, in microseconds."""
        if not bodies:
            return []
        calls, iterations = (self.options.calls, self.options.launches) if graphs else (1, self.options.iters)
        timed = [(lambda: None, captured(body, calls).replay if graphs else body) for body in bodies]
        return [seconds * 1e6 / calls for seconds in self.timing.in_turns(timed, self.options.warmup, iterations)]

    def time_calls(self, place, cases, graphs):
        """Adds the entries of a collective's cases."""
        for case in cases.values():
            case.settle()
        for name, us in zip(cases, self.time([case.run for case in cases.values()], graphs)):
            self.entries.append(Entry(place, name, 0, {"time": us}))
        self.save()

    def time_parts(self, place, cases, graphs=False):
        """Adds the entries of cases that have parts, a sequence and possibly an overlap."""
        bodies = {(name, part): body for name, case in cases.items()
                  for part, body in zip(TIMES, (case.gemm, case.comm, case.sequence, case.overlap)) if body}
        medians = dict(zip(bodies, self.time(bodies.values(), graphs)))
        for name in cases:
            self.entries.append(Entry(place, name, 0, {part: medians.get((name, part)) for part in TIMES}))
        self.save()

    def takers(self, operation, size, graphs=False):
        return [peer for peer in self.peers if peer.takes(operation, size) and (peer.captures or not graphs)]

    def collective(self, case):
        dtype, graphs = DTYPES[self.dtype], case.way == "graph"
        for form in case.forms:
            for size in case.sizes:
                place = Place(case.operation, str(size), self.dtype, f"{case.way}, {form}")
                makers = {peer.name: lambda peer=peer, form=form, size=size: collectives.OF[case.operation](
                    peer, size // dtype.itemsize, dtype, form == "in place", self.options.seed, self.device)
                    for peer in self.takers(case.operation, size, graphs)}
                self.time_calls(place, self.checked(place, makers, graphs), graphs)

    def beside(self, case):
        shape, dtype = case.shape, DTYPES[self.beside_dtype]
        size, = case.sizes
        peers = self.takers("all_gather", size)
        if not peers:
            return
        product = Product(shape, dtype, self.options.seed, self.device, self.options.rows)
        for form in case.forms:
            place = Place(beside(",".join(map(str, shape))), str(size), self.beside_dtype, form)
            makers = {peer.name: lambda peer=peer, form=form: Beside(peer, size // dtype.itemsize, product, dtype,
                                                                     form == "in place", self.options.seed, self.device)
                      for peer in peers}
            self.time_parts(place, self.checked(place, makers))

    def linear(self, case):
        operation, shape, way, graphs = case.operation, case.shape, case.way, case.way == "graph"
        place = Place(operation, ",".join(map(str, shape)), case.dtype or self.dtype, way)
        where, dtype = f"{titled(place)} {place.what}, {way}", DTYPES[place.dtype]
        operands = self.attempt("everyone", where, lambda: linear.Operands(
            operation, shape, dtype, self.options.seed, self.device, self.options.rows))
        if operands is None:
            return
        collective, plain = linear.COLLECTIVES[operation], Peer("plain", Plain(self.device))
        travels = shape[0] * (shape[2] * dtype.itemsize if collective == "all_gather" else
                              shape[1] * operands.out_dtype.itemsize)
        makers = {peer.name: lambda peer=peer: linear.Sequence(peer, operands)
                  for peer in self.takers(collective, travels, graphs)}
        if self.fuses and operation in linear.AsyncTp.OPERATIONS:
            makers["async-tp"] = lambda: linear.AsyncTp(plain, operands)
        if self.cublasmp and case.dtype:
            self.leave_out("cublasmp", where, "it is not asked for 8-bit floats here")
        elif self.cublasmp and graphs:
            self.leave_out("cublasmp", where, "it has one stream, and a graph is captured on another one")
        elif self.cublasmp:
            makers["cublasmp"] = lambda: linear.CublasMp(plain, operands, self.cublasmp, self.dtype)
        self.time_parts(place, self.checked(place, makers, graphs), graphs)

    def look_at_engines(self):
        """Notes what ran the gathers on registered memory, as the profiler saw it: nothing else proves a policy."""
        dtype = DTYPES[self.dtype]
        for peer in self.peers:
            for size in (dist.get_world_size() * shard for shard in self.plan.shards):
                what = f"all_gather {size}, eager, in place"
                peer.memory.begin()
                case = collectives.Gather(peer, size // dtype.itemsize, dtype, True, self.options.seed, self.device)
                case.run()
                names = self.attempt(peer.name, f"the profile of {what}", lambda case=case: ran_on_device(case.run))
                if names is None:
                    continue
                kernels = [name for name in names if re.match(r"nccl\w*Kernel", name)]
                copies = [name for name in names if name.startswith("Memcpy")]
                by = ("kernels: " + ", ".join(kernels) if kernels else
                      "copies alone: " + ", ".join(copies) if copies else "nothing that the profiler saw")
                self.notes.append(f"{peer.name}, {what}: {by}")

    def measure(self, case):
        if case.way == "beside":
            self.beside(case)
        elif case.operation in collectives.OF:
            self.collective(case)
        else:
            self.linear(case)
        if self.device.type == "cuda":  # returns the memory that torch has kept
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def finish(self):
        """Adds the final notes."""
        if self.device.type == "cuda":
            self.notes.append("NVLink multicast is off: " + " ".join(f"{name}={value}" for name, value in NO_MULTICAST.items()))
        if self.cublasmp:
            algorithms = ", ".join(f"{operation} {' and '.join(names)}"
                                   for operation, names in self.cublasmp.algorithms.items())
            self.notes.append(f"cublasmp is version {self.cublasmp.version()}; its algorithms: {algorithms}")
        if self.options.memory == "registered" and dist.get_world_size() > 1:
            self.look_at_engines()
        self.save()

    def run(self):
        self.meet_peers()
        self.save()
        cases = {case.name: case for case in plans.cases(self.plan, self.options.device, dist.get_world_size())}
        for case in asked_for(cases, self.options.asked) if self.options.asked else cases.values():
            self.measure(case)
        self.finish()


def ran_on_device(body):
    """The names of the kernels and copies that `body` starts."""
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CPU, activity.CUDA]) as profile:
        body()
        torch.cuda.synchronize()
    names = (event.key.split("(")[0].strip() for event in profile.key_averages()
             if event.device_type == torch.autograd.DeviceType.CUDA)
    return sorted(set(names))


def main():
    options = arguments()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("pytorch.py: torch has no CUDA device here")
    local = int(os.environ.get("LOCAL_RANK", "0"))
    timeout = timedelta(seconds=120)
    if options.device == "host":
        dist.init_process_group("gloo", timeout=timeout)
        comparison = Comparison(options, torch.device("cpu"))
        comparison.run()
    else:
        device = torch.device("cuda", local % torch.cuda.device_count())
        torch.cuda.set_device(device)
        # GEMMs accumulate in fp32, as Tandem's do.
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        if options.shared:
            os.environ["TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"] = "1"
            dist.init_process_group("gloo", timeout=timeout)
        else:
            dist.init_process_group("nccl", timeout=timeout, device_id=device)
        # NCCL's copy-engine collectives do not support the default stream.
        with torch.cuda.stream(torch.cuda.Stream()):
            comparison = Comparison(options, device)
            comparison.run()
            torch.cuda.synchronize()
    wrong = sum(entry.wrong for entry in comparison.entries)
    dist.barrier()
    dist.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
