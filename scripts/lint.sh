#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/lint.sh [format|tidy|shell|checks]...
#
# All lints, or the named ones. None of them changes a file; `git ls-files -- '*.hpp' '*.cpp' | xargs clang-format-19 -i`
# formats. clang-tidy reads build/release/compile_commands.json, so configure that preset first.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

sources() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r path; do [[ -f $path ]] && echo "$path"; done
}

lint_format() {
  sources '*.hpp' '*.cpp' '*.cuh' '*.cu' | xargs clang-format-19 --dry-run --Werror
}

lint_tidy() {
  local commands=build/release/compile_commands.json
  if [[ ! -f $commands ]]; then
    echo "$commands is missing: run cmake --preset release first"
    return 1
  fi
  # GCC's warning names mean nothing to clang.
  run-clang-tidy-19 -quiet -use-color=0 -j "$(nproc)" -p build/release -extra-arg=-Wno-unknown-warning-option \
    "^$PWD/(src|tools|examples)/" 2>&1 | grep -Ev '^(\[ *[0-9]+/[0-9]+\]|[0-9]+ warnings? (generated|treated)|clang-tidy-19 )'
  return "${PIPESTATUS[0]}"
}

lint_shell() {
  sources '*.sh' .ci/run | xargs shellcheck --severity=style
}

lint_checks() {
  local check status=0
  for check in floors headers spdx paths links snippets; do
    python3 -B "scripts/checks/$check.py" || status=1
  done
  return "$status"
}

names=("$@")
((${#names[@]})) || names=(format checks shell tidy)
wrong=()
for name in "${names[@]}"; do
  if ! declare -F "lint_$name" >/dev/null; then
    echo "lint.sh: unknown lint '$name'; there are format, tidy, shell and checks" >&2
    exit 2
  fi
  echo "== $name"
  began=$SECONDS
  "lint_$name" || wrong+=("$name")
  echo "== $name: $((SECONDS - began)) s"
done
if ((${#wrong[@]})); then
  echo "lint: findings of ${wrong[*]}"
  exit 1
fi
echo "lint: no findings"
