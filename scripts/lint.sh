#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/lint.sh [format|tidy|shell|checks]...
# Example: scripts/lint.sh format checks
#
# All lints, or the named ones. None of them changes a file; `git ls-files -- '*.hpp' '*.cpp' | xargs clang-format-19 -i`
# formats. clang-tidy reads build/release/compile_commands.json, so configure that preset first (with TANDEM_BENCHMARKS=ON,
# if benchmarks/ is to be looked at); and the preset cuda, if what only a build with CUDA compiles is. With CI set,
# clang-tidy does a part of its work, several sources at a time, and reads build/lint instead of build/release (cmake
# --preset lint). It does not look at tests/: CONTRIBUTING.md says why.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '/^set /q; 4,$s/^# \{0,1\}//p' scripts/lint.sh
  exit
fi

sources() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r path; do [[ -f $path ]] && echo "$path"; done
}

lint_format() {
  sources '*.hpp' '*.cpp' '*.cuh' '*.cu' | xargs clang-format-19 --dry-run --Werror
}

# Left out in CI: the analyzer's inlining of functions, a check that takes as long as all others for files that include
# large libraries, three checks that GCC's warnings or identifier-naming replace, and one that must see each source
# separately.
half=()
host=release
if [[ -n ${CI:-} ]]; then
  host=lint
  half=(-extra-arg=-Xclang -extra-arg=-analyzer-config -extra-arg=-Xclang -extra-arg=mode=shallow
        "-checks=-performance-unnecessary-value-param,-bugprone-reserved-identifier,-bugprone-standalone-empty,-bugprone-suspicious-semicolon,-readability-duplicate-include")
fi

# tidy FOLDER SOURCES: build/FOLDER has the compile_commands.json, SOURCES is a regular expression. It is a finding if
# no source matches.
tidy() {
  # clang does not know all of GCC's warning names.
  run-clang-tidy-19 -quiet -use-color=0 -j "$(nproc)" -p "build/$1" -extra-arg=-Wno-unknown-warning-option "${half[@]}" "$2" 2>&1 |
    awk '{ print } /^Running clang-tidy for [1-9]/ { some = 1 } END { if (!some) { print "no source was looked at"; exit 1 } }' |
    grep -Ev '^(\[ *[0-9]+/[0-9]+\]|[0-9]+ warnings? (generated|treated)|clang-tidy-19 )'
  return "$((PIPESTATUS[0] | PIPESTATUS[1]))"
}

# with_cuda: writes build/cuda/with_cuda/compile_commands.json, with the sources that depend on CUDA, by their path or
# its macro. Sources that a unity source includes get their own entries; CMake's file belongs to the build and stays.
with_cuda() {
  python3 - <<'PYTHON'
import json
import re
from pathlib import Path

build = Path("build/cuda")
entries = {}  # by source: of one that a test compiles, too, the library's entry
for entry in json.loads((build / "compile_commands.json").read_text()):
    compiled = Path(entry["file"])
    included = re.findall('^#include "(.*)"$', compiled.read_text(), re.MULTILINE) if compiled.suffix == ".cxx" else []
    for source in included or [entry["file"]]:
        name = Path(source).relative_to(Path.cwd()).as_posix()
        if re.match(r"(src|tools|examples|benchmarks)/.*\.cpp$", name) and (
                "cuda" in name or "TANDEM_WITH_CUDA" in Path(source).read_text()):
            command = entry["command"].replace(entry["file"], source)
            entries.setdefault(source, {**entry, "file": source, "command": command})
(build / "with_cuda").mkdir(exist_ok=True)
(build / "with_cuda/compile_commands.json").write_text(json.dumps(list(entries.values())))
PYTHON
}

lint_tidy() {
  local here status=0
  here=$(pwd | sed 's/[][\.*^$+?(){}|]/\\&/g')
  if [[ ! -f build/$host/compile_commands.json ]]; then
    echo "build/$host/compile_commands.json is missing: run cmake --preset $host first"
    return 1
  fi
  # clang-tidy checks little of what a unity source includes, the analyzer nothing: so the text replaces includes.
  find "build/$host" -path '*/Unity/*.cxx' -exec sed --in-place --regexp-extended 's/^#include "(.*\.cpp)"$/cat "\1"/e' {} +
  tidy "$host" "^$here/(build/$host/)?(src|tools|examples|benchmarks)/" || status=1
  if ! grep --quiet "\"file\": .*/benchmarks/" "build/$host/compile_commands.json"; then
    echo "build/$host was configured without TANDEM_BENCHMARKS=ON: benchmarks was not looked at"
  fi
  if [[ -f build/cuda/compile_commands.json ]]; then
    { with_cuda && tidy cuda/with_cuda .; } || status=1
  else
    echo "without build/cuda/compile_commands.json (cmake --preset cuda): what only CUDA's builds have was not looked at"
  fi
  return "$status"
}

lint_shell() {
  sources '*.sh' .ci/run | xargs shellcheck --severity=style
}

lint_checks() {
  local check status=0
  for check in floors headers endings spdx paths links snippets; do
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
