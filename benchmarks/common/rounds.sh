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
