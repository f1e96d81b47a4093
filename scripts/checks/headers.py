#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, with all warnings, in a file that includes nothing else."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import tree

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]


def compile_alone(compiler, include, header):
    """What the compiler says about this header, included twice and nothing before it; empty if nothing."""
    name = header.relative_to(include).as_posix()
    run = subprocess.run([compiler, *FLAGS, "-x", "c++", f"-I{include}", "-"],
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
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        said = list(pool.map(lambda header: compile_alone(options.compiler, include, header), headers))
    return tree.report("headers", [text for text in said if text], len(headers))


if __name__ == "__main__":
    sys.exit(main())
