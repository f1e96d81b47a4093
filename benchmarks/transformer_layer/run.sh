#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares the linear parts of one transformer layer in Tandem and in PyTorch, in turns, and checks them against each
# other. Build the target transformer_layer first.
set -uo pipefail

usage() {
  cat <<'USAGE'
usage: benchmarks/transformer_layer/run.sh [--ranks N] [--device host|cuda] [--rounds N] [--build DIR] [--python PROGRAM]
                                           [--out DIR] [--modes NAMES] [--rows N] [--size NAME] [--tokens N] [--hidden N]
                                           [--mlp N] [--qkv N] [--dtype NAME] [--iters N] [--warmup N] [--rest MS]
                                           [--seed N] [--keep-gathered]

Tandem and PyTorch run the layer in turns, N rounds long (default 3); the medians of the rounds are printed. Each checks
its results in every round: Tandem a grid of each, PyTorch every element (--rows N: N rows of each). In the first, every
element that Tandem has computed is checked, too, and compared with PyTorch's. --rest MS: the GPUs rest so long in front
of each timed run, in both programs (default 0, each as fast as it queues its runs: a GPU at its power limit is faster
behind a rest, which a program that is slow to queue gives it anyway). In front of a backward pass the forward pass that
leads to it runs, untimed. --keep-gathered: Tandem's column-parallel parts keep the x that they gathered for the way
back, as PyTorch does, in place of gathering it again. --out DIR keeps the rounds' figures.
Example: benchmarks/transformer_layer/run.sh --build build/cuda --device cuda --size llama-70b
USAGE
}

build=build/release
rounds=3
ranks=4
device=host
python=python3
out=
layer=()    # arguments for both
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
    --modes | --rows) pytorch+=("$1" "$2"); shift 2 ;;
    --keep-gathered) tandem+=("$1"); shift ;;
    --size | --tokens | --hidden | --mlp | --qkv | --dtype | --iters | --warmup | --rest | --seed)
      layer+=("$1" "$2")
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=benchmarks/common/rounds.sh
source "$here/../common/rounds.sh"
program=$build/examples/transformer_layer/transformer_layer
needs "$program" transformer_layer
needs "$build/tools/tandem" tandem-cli
into "$out"
has_pytorch=true
has_torch "$python" || has_pytorch=false

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" PYTHONDONTWRITEBYTECODE=1
for ((round = 1; round <= rounds; ++round)); do
  echo "round $round of $rounds" >&2
  save=() compare=()
  if ((round == 1)) && $has_pytorch; then save=(--save "$folder/saved"); fi
  measure tandem 600 "$build/tools/tandem" run -n "$ranks" --device "$device" -- "$program" "${layer[@]}" \
    "${tandem[@]}" "${save[@]}" --json "$out/tandem.$round.json"
  if [[ -f $folder/saved/layer.json ]]; then compare=(--compare "$folder/saved"); fi
  if $has_pytorch; then
    measure pytorch 600 "$python" -m torch.distributed.run --standalone --nproc-per-node "$ranks" "$here/pytorch.py" \
      --device "$device" "${layer[@]}" "${pytorch[@]}" "${compare[@]}" --json "$out/pytorch.$round.json"
    rm -rf "$folder/saved"
  fi
done

python3 "$here/table.py" "$out" || failures=$((failures + 1))
exit $((failures > 0))
