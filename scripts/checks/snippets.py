#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C++ in README.md and docs/ is the code that the tests compile and run.

A block of C++ stands under a comment that names where it comes from:

    <!-- snippet: tests/snippets/world.cpp#one -->
    ```cpp
    ...
    ```

and in that file between the lines `// [one]` and `// [/one]`. A block without such a comment is a finding, so that no
C++ in the docs goes untested; `<!-- snippet: none, because ... -->` says why one is not run. `--write` copies the tested
code into the pages.
"""

import re
import sys
import textwrap

import tree

MARK = re.compile(r"^<!-- snippet: (?:(?P<file>[\w./-]+)#(?P<tag>[\w-]+)|none, because (?P<reason>\S.*?)) -->$")
FENCE = re.compile(r"^```(cpp|c\+\+|cc|cuda)$")


class Fault(Exception):
    """A finding, without its place."""


def region(root, name, tag):
    """The tagged lines of a source, moved to the left margin."""
    source = root / name
    if not source.is_file():
        raise Fault(f"{name} is not there")
    if not name.startswith("tests/snippets/") and not name.startswith("examples/"):
        raise Fault(f"{name} is not in tests/snippets or examples, so nothing runs it")
    text = tree.lines(source)
    begins = [i for i, line in enumerate(text) if line.strip() == f"// [{tag}]"]
    ends = [i for i, line in enumerate(text) if line.strip() == f"// [/{tag}]"]
    if len(begins) != 1 or len(ends) != 1 or begins[0] >= ends[0]:
        raise Fault(f"{name} needs one line '// [{tag}]' and, after it, one '// [/{tag}]'")
    return textwrap.dedent("\n".join(text[begins[0] + 1:ends[0]])).splitlines()


def check(root, path):
    """(the page's lines with every snippet as tested, findings, number of blocks)."""
    text = tree.lines(path)
    fresh = []
    findings = []
    blocks = 0
    i = 0
    while i < len(text):
        fresh.append(text[i])
        if not FENCE.match(text[i]):
            i += 1
            continue
        blocks += 1
        try:
            end = text.index("```", i + 1)
        except ValueError:
            findings.append((i + 1, "a code block that does not end"))
            fresh.extend(text[i + 1:])
            break
        block = text[i + 1:end]
        mark = MARK.match(text[i - 1]) if i > 0 else None
        try:
            if mark is None:
                raise Fault("C++ without '<!-- snippet: FILE#TAG -->' in the line above: nothing compiles it")
            if mark["file"]:
                tested = region(root, mark["file"], mark["tag"])
                if tested != block:
                    findings.append((i + 1, f"differs from {mark['file']}#{mark['tag']} (scripts/checks/snippets.py --write)"))
                block = tested
        except Fault as wrong:
            findings.append((i + 1, str(wrong)))
        fresh.extend([*block, "```"])
        i = end + 1
    return fresh, findings, blocks


def main():
    parser = tree.arguments(__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="copy the tested code into the pages")
    options = parser.parse_args()
    docs = options.root / "docs"
    pages = [path for path in tree.files(options.root, ".md") if path.parent == options.root or docs in path.parents]
    found = []
    blocks = 0
    for path in pages:
        fresh, findings, count = check(options.root, path)
        blocks += count
        name = path.relative_to(options.root)
        if options.write and fresh != tree.lines(path):
            path.write_text("\n".join(fresh) + "\n", encoding="utf-8")
            print(f"{name}: written", file=sys.stderr)
            _, findings, _ = check(options.root, path)
        found += [f"{name}:{line}: {what}" for line, what in findings]
    print(f"snippets: {blocks} blocks of C++", file=sys.stderr)
    return tree.report("snippets", found, len(pages))


if __name__ == "__main__":
    sys.exit(main())
