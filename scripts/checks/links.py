#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative links in Markdown lead to a file that is there, and to a heading that it has."""

import re
import sys
import unicodedata
from urllib.parse import unquote

import tree

# What a link points to. For a link in brackets only what follows the label is matched, since a label may continue in
# the next line, or contain an image with a target of its own.
TARGET = r"\s*(?:<(?P<{0}_in_angles>[^<>\n]*)>|(?P<{0}>(?:[^\s()<>]|\([^\s()]*\))+))"
TITLE = r"""(?:\s+(?:"[^"]*"|'[^']*'|\([^)]*\)))?"""
LINK = re.compile("|".join([
    r"(?<!\\)\]\(" + TARGET.format("inline") + TITLE + r"\s*\)",                         # [label](target "title")
    r"^[ \t>]*\[(?!\^)[^\]]+\]:" + TARGET.format("reference") + TITLE + r"[ \t]*$",      # [label]: target "title"
    r"""<(?:a|img)\s[^>]*?\b(?:href|src)\s*=\s*(?P<mark>["'])(?P<html>.*?)(?P=mark)""",  # <a href="target">
]), re.MULTILINE | re.IGNORECASE)
# A code span may continue in the next line, but not beyond the end of its paragraph.
CODE = re.compile(r"(?<![`\\])(`+)(?!`)(?:(?!\n\s*(?:\n|[-*+] |\d+[.)] |[#>|])).)*?(?<!`)\1(?!`)", re.DOTALL)
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def prose(path):
    """The lines of a Markdown file, of which those of code blocks are left empty."""
    fenced = False
    for line in tree.lines(path):
        fence = line.lstrip().startswith(("```", "~~~"))
        yield "" if fenced or fence else line
        fenced ^= fence


def links(path):
    """(number of the line, target) of the links outside of code."""
    text = CODE.sub(lambda code: "`" + "\n" * code[0].count("\n"), "\n".join(prose(path)))
    for match in LINK.finditer(text):
        yield text.count("\n", 0, match.start(match.lastgroup)) + 1, match[match.lastgroup]


def anchors(path):
    """The names by which the headings of a Markdown file are linked to."""
    names = set()
    for line in prose(path):
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
        for number, link in links(path):
            wrong = fault(path, link)
            if wrong:
                findings.append(f"{path.relative_to(options.root)}:{number}: {wrong}")
    return tree.report("links", findings, len(pages))


if __name__ == "__main__":
    sys.exit(main())
