#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts rounds of sharded layers' figures, Tandem's and PyTorch's, into one table.

    table.py FOLDER

reads FOLDER/tandem.ROUND.json (sharded_layers --json) and FOLDER/pytorch.ROUND.json (pytorch.py --json).
"""

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))

from rounds import expect_same, print_table  # noqa: E402

SAME = ("layers", "tokens", "hidden", "mlp", "dtype", "gradient_dtype", "shard_dtype", "rest", "ranks")


def median(rounds, key):
    return statistics.median(key(document) for document in rounds)


def render(tandem, pytorch):
    """(the lines of the table, whether nothing was wrong)."""
    first = tandem[0]
    expect_same(tandem + pytorch, SAME)
    compute = median(tandem, lambda document: document["compute_us"])
    overlap = median(tandem, lambda document: document["overlap_us"])
    sequence = median(tandem, lambda document: document["sequence_us"])
    communication = median(tandem, lambda document: document["communication_us"])
    total = sum(document["wrong"] for document in tandem)
    lines = [f"# {first['layers']} layers of hidden {first['hidden']}, MLP {first['mlp']}; {first['tokens']} tokens a rank; "
             f"{first['dtype']}, shards in {first['shard_dtype']}, gradients in {first['gradient_dtype']}; {first['ranks']} "
             f"ranks",
             f"# us a step, medians of {len(tandem)} rounds; compute: every weight whole on every rank; Tandem's "
             f"communication alone: {communication:.1f}",
             f"{'':<22}{'compute':>12}{'step':>12}{'step/compute':>14}{'/ Tandem':>10}{'#wrong':>8}"]

    def row(name, compute, step, wrong):
        if wrong:
            lines.append(f"{name:<22}{'-':>12}{'-':>12}{'-':>14}{'-':>10}{wrong:>8}")
            return
        ratio = f"{step / overlap:.3f}" if not total else "-"
        lines.append(f"{name:<22}{compute:>12.1f}{step:>12.1f}{step / compute:>14.3f}{ratio:>10}{wrong:>8}")

    row("Tandem", compute, overlap, total)
    row("Tandem, in sequence", compute, sequence, total)
    right = total == 0
    for mode in ("fsdp", "registered", "copy-engine"):
        reasons = [document["left_out"][mode] for document in pytorch if mode in document["left_out"]]
        if reasons:
            lines.append(f"# PyTorch, {mode}: left out, {reasons[0]}")
        found = [document for document in pytorch if mode in document["wrong"]]
        if found:
            wrong = sum(document["wrong"][mode] for document in found)
            right = right and wrong == 0
            timed = [document for document in found if mode in document["us"]] or [{"us": {"compute": 0, mode: 0}}]
            row(f"PyTorch, {mode}", median(timed, lambda document: document["us"]["compute"]),
                median(timed, lambda document, mode=mode: document["us"][mode]), wrong)
    return lines, right


if __name__ == "__main__":
    sys.exit(print_table(__doc__, render))
