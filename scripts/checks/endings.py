#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing in the library ends the process that uses it, nor the context of its GPU: what goes wrong is an exception.

The library is src and include; tools, tests and the processes that they fork may end as they like.
"""

import re
import sys

import tree

SUFFIXES = (".hpp", ".cpp", ".h", ".cuh", ".cu")
STRING = r'"(?:\\.|[^"\\\n])*"'
COMMENT = r"//[^\n]*|/\*.*?\*/"
SKIPPED = re.compile(rf"{STRING}|'(?:\\[^'\n]+|\\'|[^'\\\n])'|{COMMENT}", re.DOTALL)
# Not for members: Team::abort, which takes a reason, ends a team only.
ENDING = re.compile(r"(?<![\w.>:])(?:std\s*::\s*|::\s*)?"
                    r"(?:(?P<name>_?exit|_Exit|quick_exit|terminate|raise|assert|__trap|__builtin_trap)\s*\(|"
                    r"abort\s*\(\s*\))")
TRAP = re.compile(r"\btrap\s*;")  # in PTX, which is text to the host's compiler


def blank(match):
    """As many lines of nothing."""
    return "\n" * match[0].count("\n") or " "


def ends(text):
    """(line, what) for each place of a source that would end its process."""
    code = SKIPPED.sub(blank, text)
    found = [(code.count("\n", 0, match.start()) + 1, match["name"] or "abort") for match in ENDING.finditer(code)]
    assembly = SKIPPED.sub(lambda match: match[0] if match[0].startswith('"') else blank(match), text)
    return sorted(found + [(assembly.count("\n", 0, match.start()) + 1, "trap") for match in TRAP.finditer(assembly)])


def main():
    options = tree.arguments(__doc__).parse_args()
    findings = []
    sources = [path for path in tree.files(options.root, *SUFFIXES)
               if path.relative_to(options.root).parts[0] in ("src", "include")]
    for path in sources:
        for number, what in ends("\n".join(tree.lines(path))):
            findings.append(f"{path.relative_to(options.root)}:{number}: {what} ends the user's process: throw an error")
    return tree.report("endings", findings, len(sources))


if __name__ == "__main__":
    sys.exit(main())
