#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention, forward and backward, to a sequence shared by PyTorch's context_parallel, checked and timed.

    torchrun --standalone --nproc-per-node 4 pytorch.py [--device cuda] [--tokens 32768 --heads 64 --kv-heads 8]

The same attention as in examples/long_sequence, by scaled_dot_product_attention; a causal one with PyTorch's load
balancing, which is the zigzag split. Ways to rotate keys and values (CUDA only):

    allgather  all of them are gathered behind the first local attention
    alltoall   they go around in a ring, from one rank to the next

compute is the local attentions that a rank's queries need, alone.
"""

import argparse
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))

try:
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import _cp_options, set_rotate_method
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from ranks import agreed, first_line
    from timing import Timing
except ImportError as error:
    sys.exit(f"pytorch.py: no torch ({error})")

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
MODES = ("allgather", "alltoall")
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION, "math": SDPBackend.MATH}
DIRECTIONS = ("forward", "backward")
LOCAL = functional.scaled_dot_product_attention  # which context_parallel replaces


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("host", "cuda"), default="host", help="host (gloo, default) or cuda (NCCL)")
    parser.add_argument("--tokens", type=int, default=1024, help="of the whole sequence: a multiple of twice the ranks")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--head-dim", type=int, default=32)
    parser.add_argument("--dtype", choices=DTYPES, help="default: f32 on the host, bf16 on CUDA")
    parser.add_argument("--mask", choices=("causal", "full"), default="causal")
    parser.add_argument("--iters", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--rest", type=int, default=0, metavar="MS", help="the device's rest in front of each run")
    parser.add_argument("--modes", default=",".join(MODES), help=f"some of {','.join(MODES)} (default: all)")
    parser.add_argument("--backends", help=f"some of {','.join(BACKENDS)}: the first that gives right results is measured "
                                           "(default: cudnn,flash on CUDA, flash,math on the host)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    options = parser.parse_args()
    options.dtype = options.dtype or ("bf16" if options.device == "cuda" else "f32")
    options.backends = options.backends or ("cudnn,flash" if options.device == "cuda" else "flash,math")
    for name, allowed in (("modes", MODES), ("backends", BACKENDS)):
        setattr(options, name, getattr(options, name).split(","))
        unknown = [each for each in getattr(options, name) if each not in allowed]
        if unknown:
            parser.error(f"--{name} has {unknown[0]}; allowed: {', '.join(allowed)}")
    return options


class Attention:
    """Queries, keys and values with gradients, and their attention: local, or that of all ranks in a context_parallel."""

    def __init__(self, q, k, v, grad_out, causal):
        self.inputs = [each.detach().requires_grad_() for each in (q, k, v)]
        self.grad_out = grad_out
        self.causal = causal
        self.out = None

    def forward(self, function, backend):
        gqa = {"enable_gqa": True} if self.inputs[0].shape[1] != self.inputs[1].shape[1] else {}
        with sdpa_kernel([BACKENDS[backend]]):
            self.out = function(*self.inputs, is_causal=self.causal, **gqa)

    def backward(self):
        """The gradients of the last forward, as often as wanted."""
        return torch.autograd.grad(self.out, self.inputs, self.grad_out, retain_graph=True)


def whole_sequence(options, device):
    """q, k, v and the gradient of out, the same on every rank: [batch, heads, tokens, head_dim]."""
    torch.manual_seed(1)
    heads = (options.heads, options.kv_heads, options.kv_heads, options.heads)
    return [torch.randn(options.batch, each, options.tokens, options.head_dim, device=device).to(DTYPES[options.dtype])
            for each in heads]


def local_backend(options, tensors):
    """The first backend that has both directions."""
    why = ""
    for backend in options.backends:
        try:
            attention = Attention(*(each[:, :, :16] for each in tensors), causal=options.mask == "causal")
            attention.forward(LOCAL, backend)
            attention.backward()
            return backend
        except RuntimeError as error:
            why = first_line(error)
    sys.exit(f"pytorch.py: no local attention by {', '.join(options.backends)} ({why})")


def reference(options, backend, tensors):
    """out, dq, dk and dv of a local attention to the whole sequence."""
    attention = Attention(*tensors, causal=options.mask == "causal")
    attention.forward(LOCAL, backend)
    return [attention.out.detach(), *attention.backward()]


def local_blocks(options, own):
    """The local attentions that this rank's queries need. Keys and values of the other ranks have the size of its own,
    which stand for them."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    q, k, v, grad_out = own
    blocks = [Attention(*own, causal=options.mask == "causal")]
    half = q.shape[2] // 2
    for other in range(ranks):
        if other == rank:
            continue
        if options.mask == "full":
            blocks.append(Attention(*own, causal=False))
        elif other < rank:  # all queries see the first half of its keys, and none the second
            blocks.append(Attention(q, k[:, :, :half], v[:, :, :half], grad_out, causal=False))
        else:  # the second half of the queries sees all of its keys, the first half none
            blocks.append(Attention(q[:, :, half:], k, v, grad_out[:, :, half:], causal=False))
    return blocks


def shared(mesh, tensors):
    """context_parallel, in which the tensors are this rank's part."""
    return context_parallel(mesh, buffers=tensors, buffer_seq_dims=[2] * 4 + [0], no_restore_buffers=set(tensors))


def count_wrong(attention, wanted):
    """Elements of out, and of the gradients, that differ from the whole sequence's by more than 8 roundings (f32: 128) of
    their size and of the root mean squares of their row and of all rows: as examples/long_sequence counts them."""
    dtype = attention.out.dtype
    error = (128 if dtype == torch.float32 else 8) * torch.finfo(dtype).eps / 2
    wrong = []
    for a, b in zip([attention.out.detach(), *attention.backward()], wanted):
        a, b = a.float(), b.float()
        squares = b.square()
        bound = error * (b.abs() + squares.mean(-1, keepdim=True).sqrt() + squares.mean().sqrt())
        wrong.append(int((~(bound.isfinite() & ((a - b).abs() <= bound))).sum().item()))
    totals = torch.tensor([wrong[0], sum(wrong[1:])], device=attention.out.device)
    dist.all_reduce(totals)
    return dict(zip(DIRECTIONS, totals.tolist()))


def first_right(mode, options, own, wanted, device):
    """(attention, backend, wrong, why): of the first backend whose results are right, else of the last that has some;
    without any, attention is None."""
    made, why = (None, "", None), "needs CUDA"
    for backend in options.backends if device.type == "cuda" else ():
        attention = Attention(*own, causal=options.mask == "causal")
        try:
            set_rotate_method(mode)
            attention.forward(functional.scaled_dot_product_attention, backend)
            attention.backward()
            failed = ""
        except Exception as error:  # whatever a library raises: the others are still worth measuring
            failed = f"by {backend}: failed ({type(error).__name__}: {first_line(error)})"
        if not agreed(not failed, device):
            why = failed or f"by {backend}: failed on another rank"
            continue
        made = (attention, backend, count_wrong(attention, wanted))
        if not any(made[2].values()):
            break
    return (*made, why)


def timed(options, attentions, blocks, backend, device):
    """Microseconds by name and direction, of `attentions` by mode and of the local blocks: compute."""
    bodies = {}

    def of_blocks():
        for block in blocks:
            block.forward(LOCAL, backend)

    def of_gradients():
        for block in blocks:
            block.backward()

    bodies["compute", "forward"], bodies["compute", "backward"] = of_blocks, of_gradients
    for mode, (attention, of_mode) in attentions.items():
        def forward(mode=mode, attention=attention, of_mode=of_mode):
            set_rotate_method(mode)
            attention.forward(functional.scaled_dot_product_attention, of_mode)

        def backward(mode=mode, attention=attention):
            set_rotate_method(mode)
            attention.backward()

        bodies[mode, "forward"], bodies[mode, "backward"] = forward, backward
    timing = Timing(device, rest=options.rest * 1e-3)
    seconds = timing.in_turns([(lambda: None, body) for body in bodies.values()], options.warmup, options.iters)
    found = {}
    for (name, direction), each in zip(bodies, seconds):
        found.setdefault(name, {})[direction] = each * 1e6
    return found


def main():
    options = arguments()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("pytorch.py: torch has no CUDA device here")
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if options.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=180),
                            **({"device_id": device} if device.type == "cuda" else {}))
    ranks, rank = dist.get_world_size(), dist.get_rank()
    if options.tokens % (2 * ranks):
        sys.exit(f"pytorch.py: {options.tokens} tokens; PyTorch needs a multiple of {2 * ranks}, twice the ranks")

    def say(text):
        if rank == 0:
            print(text, flush=True)

    given = ("tokens", "batch", "heads", "kv_heads", "head_dim", "dtype", "mask", "rest", "device")
    document = {name: getattr(options, name) for name in given}
    document |= {"torch": torch.__version__, "ranks": ranks, "left_out": {}, "backend": {}, "us": {}, "wrong": {}}
    tensors = whole_sequence(options, device)
    backend = document["backend"]["compute"] = local_backend(options, tensors)
    wanted = reference(options, backend, tensors)
    _cp_options.enable_load_balance = options.mask == "causal"
    positions = torch.arange(options.tokens, device=device)
    mesh = init_device_mesh(device.type, (ranks,))
    with shared(mesh, [*tensors, positions]):
        wanted = [each[:, :, positions] for each in wanted]
        made = {}
        for mode in options.modes:
            attention, of_mode, wrong, why = first_right(mode, options, tensors, wanted, device)
            if attention is None:
                document["left_out"][mode] = why
                say(f"# {mode}: left out, {why}")
                continue
            document["backend"][mode] = of_mode
            document["wrong"][mode] = wrong
            if not any(wrong.values()):  # no speed of a wrong result
                made[mode] = (attention, of_mode)
        document["us"] = timed(options, made, local_blocks(options, tensors), backend, device)
    say(f"# PyTorch {torch.__version__}: attention to {options.tokens} tokens, {options.mask}; batch {options.batch}, "
        f"{options.heads} heads of {options.head_dim}, {options.kv_heads} of keys; {options.dtype}; {ranks} ranks on "
        f"{options.device}")
    for mode, wrong in document["wrong"].items():
        say(f"# {mode}: by {document['backend'][mode]}, #wrong {wrong['forward']} and {wrong['backward']}")
    say(f"{'us':<12}" + "".join(f"{direction:>14}" for direction in DIRECTIONS))
    for name, us in document["us"].items():
        say(f"{name:<12}" + "".join(f"{us[direction]:>14.1f}" for direction in DIRECTIONS))
    if options.json and rank == 0:
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    wrong = sum(sum(each.values()) for each in document["wrong"].values())
    dist.barrier()  # no rank leaves while another still uses its connections
    dist.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
