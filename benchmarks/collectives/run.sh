#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares the collectives of Tandem, Open MPI and Gloo on this machine, in nccl-tests' columns. Build them first with
# -DTANDEM_BENCHMARKS=ON; `make bench` does both.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: benchmarks/collectives/run.sh [--ranks "2 3 4"] [--rounds N] [--build DIR] [--op NAME] [--begin SIZE]
                                     [--end SIZE] [--factor F] [--seconds S] [--data still|fresh]
                                     [--bind core|none]

Sizes are of the whole message, in bytes, or with K, M or G behind the number. Each library runs all of them in turn, N
rounds long (default 3), so that a busy moment of the machine hurts none alone; the medians of the rounds are printed.
"tandem" works on symmetric tensors, "tandem-plain" on any memory. "time" is the median of a round's iterations, each as
long as its slowest rank; "mean" that of iterations one behind the other, as nccl-tests have it. There nobody writes an
input again or reads a result; with --data fresh each rank does both between iterations, as a program would, and all begin
each at one moment. Below the tables: in how many rows Tandem is ahead of the better peer, level with it, and behind, by
either, and each row where it is behind. Ends with 1 if one of Tandem's results was wrong, or a library ended with an
error.
USAGE
}

build=build/release
rounds=3
ranks="2 3 4"
pass=()
while (($#)); do
  case $1 in
    --ranks) ranks=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --op | --begin | --end | --factor | --seconds | --data | --bind) pass+=("$1" "$2"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done

programs=$build/benchmarks/collectives
if [[ ! -x $programs/collectives-tandem ]]; then
  echo "run.sh: $programs/collectives-tandem is not there; configure with -DTANDEM_BENCHMARKS=ON and build" >&2
  exit 1
fi

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
failures=0
measure() { # NAME COMMAND...
  local name=$1
  shift
  if ! timeout 600 "$@" "${pass[@]}" >>"$lines"; then
    failures=$((failures + 1))
    echo "$name: ended with an error, or ran too long"
  fi
}

has_mpi=false
if [[ ! -x $programs/collectives-openmpi ]]; then
  echo "openmpi: left out, since its headers were not found when this was built"
elif ! command -v mpirun >/dev/null; then
  echo "openmpi: left out, since there is no mpirun"
else
  has_mpi=true
fi
has_gloo=true
if [[ ! -x $programs/collectives-gloo ]]; then
  echo "gloo: left out, since its headers or its library were not found when this was built"
  has_gloo=false
fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for n in $ranks; do
  for ((round = 0; round < rounds; ++round)); do
    echo "$n ranks, round $((round + 1)) of $rounds" >&2
    measure tandem "$programs/collectives-tandem" --ranks "$n"
    # mpirun need not pin its ranks: all programs pin themselves in the same way.
    if $has_mpi; then measure openmpi mpirun --oversubscribe --bind-to none -n "$n" "$programs/collectives-openmpi"; fi
    # Except Gloo: its thread for the sockets would have to wait for the core on which its caller spins.
    if $has_gloo; then measure gloo "$programs/collectives-gloo" --ranks "$n" --bind none; fi
  done
done

python3 "$(dirname "${BASH_SOURCE[0]}")/table.py" <"$lines" || failures=$((failures + 1))
exit $((failures > 0))
