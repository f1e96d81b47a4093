#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares Tandem with its peers on the same shapes, in turns, in the same columns. Build the target tandem-cli first.
set -uo pipefail

usage() {
  cat <<'USAGE'
usage: benchmarks/peers/run.sh [--ranks N] [--device host|cuda] [--size small|node] [--only PATTERN] [--rounds N]
                               [--limit SECONDS] [--build DIR] [--python PROGRAM] [--out DIR] [--iters N] [--calls N]
                               [--launches N] [--rows N] [--plot FILE]

all_gather, reduce_scatter, all_reduce, all_to_all, broadcast, a gather beside a product, and linear layers with their
communication, in 16 bits and on CUDA also in 8: through Tandem and PyTorch (on CUDA with NCCL, NCCL on registered memory,
NCCL's copy-engine policy, symmetric memory's one-shot and two-shot all_reduce, async TP; on the host with gloo); the
layers of 16 bits on CUDA through cuBLASMp, too. On CUDA, collectives and linear layers of few tokens also in graphs. N
rounds (default 3): in each, one operation or shape after the other is measured through all of them in turns, and who
comes first changes from round to round. After the limit (default 3600 s) nothing more begins; what that leaves out is a
line of the table. The medians of the rounds are printed, then for each place the peer that is fastest there, and where
Tandem is behind a peer, or slower than its own sequence. Every result is checked first (--rows N: N rows of each
product), and a wrong one has no time. A peer that is missing is a line that says why. Where ranks share GPUs, what can
run so is checked, and nothing is timed. cuBLASMp is looked for in Python's packages, by the loader, and in CUBLASMP_HOME.
--size node is what others publish, small (default) is for machines without GPUs. --only PATTERN: only the cases whose
names, such as eager.all_gather and graph.linear_reduce_scatter.64x8192x28672, match this shell pattern. --calls and
--launches are of CUDA graphs. Tandem's plans are not tuned, unless TANDEM_PLAN_CACHE names a plan cache. --out DIR keeps
the rounds' figures; benchmarks/peers/table.py DIR prints them again. --plot FILE draws them (needs matplotlib), as
benchmarks/peers/plot.py DIR -o FILE does.
Examples:
  benchmarks/peers/run.sh --ranks 2 --rounds 2
  benchmarks/peers/run.sh --build build/cuda --device cuda --size node --ranks 4
  benchmarks/peers/run.sh --build build/cuda --device cuda --size node --ranks 4 --only 'graph.*linear*'
USAGE
}

build=build/release
rounds=3
ranks=4
device=host
python=python3
out=
limit=3600
only='*'
picture=
plan=()     # arguments for all programs
pytorch=()  # additional arguments for PyTorch
while (($#)); do
  case $1 in
    --ranks) ranks=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --limit) limit=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --device) device=$2; shift 2 ;;
    --python) python=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --plot) picture=$2; shift 2 ;;
    --rows) pytorch+=("$1" "$2"); shift 2 ;;
    --size | --iters | --calls | --launches) plan+=("$1" "$2"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=benchmarks/common/rounds.sh
source "$here/../common/rounds.sh"
tandem=$build/tools/tandem
needs "$tandem" tandem-cli
into "$out"

# left_out NAME REASON: adds a line to the table.
left_out() { echo "$1: $2" >>"$out/left_out.txt"; }
: >"$out/left_out.txt"

memories=(symmetric)  # the kinds of memory whose peers run
if [[ $device == cuda ]]; then
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || gpus=0
  if ((ranks > gpus)); then
    pytorch+=(--shared)
    left_out nccl "it refuses two ranks on one GPU, and here $ranks ranks share $gpus"
    left_out "registered and copy-engine" "they are NCCL's"
  else
    memories+=(registered)
  fi
fi
if ! has_torch "$python" >"$folder/torch"; then
  left_out pytorch "$python has no torch"
  memories=()
fi

export TANDEM_PLAN_CACHE="${TANDEM_PLAN_CACHE:-none}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" PYTHONDONTWRITEBYTECODE=1
status=0
python3 "$here/turns.py" --tandem "$tandem" --out "$out" --ranks "$ranks" --rounds "$rounds" --limit $((limit - SECONDS)) \
  --only "$only" --python "$python" "${memories[@]/#/--memory=}" --device "$device" "${plan[@]}" -- "${pytorch[@]}" || status=1
python3 "$here/table.py" "$out" || status=1
[[ -z $picture ]] || python3 "$here/plot.py" "$out" -o "$picture" --title "$ranks ranks on $device" || status=1
exit $status
