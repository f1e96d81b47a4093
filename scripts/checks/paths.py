#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No file names a place that only one machine has: a home folder, or the folder that someone builds in."""

import re
import sys

import tree

# Written so that it does not match itself.
PLACES = re.compile(r"(?<![\w.$})/-])/(?:" + "|".join(["work", "root", "workspace", r"home/\w+", r"Users/\w+"]) + r")(?=[/\s\"'`:,;)]|$)")


def main():
    options = tree.arguments(__doc__).parse_args()
    findings = []
    paths = tree.files(options.root)
    for path in paths:
        for number, line in enumerate(tree.lines(path), start=1):
            match = PLACES.search(line)
            if match:
                findings.append(f"{path.relative_to(options.root)}:{number}: names {match[0]}, which other machines lack")
    return tree.report("paths", findings, len(paths))


if __name__ == "__main__":
    sys.exit(main())
