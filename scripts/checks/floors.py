#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes look down the floors only, and each library is included only where it belongs.

A file of floor N includes headers of floor N and of those below. Tools and examples lie above all floors. Public
headers include public headers and the standard library. A test of a floor may also use tests/support, and tools the
oracle there, which `tandem verify` compares with; examples use public headers and each other's, as a user does. A
header's name in an include is its path below include, src, tests or examples (of tools, from tools on), so that it says
where the header lies.
"""

import re
import sys

import tree

FLOORS = ["base", "device", "team", "memory", "collective", "linear", "attention", "sharded"]
TOP = len(FLOORS)  # tools, examples, benchmarks, tests/support: above all floors
FOLDERS = ["include", "src", "tests", "examples", "benchmarks"]  # includes are relative to these
SUFFIXES = (".hpp", ".cpp", ".h", ".cuh", ".cu")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')

# (which headers, where they may be included, why)
OWNERS = [
    (re.compile(r"^(fmt|spdlog)/"), re.compile(r"^src/base/(format\.(hpp|cpp)|log\.cpp)$"),
     "text is formatted by base/format.hpp and logged by tandem/base/log.hpp"),
    (re.compile(r"^(cuda|cublas|cudnn|nvtx3?|nccl|nvshmem|nvml|cutlass|cute|cub|thrust|mma)\w*([./]|$)"),
     re.compile(r"^(src|tests|examples)/\w+/cuda/|^benchmarks/|\.cuh?$"),
     "the headers of CUDA and its libraries stay in folders named cuda and in .cu and .cuh"),
    (re.compile(r"^(mpi\.h|gloo/|torch/|ATen/|c10/)"), re.compile(r"^benchmarks/"),
     "MPI, Gloo and torch are for benchmarks"),
    (re.compile(r"^(oneapi/dnnl/|dnnl)"), re.compile(r"^src/device/host/"), "oneDNN is the host device's"),
    (re.compile(r"^(CLI/|nlohmann/)"), re.compile(r"^(tools|tests|examples|benchmarks)/"),
     "command lines and JSON are for tools"),
    (re.compile(r"^(gtest|gmock)/"), re.compile(r"^tests/"), "GoogleTest is for tests"),
]


def floor_of(parts):
    """(floor, kind) of a file by its path; None for one that this check does not know."""
    if parts[:2] == ("include", "tandem") and parts[2] in FLOORS:
        return FLOORS.index(parts[2]), "public"
    if parts == ("include", "tandem", "tandem.hpp"):  # includes what most programs use, of every floor
        return TOP - 1, "public"
    if parts[0] in ("src", "tests") and parts[1] in FLOORS:
        return FLOORS.index(parts[1]), parts[0]
    if parts[:2] in (("tests", "consumer"), ("tests", "snippets")):
        return TOP, "user"
    if parts[0] == "examples":
        return TOP, "user"
    if parts[0] in ("tools", "benchmarks", "tests"):
        return TOP, parts[0]
    return None


def fault(path, parts, header, examples):
    """What is wrong with this file including this header, or None; `examples` are the folders of examples."""
    place = floor_of(parts)
    if place is None:
        return f"lies on no floor: {', '.join(FLOORS)} are known"
    floor, kind = place
    target = header.split("/")
    if {"", ".", ".."} & set(target):
        return f"includes {header}: write its path below an include folder, with neither . nor .. in it"
    if len(target) > 1 and target[0] in FOLDERS and parts[:2] != ("tests", target[0]):
        return f"includes {header}: write what follows {target[0]}/"
    for headers, owners, why in OWNERS:
        if headers.match(header):
            if not owners.search("/".join(parts)):
                return f"includes <{header}>: {why}"
            return None
    public = target[0] == "tandem"
    if public:
        if header == "tandem/tandem.hpp" and kind == "user":
            return None
        target = target[1:]
        if len(target) < 2 or target[0] not in FLOORS:
            return f"includes {header}, which lies on no floor"
    if target[0] in FLOORS and len(target) > 1:
        if FLOORS.index(target[0]) > floor:
            return f"looks up: {FLOORS[floor]} includes {header} of {target[0]}"
        if not public and kind in ("public", "user"):
            return f"includes the internal header {header}"
        return None
    if (target[0] == "tools" or target[0] in examples) and len(target) > 1:
        if floor < TOP:
            return f"looks up: {FLOORS[floor]} includes {header}, which lies above all floors"
        if kind == "user" and (target[0] == "tools" or parts[0] != "examples"):
            return f"includes the internal header {header}"
        return None
    if target[0] == "support" and len(target) > 1:
        oracle = parts[0] == "tools" and header == "support/oracle.hpp"
        return None if parts[0] == "tests" or oracle else f"includes {header} of the tests"
    if kind == "public" and (path.parent / header).is_file():
        return f'includes {header} by a relative path: write "tandem/{parts[2]}/{header}"'
    return None


def main():
    options = tree.arguments(__doc__).parse_args()
    findings = []
    looked_at = 0
    sources = [(path, path.relative_to(options.root).parts) for path in tree.files(options.root, *SUFFIXES)]
    examples = {parts[1] for _, parts in sources if parts[0] == "examples" and len(parts) > 2}
    for path, parts in sources:
        if len(parts) < 2:
            findings.append(f"{path.name}: lies on no floor")
            continue
        looked_at += 1
        for number, line in enumerate(tree.lines(path), start=1):
            match = INCLUDE.match(line)
            wrong = match and fault(path, parts, match[1], examples)
            if wrong:
                findings.append(f"{'/'.join(parts)}:{number}: {wrong}")
    return tree.report("floors", findings, looked_at)


if __name__ == "__main__":
    sys.exit(main())
