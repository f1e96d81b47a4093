# SPDX-License-Identifier: Apache-2.0
"""What the checks share: the project's files, and how a finding is printed."""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def arguments(description):
    """The command line that all checks have: --root, the tree to look at."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to check (default: this project)")
    return parser


def files(root, *suffixes):
    """The project's text files with one of these endings (all of them if none is given), sorted.

    What git tracks or would track; in a tree without git (an archive of a release), everything outside of build folders.
    """
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True, check=False)
    if listing.returncode == 0 and listing.stdout:
        paths = [root / name.decode() for name in listing.stdout.split(b"\0") if name]
    else:
        paths = [path for path in root.rglob("*")
                 if not any(part.startswith("build") or part == ".git" for part in path.relative_to(root).parts)]
    return sorted(path for path in paths if path.is_file() and (not suffixes or path.name.endswith(suffixes)))


def lines(path):
    """The lines of a text file; none for a file that is not text."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []


def report(what, findings, looked_at):
    """Prints findings, one a line, and returns the exit status. A check that looked at nothing has failed."""
    for finding in findings:
        print(finding)
    if not looked_at:
        print(f"{what}: found nothing to look at")
        return 1
    print(f"{what}: {looked_at} looked at, {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0
