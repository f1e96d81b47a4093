#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares training steps of layers with sharded parameters in Tandem and in PyTorch's FSDP, in turns. Build the target
# sharded_layers first.
set -uo pipefail

usage() {
  cat <<'USAGE'
usage: benchmarks/sharded_layers/run.sh [--ranks N] [--device host|cuda] [--rounds N] [--build DIR] [--python PROGRAM]
                                        [--out DIR] [--modes NAMES] [--buffers N] [--sms N] [--layers N] [--tokens N]
                                        [--hidden N] [--mlp N] [--dtype NAME] [--gradient-dtype NAME]
                                        [--shard-dtype NAME] [--iters N] [--warmup N] [--rest MS]

Tandem and PyTorch run the steps in turns, N rounds long (default 3); the medians of the rounds are printed. Both check
their gradients in every round. --modes: of PyTorch, some of fsdp, registered and copy-engine. --rest MS: the GPUs rest
so long in front of each step, in both programs. --out DIR keeps the rounds' figures.
Example: benchmarks/sharded_layers/run.sh --build build/cuda --device cuda --layers 8 --hidden 8192 --mlp 28672 \
           --tokens 4096
USAGE
}

build=build/release
rounds=3
ranks=4
device=host
python=python3
out=
both=()     # arguments for both
tandem=()   # additional arguments for Tandem
pytorch=()  # additional arguments for PyTorch
while (($#)); do
  case $1 in
    --ranks) ranks=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --device) device=$2; shift 2 ;;
    --python) python=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --modes) pytorch+=("$1" "$2"); shift 2 ;;
    --buffers | --sms) tandem+=("$1" "$2"); shift 2 ;;
    --layers | --tokens | --hidden | --mlp | --dtype | --gradient-dtype | --shard-dtype | --iters | --warmup | --rest)
      both+=("$1" "$2")
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=benchmarks/common/rounds.sh
source "$here/../common/rounds.sh"
take_turns "$build/examples/sharded_layers/sharded_layers" sharded_layers
