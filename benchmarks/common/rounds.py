# SPDX-License-Identifier: Apache-2.0
"""The figures of several rounds, which benchmarks write as JSON, one document a round."""

import argparse
import json
from pathlib import Path


def load(folder, name):
    """The rounds' documents, sorted."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(f"{name}.*.json"))]


def expect_same(documents, names):
    """Exits unless all rounds have equal values of these names."""
    for document in documents[1:]:
        for name in names:
            if document[name] != documents[0][name]:
                raise SystemExit(f"table.py: one round has {name} {document[name]}, another one {documents[0][name]}")


def print_table(description, render):
    """Prints what `render` makes of the rounds, Tandem's and PyTorch's, in the folder that the command line names; returns
    the exit code: 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    tandem = load(folder, "tandem")
    if not tandem:
        raise SystemExit(f"table.py: {folder} has no tandem.*.json")
    lines, right = render(tandem, load(folder, "pytorch"))
    print("\n".join(lines))
    return 0 if right else 1
