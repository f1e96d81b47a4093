# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Shared by the scripts that run several rounds, which source it.

failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# needs PROGRAM TARGET: exits if PROGRAM, which the target builds, does not exist.
needs() {
  if [[ -x $1 ]]; then return; fi
  echo "run.sh: $1 is not there; build the target $2" >&2
  exit 1
}

# into OUT: sets the folder for the rounds' figures, and removes an earlier run's; a temporary one if OUT is empty.
into() {
  out=$1
  if [[ -z $out ]]; then out=$folder; fi
  mkdir -p "$out" || exit 1
  rm -f "$out"/tandem.*.json "$out"/pytorch.*.json
}

# has_torch PYTHON: whether it has torch; if not, prints so.
has_torch() {
  if "$1" -c 'import torch' >/dev/null 2>&1; then return; fi
  echo "pytorch: left out, since $1 has no torch"
  return 1
}

# take_turns PROGRAM TARGET: runs `rounds` rounds of the program, which the target builds, with the arguments in `both` and
# `tandem`, and of pytorch.py beside the script, with those in `both` and `pytorch`, on `ranks` ranks on `device`; then
# prints the table, and exits.
# shellcheck disable=SC2154  # the script sets what is named above, and build, python, out and here
take_turns() {
  needs "$1" "$2"
  needs "$build/tools/tandem" tandem-cli
  into "$out"
  local has_pytorch=true round
  has_torch "$python" || has_pytorch=false
  export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" PYTHONDONTWRITEBYTECODE=1
  for ((round = 1; round <= rounds; ++round)); do
    echo "round $round of $rounds" >&2
    measure tandem 600 "$build/tools/tandem" run -n "$ranks" --device "$device" -- "$1" "${both[@]}" "${tandem[@]}" \
      --json "$out/tandem.$round.json"
    if $has_pytorch; then
      measure pytorch 600 "$python" -m torch.distributed.run --standalone --nproc-per-node "$ranks" "$here/pytorch.py" \
        --device "$device" "${both[@]}" "${pytorch[@]}" --json "$out/pytorch.$round.json"
    fi
  done
  python3 "$here/table.py" "$out" || failures=$((failures + 1))
  exit $((failures > 0))
}

# measure NAME LIMIT COMMAND...: runs it for at most LIMIT seconds; if it fails, counts that and prints its last lines.
measure() {
  local name=$1 limit=$2 status=0
  shift 2
  timeout --kill-after=10 "$limit" "$@" >"$folder/log" 2>&1 || status=$?
  if ((status == 0)); then return; fi
  failures=$((failures + 1))
  echo "$name: ended with $status; the last that it said:"
  tail -n 15 "$folder/log"
}
