#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares attention to a sequence that the ranks share in Tandem and in PyTorch's context_parallel, in turns. Build the
# target long_sequence first.
set -uo pipefail

usage() {
  cat <<'USAGE'
usage: benchmarks/long_sequence/run.sh [--ranks N] [--device host|cuda] [--rounds N] [--build DIR] [--python PROGRAM]
                                       [--out DIR] [--modes NAMES] [--backends NAMES] [--split NAME] [--deterministic]
                                       [--tokens N] [--batch N] [--heads N] [--kv-heads N] [--head-dim N]
                                       [--dtype NAME] [--mask causal|full] [--iters N] [--warmup N] [--rest MS]

Tandem and PyTorch attend in turns, N rounds long (default 3); the medians of the rounds are printed. Both check their
results in every round. --tokens: of the whole sequence; PyTorch needs a multiple of twice the ranks. --modes: of
PyTorch, some of allgather and alltoall; --backends: its local attentions, some of cudnn, flash and math, of which the
first that gives right results is measured. --split and --deterministic are Tandem's; PyTorch splits a causal sequence
in a zigzag. --rest MS: the GPUs rest so long in front of each run, in both programs. --out DIR keeps the rounds' figures.
Example: benchmarks/long_sequence/run.sh --build build/cuda --device cuda --tokens 32768 --heads 64 --kv-heads 8 \
           --head-dim 128
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
    --modes | --backends) pytorch+=("$1" "$2"); shift 2 ;;
    --split) tandem+=("$1" "$2"); shift 2 ;;
    --deterministic) tandem+=("$1"); shift ;;
    --tokens | --batch | --heads | --kv-heads | --head-dim | --dtype | --mask | --iters | --warmup | --rest)
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
take_turns "$build/examples/long_sequence/long_sequence" long_sequence
