#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/fetch_cudnn_frontend.sh [--help]
#
# Fetches the headers of cudnn-frontend, from which attention on CUDA devices is compiled, with pip, into ~/.cache/tandem
# (or XDG_CACHE_HOME), where CMake looks for them. Does nothing if they are there, or without a CUDA toolkit that has
# cuDNN's headers. If they cannot be fetched it says so, and ends with 0: Tandem is then built without attention on CUDA.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '/^set /q; 4,$s/^# \{0,1\}//p' "$0"
  exit
fi

nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
found=false
for header in "$toolkit"/include/cudnn.h "$toolkit"/targets/*/include/cudnn.h /usr/include/cudnn.h /usr/include/*/cudnn.h; do
  if [[ -x $nvcc && -f $header ]]; then found=true; fi
done
$found || exit 0

version=$(sed -n 's/^set(TANDEM_CUDNN_FRONTEND \([0-9.]*\)).*/\1/p' "$(dirname "$0")/../cmake/TandemCudnn.cmake")
folder=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tandem/cudnn-frontend-$version
if [[ -f $folder/include/cudnn_frontend.h ]]; then exit 0; fi

part=
trap 'if [[ $part ]]; then rm -rf "$part"; fi' EXIT

# Its steps are chained, since whatever fails is no error of this script's.
fetch() {
  mkdir -p "${folder%/*}" && part=$(mktemp -d "$folder.XXXXXX") &&
    # The wheel for CPython 3.12 on x86-64; all wheels of a version have the same headers.
    echo "nvidia-cudnn-frontend==$version --hash=sha256:8b354a8e550c083eb247f1eb39a7d69a4a269075f5a01e4fcbd2531680b17239" \
      >"$part/wanted" &&
    python3 -m pip download --quiet --disable-pip-version-check --retries 1 --no-deps --require-hashes \
      --only-binary=:all: --implementation cp --python-version 3.12 --platform manylinux_2_28_x86_64 --dest "$part" \
      --requirement "$part/wanted" &&
    python3 -c '
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    names = [name for name in wheel.namelist() if name.startswith("include/") or "/licenses/" in name]
    wheel.extractall(sys.argv[2], names)
' "$part"/*.whl "$part" &&
    rm "$part"/*.whl "$part/wanted" && chmod 755 "$part" && rm -rf "$folder" && mv "$part" "$folder"
}

echo "== Fetching the headers of cudnn-frontend $version from its Python package into $folder"
fetch || echo "They cannot be fetched: Tandem will be built without attention on CUDA"
