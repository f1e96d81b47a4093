#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The linear parts of one transformer layer through PyTorch's tensor parallelism, checked and timed.

    torchrun --standalone --nproc-per-node 4 pytorch.py [--device cuda] [--size llama-70b] [--compare DIR]

The same parts, tensors and splits as examples/transformer_layer: ColwiseParallel and RowwiseParallel, between which
activations are sharded over the tokens. Three ways to run them:

    plain     eager
    compiled  torch.compile
    async     torch.compile with asynchronous tensor parallelism (symmetric memory; CUDA only)

Every result is compared with fp64 sums of the generated tensors. --compare also compares what the example has saved
(transformer_layer --save DIR), with the sums and with PyTorch's own.
"""

import argparse
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import exact
import layer
import values

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    from ranks import agreed, first_line, over_ranks
    from timing import Timing
except ImportError as error:
    sys.exit(f"pytorch.py: no torch ({error})")

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
MODES = ("plain", "compiled", "async")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("host", "cuda"), default="host", help="host (gloo, default) or cuda (NCCL)")
    parser.add_argument("--size", choices=layer.SIZES, default="small")
    for name in ("tokens", "hidden", "mlp", "qkv"):
        parser.add_argument(f"--{name}", type=int, help="instead of the size's")
    parser.add_argument("--dtype", choices=DTYPES, help="default: f32 on the host, bf16 on CUDA")
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--rest", type=int, default=0, metavar="MS", help="the device's rest in front of each timed run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modes", help="some of plain,compiled,async (default: plain on the host, all on CUDA)")
    parser.add_argument("--rows", type=int, help="compare only so many rows of each result, evenly spread")
    parser.add_argument("--compare", type=Path, metavar="DIR", help="what transformer_layer --save has written")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    options = parser.parse_args()
    for name, given in zip(("tokens", "hidden", "mlp", "qkv"), layer.SIZES[options.size]):
        if getattr(options, name) is None:
            setattr(options, name, given)
    options.dtype = options.dtype or ("bf16" if options.device == "cuda" else "f32")
    options.modes = (options.modes or ("plain" if options.device == "host" else ",".join(MODES))).split(",")
    unknown = [mode for mode in options.modes if mode not in MODES]
    if unknown:
        parser.error(f"--modes has {unknown[0]}; allowed: {', '.join(MODES)}")
    return options


def waited(tensor):
    """The tensor, once it is complete: communication at the ends of a part is asynchronous until its result is read."""
    return tensor.wait() if isinstance(tensor, AsyncCollectiveTensor) else tensor


class SplitLinear(nn.Module):
    """One part, split by PyTorch; its inputs and outputs are a rank's local tensors."""

    def __init__(self, part, mesh, weight, sizes):
        super().__init__()
        self.mesh, self.sizes = mesh, sizes
        # A column-parallel layer's input is a shard of the tokens, a row-parallel one's a share of the features.
        self.given = Shard(0) if part.splits_outputs else Shard(1)
        style = (ColwiseParallel(input_layouts=Shard(0)) if part.splits_outputs
                 else RowwiseParallel(output_layouts=Shard(0)))
        linear = nn.Linear(part.inputs, part.outputs, bias=False, dtype=weight.dtype, device="meta")
        self.linear = parallelize_module(linear, mesh, style).to_empty(device=weight.device)
        with torch.no_grad():
            self.linear.weight.to_local().copy_(weight)
        # The size of the whole may be omitted only if all shards have the same size.
        self.even = all(size % mesh.size() == 0 for size in sizes)

    def forward(self, x):
        if not self.even:
            x = DTensor.from_local(x, self.mesh, [self.given], run_check=False, shape=torch.Size(self.sizes),
                                   stride=(self.sizes[1], 1))
        return self.linear(x)


class Layer:
    """The parts, run in one of the modes. The forward pass keeps what the backward pass needs, as autograd does. In a
    model, each part's result is the next one's input: so each is waited for before the next begins."""

    def __init__(self, parts, modules, operands):
        self.parts, self.modules, self.operands = parts, modules, operands
        self.outputs = [None] * len(parts)

    def forward(self, numbers):
        for i in numbers:
            self.outputs[i] = self.modules[i](self.operands[i]["x"])
            waited(self.outputs[i])

    def backward(self, numbers):
        for i in reversed(numbers):
            torch.autograd.backward(self.outputs[i], self.operands[i]["dy"])
            self.operands[i]["x"].grad = waited(self.operands[i]["x"].grad)

    def weight(self, i):
        return self.modules[i].linear.weight  # torch.compile's module passes this on

    def forget(self):
        for i, operand in enumerate(self.operands):
            operand["x"].grad = None
            self.weight(i).grad = None

    def results(self, i):
        gradient = self.weight(i).grad
        return {"y": waited(self.outputs[i]).detach(), "dx": self.operands[i]["x"].grad,
                "dw": gradient.to_local() if isinstance(gradient, DTensor) else gradient}


def make_layer(mode, parts, operands, mesh, options):
    """A layer in this mode that has run once, forward and backward; or the reason why there is none."""
    if mode == "async":
        if options.device != "cuda":
            return None, "needs CUDA"
        try:
            from torch.distributed._symmetric_memory import enable_symm_mem_for_group

            enable_symm_mem_for_group(mesh.get_group().group_name)
        except (ImportError, RuntimeError) as error:
            return None, f"no symmetric memory here ({first_line(error)})"
    modules = [SplitLinear(part, mesh, operand["weight"], layer.sizes_of(part, "x", options.tokens))
               for part, operand in zip(parts, operands)]
    everything = range(len(parts))
    try:
        if mode != "plain":
            # One forward function is compiled for each part and mode; the options distinguish the modes.
            torch._dynamo.config.recompile_limit = 64
            options_of = {"options": {"_micro_pipeline_tp": True}} if mode == "async" else {}
            modules = [torch.compile(module, **options_of) for module in modules]
        made = Layer(parts, modules, operands)
        made.forward(everything)  # compiles forward and backward
        made.backward(everything)
        made.forget()
        return made, ""
    except Exception as error:  # whatever a compiler raises: the others are still worth measuring
        return None, f"failed ({type(error).__name__}: {first_line(error)})"


def fused_operations(made):
    """How many operations of an iteration are GEMMs fused with their communication."""
    everything = range(len(made.parts))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        made.forward(everything)
        made.backward(everything)
    made.forget()
    return sum(event.count for event in profile.key_averages()
               if event.key in ("symm_mem::fused_all_gather_matmul", "symm_mem::fused_matmul_reduce_scatter"))


def saved(folder, part, result, like, dtype, device):
    """This rank's block of a result that the example has saved."""
    content = bytearray((folder / f"{part.name}.{result}.{dist.get_rank()}").read_bytes())
    flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
    return flat.reshape(like.shape).to(device)


def check(made, parts, options, device, with_saved):
    """[compared, #wrong, largest error / bound] of PyTorch's results, over all ranks; and the same for the example's,
    with the largest difference between the two, relative to the sum of their bounds."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    everything = range(len(parts))
    made.forward(everything)
    made.backward(everything)
    ours, theirs = [0, 0, 0.0], [0, 0, 0.0, 0.0]
    for i, part in enumerate(parts):
        for result, out in made.results(i).items():
            about = (torch, part, result, options.tokens, options.seed, ranks, rank)
            # A ring rounds at each hop what it has summed.
            own = (out, ranks)
            found = exact.compare(*about, own, only=options.rows)
            ours = [ours[0] + found[0], ours[1] + found[1], max(ours[2], found[2])]
            if with_saved:
                block = saved(options.compare, part, result, out, DTYPES[options.dtype], device)
                found = exact.compare(*about, (block, 1), other=own, only=options.rows)
                theirs = [theirs[0] + found[0], theirs[1] + found[1], max(theirs[2], found[2]),
                          max(theirs[3], found[3])]
    made.forget()
    return over_ranks(ours, device), over_ranks(theirs, device)


def bodies_of(made, count):
    """(part, pass, what runs before, what is timed)."""
    everything = range(count)

    def both():
        made.forward(everything)
        made.backward(everything)

    for i in everything:
        yield i, "forward", made.forget, lambda i=i: made.forward([i])
        yield i, "backward", lambda i=i: (made.forget(), made.forward([i])), lambda i=i: made.backward([i])
    yield None, "forward", made.forget, lambda: made.forward(everything)
    yield None, "backward", lambda: (made.forget(), made.forward(everything)), lambda: made.backward(everything)
    yield None, "both", made.forget, both


def expect_same_layer(options, ranks):
    """Exits unless the saved results are of this layer."""
    document = json.loads((options.compare / "layer.json").read_text(encoding="utf-8"))
    mine = {name: getattr(options, name) for name in ("tokens", "hidden", "mlp", "qkv", "dtype", "seed")} | {"ranks": ranks}
    for name, value in mine.items():
        if document[name] != value:
            sys.exit(f"pytorch.py: {options.compare} has {name} {document[name]}, and here it is {value}")


def main():
    options = arguments()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("pytorch.py: torch has no CUDA device here")
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if options.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
        # GEMMs accumulate in fp32, as Tandem's do.
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=180),
                            **({"device_id": device} if device.type == "cuda" else {}))
    ranks, rank = dist.get_world_size(), dist.get_rank()
    if options.compare:
        expect_same_layer(options, ranks)
    mesh = init_device_mesh(device.type, (ranks,))
    parts = layer.parts_of(options.hidden, options.mlp, options.qkv)
    dtype = DTYPES[options.dtype]

    operands = []
    for part in parts:
        operand = {}
        for tensor, (name, kind) in enumerate((("x", "x"), ("weight", "weight"), ("dy", "y"))):
            rows, columns = layer.block_of(part, kind, options.tokens, ranks, rank)
            operand[name] = values.block(torch, values.key_of(options.seed, 3 * part.number + tensor),
                                         layer.sizes_of(part, kind, options.tokens)[1], rows, columns, dtype, device)
        operand["x"].requires_grad_()
        operands.append(operand)

    def say(text):
        if rank == 0:
            print(text, flush=True)

    say(f"# PyTorch {torch.__version__}, {'NCCL' if device.type == 'cuda' else 'gloo'}: {options.tokens} tokens, hidden "
        f"{options.hidden}, MLP {options.mlp}, QKV {options.qkv}; {options.dtype}, {ranks} ranks on {options.device}, seed "
        f"{options.seed}")
    given = ("tokens", "hidden", "mlp", "qkv", "dtype", "seed", "rest", "device")
    document = {name: getattr(options, name) for name in given}
    document |= {"torch": torch.__version__, "ranks": ranks, "modes": {}, "left_out": {}, "rows": []}
    layers = {}
    for mode in options.modes:
        made, why = make_layer(mode, parts, operands, mesh, options)
        if not agreed(made is not None, device):
            document["left_out"][mode] = why or "failed on another rank"
            say(f"# {mode}: left out, {document['left_out'][mode]}")
            continue
        compare = options.compare is not None and not layers
        ours, theirs = check(made, parts, options, device, compare)
        document["modes"][mode] = {"compared": ours[0], "wrong": ours[1], "worst": ours[2]}
        say(f"# {mode}: {ours[0]} elements compared, #wrong {ours[1]}, largest error {ours[2]:.3f} of the bound")
        if mode == "async":
            document["fused"] = fused_operations(made)
            say(f"# async: {document['fused']} operations of a forward and backward pass are fused with their communication")
        if compare:
            document["saved"] = {"compared": theirs[0], "wrong": theirs[1], "worst": theirs[2], "apart": theirs[3]}
            say(f"# Tandem's: {theirs[0]} elements compared, #wrong {theirs[1]}, largest error {theirs[2]:.3f} of the bound; "
                f"from PyTorch's {theirs[3]:.3f} of both bounds")
        if ours[1] == 0:  # no speed for a wrong result
            layers[mode] = made

    cases = {mode: list(bodies_of(made, len(parts))) for mode, made in layers.items()}
    count = len(next(iter(cases.values()))) if cases else 0
    order = [(mode, number) for number in range(count) for mode in cases]  # all modes of a case in turns
    timing = Timing(device, rest=options.rest * 1e-3)
    medians = timing.in_turns([cases[mode][number][2:] for mode, number in order], options.warmup, options.iters)
    taken = {place: seconds * 1e6 for place, seconds in zip(order, medians)}
    if cases:
        say(f"# us, medians of the slowest rank over {options.iters} iterations")
        say(f"{'part':<6}{'pass':<9}" + "".join(f"{mode:>12}" for mode in cases))
    for number in range(count):
        part, name = next(iter(cases.values()))[number][:2]
        row = {"part": "layer" if part is None else parts[part].name, "pass": name}
        row |= {f"{mode}_us": taken[mode, number] for mode in cases}
        document["rows"].append(row)
        say(f"{row['part']:<6}{name:<9}" + "".join(f"{row[f'{mode}_us']:>12.1f}" for mode in cases))
    if options.json and rank == 0:
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    wrong = sum(mode["wrong"] for mode in document["modes"].values()) + document.get("saved", {}).get("wrong", 0)
    dist.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
