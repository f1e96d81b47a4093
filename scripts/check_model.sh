#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/check_model.sh [TEXT]
# Example: scripts/check_model.sh "three ranks"
#
# Checks docs/protocol/signals.pml with spin: the protocol holds in every interleaving of each configuration, and each
# mutation of it is found, in the way that it must show. Ends with 77 (skipped) where spin or a C compiler is missing.
# TEXT limits it to the cases whose name contains it.
set -euo pipefail

only=${1:-}
if [[ $only == -h || $only == --help ]]; then
  sed -n '/^set /q; 4,$s/^# \{0,1\}//p' "$0"
  exit
fi
model=$(cd "$(dirname "$0")/.." && pwd)/docs/protocol/signals.pml
for tool in spin gcc; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: $tool is not installed (scripts/install_dependencies.sh --for ci)"
    exit 77
  fi
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cores=$(nproc)
cases=0
: >"$scratch/lines"

# judge NAME EXPECTED [-DMACRO=VALUE ...]: prints one line that begins with "ok" or "FAILED"; writes to its folder.
judge() {
  local name=$1 expected=$2 optimized=-O1 found states began=$SECONDS
  shift 2
  if [[ $expected != holds ]]; then optimized=-O0; fi  # a mutation is found faster than an optimized check is compiled
  if ! (spin -a "$@" "$model" && gcc $optimized -w -DSAFETY -DCOLLAPSE -DMEMLIM=4096 -o pan pan.c &&
        timeout 300 ./pan -m100000 -w23) >log 2>&1; then
    cat log >&2
    found="no verdict"
  elif grep -q "assertion violated" log; then
    found=wrong
  elif grep -q "invalid end state" <(grep -v "^\s*invalid end states" log); then
    found=stuck
  elif grep -q "errors: 0" log && ! grep -qi "not completed\|max search depth\|out of memory" log; then
    found=holds
  else
    cat log >&2
    found="no verdict"
  fi
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' log)
  if [[ $found == "$expected" ]]; then
    printf 'ok      %-52s %s (%s states, %d s)\n' "$name" "$found" "${states:-0}" $((SECONDS - began))
  else
    printf 'FAILED  %-52s %s, expected: %s\n' "$name" "$found" "$expected"
  fi
}

# check NAME EXPECTED [-DMACRO=VALUE ...]; EXPECTED: holds, wrong (a wrong result is accepted) or stuck (a wait never
# ends). Runs as many cases concurrently as there are cores.
check() {
  [[ $1 == *"$only"* ]] || return 0
  if (($(jobs -rp | wc -l) >= cores)); then wait -n; fi
  cases=$((cases + 1))
  mkdir "$scratch/$cases"
  (cd "$scratch/$cases" && judge "$@") | tee -a "$scratch/lines" &
}

eager="-DCAPTURED=0"
captured="-DCAPTURED=1"
both="-DPLANS=2 -DCAPTURED=2 -DUPWARD=1"
small="-DSLOTS=1 -DITERATIONS=2"
exchange="-DEXCHANGE=1"
opened="-DEXCHANGE=1 -DPULL=1 -DOPENED=1 -DSLOTS=1"
opened_push="-DEXCHANGE=1 -DOPENED=1 -DSLOTS=1"
loan="-DLOAN=1 -DPULL=1 -DSLOTS=1"
two_loans="-DLOAN=1 -DPULL=1"
in_turn="-DLOAN=1 -DPULL=1 -DSLOTS=1 -DROOTED=1 -DRANKS=3"
summed="-DLOAN=1 -DSUMMED=1 -DSLOTS=1"
returns="-DRETURNS=1 -DSLOTS=1"
returns_upward="-DRETURNS=1 -DSLOTS=1 -DRANKS=4 -DUPWARD=1"
meeting_pull="-DMEETING=1 -DPULL=1 -DSLOTS=1"
meeting_push="-DMEETING=1 -DSLOTS=1"

# shellcheck disable=SC2086  # each of these variables is a list of options
{
  check "two ranks, eager" holds $eager -DITERATIONS=5
  check "two ranks, captured" holds $captured -DITERATIONS=5
  check "three ranks, eager" holds $eager -DRANKS=3 $small
  check "three ranks, captured" holds $captured -DRANKS=3 $small
  check "three ranks, upward, two slots, eager" holds $eager -DRANKS=3 -DUPWARD=1 -DITERATIONS=4
  check "three ranks, upward, two slots, captured" holds $captured -DRANKS=3 -DUPWARD=1 -DITERATIONS=4
  check "two ranks, pull, eager" holds $eager -DPULL=1 -DITERATIONS=5
  check "three ranks, pull, eager" holds $eager -DPULL=1 -DRANKS=3 $small
  check "three ranks, pull, upward, two slots, captured" holds $captured -DPULL=1 -DRANKS=3 -DUPWARD=1 -DITERATIONS=4
  check "two ranks, in two parts" holds -DPARTS=2 -DITERATIONS=5
  check "three ranks, in two parts" holds -DPARTS=2 -DRANKS=3 $small
  check "an eager and a captured plan side by side" holds $both -DITERATIONS=4
  check "two eager plans side by side" holds -DPLANS=2 -DUPWARD=1 -DITERATIONS=4
  check "exchange, two ranks, pull" holds $exchange -DPULL=1 -DITERATIONS=5
  check "exchange, two ranks, mail" holds $exchange -DITERATIONS=5
  check "exchange, three ranks, pull" holds $exchange -DPULL=1 -DRANKS=3
  check "exchange, three ranks, mail" holds $exchange -DRANKS=3
  check "exchange, opened, one slot, two ranks" holds $opened -DITERATIONS=5
  check "exchange, opened, one slot, three ranks" holds $opened -DRANKS=3
  check "exchange, opened, one slot, one fails" holds $opened -DFAULTS=1
  check "pushes without credits, opened, one slot, two ranks" holds $opened_push -DITERATIONS=5
  check "pushes without credits, opened, one slot, three ranks" holds $opened_push -DRANKS=3
  check "pushes without credits, opened, one slot, one fails" holds $opened_push -DFAULTS=1
  check "loan, two ranks" holds $loan -DITERATIONS=5
  check "loan, three ranks" holds $loan -DRANKS=3
  check "loan, two tensors in turn, three ranks" holds $two_loans -DRANKS=3
  check "loan, one lends, in turn" holds $in_turn -DITERATIONS=5
  check "loan, one fails" holds $loan -DFAULTS=1
  check "loan, input and sums in place, two ranks" holds $summed -DITERATIONS=5
  check "loan, input and sums in place, three ranks" holds $summed -DRANKS=3 -DITERATIONS=2
  check "loan, input and sums in place, one fails" holds $summed -DFAULTS=1
  check "meeting, two ranks, pull" holds $meeting_pull -DITERATIONS=4
  check "meeting, two ranks, push" holds $meeting_push -DITERATIONS=4
  check "meeting, pull, one fails" holds $meeting_pull -DFAULTS=1 -DITERATIONS=2
  check "meeting, push, one fails" holds $meeting_push -DFAULTS=1 -DITERATIONS=2
  check "returns, two ranks" holds $returns
  check "returns, three ranks" holds $returns -DRANKS=3
  check "returns, four ranks, upward" holds $returns_upward
  check "returns, four ranks, upward, one place" holds $returns_upward -DPLACES=1
  check "two ranks, eager, one fails" holds $eager -DFAULTS=1
  check "two ranks, captured, one fails" holds $captured -DFAULTS=1 $small
  check "three ranks, upward, eager, one fails" holds $eager -DFAULTS=1 -DRANKS=3 -DUPWARD=1 $small
  check "two ranks, pull, eager, one fails" holds $eager -DPULL=1 -DFAULTS=1 $small
  check "two ranks, in two parts, one fails" holds -DPARTS=2 -DFAULTS=1
  check "exchange, two ranks, pull, one fails" holds $exchange -DPULL=1 -DFAULTS=1
  check "exchange, two ranks, mail, one fails" holds $exchange -DFAULTS=1
  check "three ranks, upward, captured, one fails" holds $captured -DFAULTS=1 -DRANKS=3 -DUPWARD=1 $small

  check "mutation: signal before data, eager" wrong $eager -DMUTATION=1
  check "mutation: signal before data, captured" wrong $captured -DMUTATION=1
  check "mutation: credit before the last read, eager" wrong $eager -DMUTATION=2
  check "mutation: credit before the last read, captured" wrong $captured -DMUTATION=2
  check "mutation: credit before the last read, pull" wrong $eager -DPULL=1 -DMUTATION=2
  check "mutation: one slot written without credit, eager" wrong $eager -DMUTATION=3 -DITERATIONS=5
  check "mutation: one slot written without credit, captured" wrong $captured -DMUTATION=3 -DITERATIONS=5
  check "mutation: an eager and a captured plan share words" wrong $both -DMUTATION=4
  check "mutation: two eager plans share words" wrong -DPLANS=2 -DUPWARD=1 -DMUTATION=4
  check "mutation: word reset after the credit" stuck $captured -DMUTATION=5
  check "mutation: credit not reset" wrong $captured -DMUTATION=6 -DITERATIONS=5
  check "mutation: a wait is deaf to failure" stuck $eager -DFAULTS=1 -DMUTATION=7
  check "mutation: only one's own failure is looked at" wrong $eager -DFAULTS=1 -DMUTATION=8
  check "mutation: results count without a check" wrong $eager -DFAULTS=1 -DMUTATION=9
  check "mutation: the second part is not waited for" wrong -DPARTS=2 -DMUTATION=10
  check "mutation: exchange, signal before data, pull" wrong $exchange -DPULL=1 -DMUTATION=1
  check "mutation: exchange, signal before data, mail" wrong $exchange -DMUTATION=1
  check "mutation: exchange, one slot, pull" wrong $exchange -DPULL=1 -DSLOTS=1
  check "mutation: exchange, one slot, mail" wrong $exchange -DSLOTS=1
  check "mutation: exchange, read after the next signal, pull" wrong $exchange -DPULL=1 -DMUTATION=11
  check "mutation: exchange, read after the next signal, mail" wrong $exchange -DMUTATION=11
  check "mutation: exchange, opened, read after the next signal" wrong $opened -DMUTATION=11
  check "mutation: pushes without credits, opened, read late" wrong $opened_push -DMUTATION=11
  check "mutation: exchange, a wait is deaf to failure" stuck $exchange -DFAULTS=1 -DMUTATION=7
  check "mutation: exchange, only one's own failure is looked at" wrong $exchange -DFAULTS=1 -DMUTATION=8
  check "mutation: loan, signal before it says where it lies" wrong $two_loans -DMUTATION=1
  check "mutation: loan, drained before the last read" wrong $loan -DMUTATION=2
  check "mutation: loan, written before it was drained" wrong $loan -DMUTATION=12
  check "mutation: loan, another before it was drained" wrong $two_loans -DMUTATION=12
  check "mutation: loan, one lends and does not wait" wrong $in_turn -DMUTATION=12
  check "mutation: loan, read before it was ready" wrong $loan -DMUTATION=13
  check "mutation: loan, a wait is deaf to failure" stuck $loan -DFAULTS=1 -DMUTATION=7
  check "mutation: loan, only one's own failure is looked at" wrong $loan -DFAULTS=1 -DMUTATION=8
  check "mutation: loan, input read after the sums are lent" wrong $summed -DMUTATION=11
  check "mutation: loan, input written before sums are drained" wrong $summed -DMUTATION=12
  check "mutation: returns, signal before data" wrong $returns_upward -DMUTATION=1
  check "mutation: returns, credit before the last read" wrong $returns_upward -DMUTATION=2
  check "mutation: returns, sent without credit" wrong $returns_upward -DMUTATION=3
  check "mutation: returns, awaited before their step" stuck $returns -DRANKS=3 -DMUTATION=14
  check "mutation: returns, one place for all" stuck $returns -DRANKS=3 -DPLACES=1
  check "mutation: meeting, one block does not wait behind, pull" wrong $meeting_pull -DMUTATION=12
  check "mutation: meeting, one block does not wait behind, push" wrong $meeting_push -DMUTATION=12
  check "mutation: meeting, a block works before it, pull" wrong $meeting_pull -DMUTATION=13
  check "mutation: meeting, a block works before it, push" wrong $meeting_push -DMUTATION=13
  check "mutation: meeting, only one's own failure is looked at" wrong $meeting_pull -DFAULTS=1 -DMUTATION=8
}

wait
passed=$(grep -c '^ok' "$scratch/lines" || true)
echo "the model: $passed as expected, $((cases - passed)) not"
((cases > 0 && passed == cases))
