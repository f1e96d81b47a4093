# SPDX-License-Identifier: Apache-2.0
"""The figures of several rounds, which benchmarks write as JSON, one document a round."""

import json


def load(folder, name):
    """The rounds' documents, sorted."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(f"{name}.*.json"))]


def expect_same(documents, names):
    """Exits unless all rounds have equal values of these names."""
    for document in documents[1:]:
        for name in names:
            if document[name] != documents[0][name]:
                raise SystemExit(f"table.py: one round has {name} {document[name]}, another one {documents[0][name]}")
