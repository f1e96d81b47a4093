#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source, script and build file begins with the line that names its license."""

import re
import sys

import tree

SUFFIXES = (".hpp", ".cpp", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake", ".cmake.in", ".pml", "CMakeLists.txt", "Makefile",
            ".ci/run")
LINE = re.compile(r"^(//|#|/\*) SPDX-License-Identifier: Apache-2\.0( \*/)?$")


def main():
    options = tree.arguments(__doc__).parse_args()
    findings = []
    sources = [path for path in tree.files(options.root) if path.as_posix().endswith(SUFFIXES)]
    for path in sources:
        head = tree.lines(path)[:2]
        if head and head[0].startswith("#!"):
            head = head[1:]
        if not head or not LINE.match(head[0]):
            findings.append(f"{path.relative_to(options.root)}:1: no 'SPDX-License-Identifier: Apache-2.0' on top")
    return tree.report("spdx", findings, len(sources))


if __name__ == "__main__":
    sys.exit(main())
