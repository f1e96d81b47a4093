#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, with all warnings, in a file that includes nothing else."""

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tree

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]


def generate(include, templates, folder):
    """Writes the headers that CMake generates into a folder, with a 0 for each of CMake's values; returns them."""
    headers = []
    for template in templates:
        headers.append(folder / template.relative_to(include).with_suffix(""))
        headers[-1].parent.mkdir(parents=True, exist_ok=True)
        headers[-1].write_text(re.sub(r"@\w+@", "0", template.read_text(encoding="utf-8")), encoding="utf-8")
    return headers


def compile_alone(compiler, includes, header):
    """What the compiler says about this header, included twice and nothing before it; empty if nothing."""
    name = next(header.relative_to(include) for include in includes if include in header.parents).as_posix()
    run = subprocess.run([compiler, *FLAGS, "-x", "c++", *(f"-I{include}" for include in includes), "-"],
                         input=f'#include "{name}"\n#include "{name}"\n', capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return f"{name}: does not compile alone\n{run.stderr.rstrip()}"
    return run.stderr.rstrip()


def main():
    parser = tree.arguments(__doc__)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"), help="default: $CXX or g++")
    options = parser.parse_args()
    include = options.root / "include"
    headers = [path for path in tree.files(options.root, ".hpp", ".h") if include in path.parents]
    templates = [path for path in tree.files(options.root, ".hpp.in") if include in path.parents]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        includes = [include, Path(folder)]
        headers += generate(include, templates, Path(folder))
        said = list(pool.map(lambda header: compile_alone(options.compiler, includes, header), headers))
    return tree.report("headers", [text for text in said if text], len(headers))


if __name__ == "__main__":
    sys.exit(main())
