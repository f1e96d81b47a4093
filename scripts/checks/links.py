#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative links in Markdown lead to a file that is there, and to a heading that it has."""

import re
import sys
import unicodedata
from urllib.parse import unquote

import tree

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def prose(path):
    """(number, line) of the lines outside of code blocks."""
    fenced = False
    for number, line in enumerate(tree.lines(path), start=1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(path):
    """The names by which the headings of a Markdown file are linked to."""
    names = set()
    for _, line in prose(path):
        match = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if not match:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).replace("`", "").replace("*", "").lower()
        kept = "".join(c for c in text if c in " -_" or unicodedata.category(c)[0] in "LN")
        name = kept.replace(" ", "-")
        count = 0
        while (name if count == 0 else f"{name}-{count}") in names:
            count += 1
        names.add(name if count == 0 else f"{name}-{count}")
    return names


def fault(path, link):
    """What is wrong with this link in this file, or None."""
    if ELSEWHERE.match(link):
        return None
    name, _, anchor = link.partition("#")
    target = path if not name else (path.parent / unquote(name))
    if not target.exists():
        return f"links to {name}, which is not there"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"links to {link}, but {target.name} has no such heading"
    return None


def main():
    options = tree.arguments(__doc__).parse_args()
    findings = []
    pages = tree.files(options.root, ".md")
    for path in pages:
        for number, line in prose(path):
            for link in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                wrong = fault(path, link)
                if wrong:
                    findings.append(f"{path.relative_to(options.root)}:{number}: {wrong}")
    return tree.report("links", findings, len(pages))


if __name__ == "__main__":
    sys.exit(main())
