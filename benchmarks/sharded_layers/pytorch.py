#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps, without an optimizer, of MLPs sharded by PyTorch's FSDP (fully_shard), checked and timed.

    torchrun --standalone --nproc-per-node 4 pytorch.py [--device cuda] [--layers 8 --hidden 8192 --mlp 28672]

The same layers as examples/sharded_layers, each a group of FSDP's. Ways to communicate:

    fsdp         NCCL (gloo on the host), as fully_shard does it by default
    registered   memory that is allocated by the process group, which NCCL registers (CUDA only)
    copy-engine  symmetric memory and NCCL's zero-CTA policy: gathers by copy engines (CUDA only)
"""

import argparse
import copy
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    from ranks import agreed, first_line
    from timing import Timing
except ImportError as error:
    sys.exit(f"pytorch.py: no torch ({error})")

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
MODES = ("fsdp", "registered", "copy-engine")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("host", "cuda"), default="host", help="host (gloo, default) or cuda (NCCL)")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64, help="of each rank")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--mlp", type=int, default=512)
    parser.add_argument("--dtype", choices=DTYPES, help="default: f32 on the host, bf16 on CUDA")
    parser.add_argument("--gradient-dtype", choices=DTYPES, help="that gradients are reduced in (default: the dtype)")
    parser.add_argument("--shard-dtype", choices=DTYPES, help="of the shards (default: the dtype)")
    parser.add_argument("--iters", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--rest", type=int, default=0, metavar="MS", help="the device's rest in front of each step")
    parser.add_argument("--modes", help=f"some of {','.join(MODES)} (default: fsdp on the host, all on CUDA)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    options = parser.parse_args()
    options.dtype = options.dtype or ("bf16" if options.device == "cuda" else "f32")
    options.gradient_dtype = options.gradient_dtype or options.dtype
    options.shard_dtype = options.shard_dtype or options.dtype
    options.modes = (options.modes or ("fsdp" if options.device == "host" else ",".join(MODES))).split(",")
    unknown = [mode for mode in options.modes if mode not in MODES]
    if unknown:
        parser.error(f"--modes has {unknown[0]}; allowed: {', '.join(MODES)}")
    return options


class Mlp(nn.Module):
    def __init__(self, options, device):
        super().__init__()
        like = {"bias": False, "dtype": DTYPES[options.dtype], "device": device}
        self.up = nn.Linear(options.hidden, options.mlp, **like)
        self.down = nn.Linear(options.mlp, options.hidden, **like)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x), approximate="tanh"))


def whole_layers(options, device):
    """The layers, whole on every rank, with equal weights."""
    torch.manual_seed(1)
    layers = nn.Sequential(*(Mlp(options, device) for _ in range(options.layers)))
    for weight in layers.parameters():
        nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
    return layers


def group_of(mode, device):
    """The process group of a mode."""
    if mode == "fsdp":
        return dist.group.WORLD
    options = dist.ProcessGroupNCCL.Options()
    if mode == "copy-engine":
        options.config.cta_policy = dist.ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO
    group = dist.new_group(backend="nccl", pg_options=options)
    dist.all_reduce(torch.zeros(1, device=device), group=group)  # creates its communicator
    return group


def sharded_layers(mode, whole, options, device):
    """The layers sharded in this mode, after a first step; or None, and why."""
    if mode != "fsdp" and device.type != "cuda":
        return None, "needs CUDA"
    try:
        mesh = DeviceMesh.from_group(group_of(mode, device), device.type)
        reduced = DTYPES[options.gradient_dtype]
        policy = MixedPrecisionPolicy(param_dtype=DTYPES[options.dtype], reduce_dtype=reduced)
        layers = copy.deepcopy(whole).to(DTYPES[options.shard_dtype])
        for layer in layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(layers, mesh=mesh, mp_policy=policy)
        for layer in (*layers, layers):
            if mode == "registered":
                layer.set_allocate_memory_from_process_group_for_comm(True)
            elif mode == "copy-engine":
                if not hasattr(layer, "set_symm_mem_for_comm"):
                    return None, f"PyTorch {torch.__version__} has no set_symm_mem_for_comm"
                layer.set_symm_mem_for_comm("NCCL")
        return layers, ""
    except Exception as error:  # whatever a library raises: the others are still worth measuring
        return None, f"failed ({type(error).__name__}: {first_line(error)})"


def forget(layers, *tensors):
    for tensor in (*layers.parameters(), *tensors):
        tensor.grad = None


def step(layers, x, loss_gradient):
    torch.autograd.backward(layers(x), loss_gradient)


def count_wrong(layers, whole, x, loss_gradient):
    """Elements of this rank's shards that are further from the mean of the ranks' gradients, in f32, than their dtype
    and the ring that sums them explain."""
    wrong = 0
    forget(whole)
    step(whole, x, loss_gradient)
    for mine, reference in zip(layers.parameters(), whole.parameters()):
        mean = reference.grad.float()
        size = mean.abs()
        dist.all_reduce(mean)
        dist.all_reduce(size)
        mean /= dist.get_world_size()
        size /= dist.get_world_size()
        found = mine.grad.full_tensor().float()
        bound = (4 + dist.get_world_size()) * torch.finfo(reference.dtype).eps * size + 1e-6 * size.mean()
        wrong += int(((found - mean).abs() > bound).sum().item() + found.isnan().sum().item())
    forget(whole)
    return wrong


def main():
    options = arguments()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("pytorch.py: torch has no CUDA device here")
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if options.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=180),
                            **({"device_id": device} if device.type == "cuda" else {}))
    ranks, rank = dist.get_world_size(), dist.get_rank()
    whole = whole_layers(options, device)
    torch.manual_seed(1000 + rank)
    x, loss_gradient = (torch.randn(options.tokens, options.hidden, device=device).to(DTYPES[options.dtype])
                        for _ in range(2))
    x.requires_grad_()

    def say(text):
        if rank == 0:
            print(text, flush=True)

    given = ("layers", "tokens", "hidden", "mlp", "dtype", "gradient_dtype", "shard_dtype", "rest", "device")
    document = {name: getattr(options, name) for name in given}
    document |= {"torch": torch.__version__, "ranks": ranks, "left_out": {}, "us": {}, "wrong": {}}
    made = {}
    for mode in options.modes:
        layers, why = sharded_layers(mode, whole, options, device)
        if layers is not None:
            try:
                step(layers, x, loss_gradient)
                document["wrong"][mode] = count_wrong(layers, whole, x, loss_gradient)
                forget(layers)
            except Exception as error:
                layers, why = None, f"failed ({type(error).__name__}: {first_line(error)})"
        if not agreed(layers is not None, device):
            document["left_out"][mode] = why or "failed on another rank"
            say(f"# {mode}: left out, {document['left_out'][mode]}")
            continue
        made[mode] = layers
    made = {mode: layers for mode, layers in made.items() if document["wrong"][mode] == 0}  # no speed of a wrong result
    bodies = [(lambda layers=layers: forget(layers, x), lambda layers=layers: step(layers, x, loss_gradient))
              for layers in (whole, *made.values())]
    timing = Timing(device, rest=options.rest * 1e-3)
    names = ["compute", *made]
    document["us"] = {name: seconds * 1e6 for name, seconds in
                      zip(names, timing.in_turns(bodies, options.warmup, options.iters))}
    say(f"# PyTorch {torch.__version__}: {options.layers} layers of hidden {options.hidden}, MLP {options.mlp}; "
        f"{options.tokens} tokens a rank; {options.dtype}, shards in {options.shard_dtype}, gradients in "
        f"{options.gradient_dtype}; {ranks} ranks on {options.device}")
    for mode, wrong in document["wrong"].items():
        say(f"# {mode}: #wrong {wrong}")
    say("".join(f"{name:>14}" for name in names))
    say("".join(f"{document['us'][name]:>14.1f}" for name in names))
    if options.json and rank == 0:
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    wrong = sum(document["wrong"].values())
    dist.barrier()  # no rank leaves while another still uses its connections
    dist.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
