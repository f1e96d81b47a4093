#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what a Debian 12 or Ubuntu 24.04 machine lacks. It prints what it installs, and does nothing if all is there.
# Without root (and without sudo that asks for no password) it says what to install, and ends with 1.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: scripts/install_dependencies.sh [--for PURPOSE]... [--list]

  --for PURPOSE   test (default): compiler, build tools, libraries, GoogleTest
                  demo:  what test needs, and matplotlib for the picture
                  lint:  what test needs, clang-format, clang-tidy, shellcheck
                  bench: what test needs, Open MPI, Gloo and Google Benchmark to compare with
                  ci:    all of these, MPICH for its launcher, spin for the model of the protocol, and ccache
  --list          say what is missing, and install nothing
USAGE
}

purposes=()
list=false
while (($#)); do
  case $1 in
    --for)
      case ${2:-} in
        test | demo | lint | bench | ci) purposes+=("$2") ;;
        *) echo "install_dependencies.sh: --for takes test, demo, lint, bench or ci, not '${2:-}'" >&2; exit 2 ;;
      esac
      shift 2 ;;
    --list) list=true; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "install_dependencies.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done
((${#purposes[@]})) || purposes=(test)

# A package, or alternative names of one, separated by |: the first that this distribution has is installed.
test=(g++ make cmake ninja-build python3 libgtest-dev libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev
      'libdnnl2|libdnnl3' libdnnl-dev pkg-config)
demo=(python3-matplotlib)
lint=(clang-format-19 clang-tidy-19 shellcheck)
bench=(openmpi-bin libopenmpi-dev libgloo-dev libbenchmark-dev)
launchers=(mpich)  # for its mpiexec.hydra; the benchmarks are compiled with Open MPI
model=(spin)
again=(ccache)  # useful where its cache outlives the run

wanted=("${test[@]}")
for purpose in "${purposes[@]}"; do
  case $purpose in
    demo) wanted+=("${demo[@]}") ;;
    lint) wanted+=("${lint[@]}") ;;
    bench) wanted+=("${bench[@]}") ;;
    ci) wanted+=("${demo[@]}" "${lint[@]}" "${bench[@]}" "${launchers[@]}" "${model[@]}" "${again[@]}") ;;
  esac
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install_dependencies.sh: this is neither Debian nor Ubuntu; going on with what is here. Needed are, by Debian's names:"
  printf '  %s\n' "${wanted[@]}"
  exit 0
fi

installed() {
  [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# A tool also counts as present if it was not installed as a package.
present() {
  case $1 in
    g++ | make | cmake | python3 | shellcheck | spin | ccache | clang-format-19 | clang-tidy-19) command -v "$1" >/dev/null || installed "$1" ;;
    ninja-build) command -v ninja >/dev/null || installed "$1" ;;
    *) installed "$1" ;;
  esac
}

missing=()
for entry in "${wanted[@]}"; do
  IFS='|' read -r -a names <<<"$entry"
  found=false
  for name in "${names[@]}"; do
    if present "$name"; then found=true; fi
  done
  $found || missing+=("$entry")
done
((${#missing[@]})) || exit 0

if $list; then
  printf '%s\n' "${missing[@]}"
  exit 0
fi

# The first of an entry's names that this machine's apt knows, or nothing.
known_to_apt() {
  local names name
  IFS='|' read -r -a names <<<"$1"
  for name in "${names[@]}"; do
    if [[ -n $(apt-cache search --names-only "^${name//+/\\+}\$") ]]; then
      echo "$name"
      return
    fi
  done
}

as_root=()
if ((EUID != 0)); then
  if command -v sudo >/dev/null && sudo --non-interactive true 2>/dev/null; then
    as_root=(sudo --non-interactive)
  else
    packages=()
    others=()
    for entry in "${missing[@]}"; do
      chosen=$(known_to_apt "$entry")
      if [[ -z $chosen && $entry == *'|'* ]]; then others+=("$entry"); else packages+=("${chosen:-$entry}"); fi
    done
    echo "Missing: ${missing[*]}" >&2
    echo "This needs root. Run as root, or ask whoever may:" >&2
    echo "  apt-get update" >&2
    if ((${#packages[@]})); then echo "  apt-get install ${packages[*]}" >&2; fi
    for entry in "${others[@]}"; do echo "  apt-get install ${entry//|/ || apt-get install }" >&2; done
    exit 1
  fi
fi

patient=(-o Acquire::Retries=3)  # a mirror may be unreachable for a moment
echo "== Missing: ${missing[*]}"
echo "== apt-get update"
"${as_root[@]}" apt-get "${patient[@]}" update --quiet=2
packages=()
for entry in "${missing[@]}"; do
  chosen=$(known_to_apt "$entry")
  if [[ -z $chosen ]]; then
    echo "install_dependencies.sh: this distribution has no package ${entry//|/ or }" >&2
    exit 1
  fi
  packages+=("$chosen")
done
echo "== apt-get install ${packages[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${patient[@]}" install --yes --quiet --no-install-recommends \
  "${packages[@]}"
