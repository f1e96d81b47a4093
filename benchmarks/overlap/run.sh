#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures how much of the communication or computation that linear layers could hide over an emulated link they do
# hide: the tables of docs/performance/overlap_on_the_host.md. Build the target tandem-cli first.
set -uo pipefail

usage() {
  cat <<'USAGE'
usage: benchmarks/overlap/run.sh [--ranks "2 3 4"] [--runs N] [--iters N] [--op NAME] [--link LATENCY,BANDWIDTH]
                                 [--build DIR] [--out DIR]

all_gather_linear and linear_reduce_scatter, f32, eight shapes each over their links, by 2, 3 and 4 ranks: 48 cases. All of
them run in turn (`tandem bench OP -n N --device host --link LATENCY,BANDWIDTH --iters 9 --shape M,N,K`), three times over
(--runs N). Of min(t_gemm, t_comm) a case hides t_seq - t_overlap, in percent: the table has the median of its runs, the
least and the most. Below it, each case whose median is less than 80, what each operation hides of all that its cases have
to hide, and how many cases hide 80 or more. --op and --link choose
cases. --out DIR keeps the runs' figures; benchmarks/overlap/table.py DIR prints them again. The cost model chooses, unless
TANDEM_PLAN_CACHE says where `tandem tune` has kept better. Ends with 1 if a result was wrong or a case did not run,
whatever was hidden.
Example: benchmarks/overlap/run.sh --ranks 3 --link 50us,0.5GB/s --runs 9
USAGE
}

# The link, and M,N,K of a gather; for a reduction N and K are swapped. The last three are the default shape of `tandem
# bench`, and GEMMs of 2 ms as in the demo.
cases=('20us,0.2GB/s 1536,2048,512' '20us,0.2GB/s 2048,2048,1024' '20us,0.1GB/s 3072,4096,512' '50us,200MB/s 2048,4096,1024'
       '20us,0.02GB/s 1536,8192,512' '20us,0.2GB/s 512,1024,1024' '50us,0.5GB/s 512,1024,1024' '50us,200MB/s 512,1024,256')

build=build/release
ranks="2 3 4"
runs=3
iters=9
operations=(all_gather_linear linear_reduce_scatter)
only=  # only cases over this link
out=
while (($#)); do
  case $1 in
    --ranks) ranks=$2; shift 2 ;;
    --runs) runs=$2; shift 2 ;;
    --iters) iters=$2; shift 2 ;;
    --op) operations=("$2"); shift 2 ;;
    --link) only=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
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

export TANDEM_PLAN_CACHE="${TANDEM_PLAN_CACHE:-none}"
for ((run = 1; run <= runs; ++run)); do
  echo "run $run of $runs" >&2
  number=100  # files are read in the order of their names
  for operation in "${operations[@]}"; do
    for each in "${cases[@]}"; do
      read -r link shape <<<"$each"
      if [[ -n $only && $link != "$only" ]]; then continue; fi
      IFS=, read -r m n k <<<"$shape"
      if [[ $operation == linear_reduce_scatter ]]; then shape=$m,$k,$n; fi
      for count in $ranks; do
        measure "$operation $shape over $link, $count ranks" 600 "$tandem" bench "$operation" -n "$count" \
          --device host --link "$link" --iters "$iters" --shape "$shape" \
          --json "$out/tandem.$run.$((number++)).json"
      done
    done
  done
done

python3 "$here/table.py" "$out" || failures=$((failures + 1))
exit $((failures > 0))
