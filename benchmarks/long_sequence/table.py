#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts rounds of figures of attention to a shared sequence, Tandem's and PyTorch's, into one table.

    table.py FOLDER

reads FOLDER/tandem.ROUND.json (long_sequence --json) and FOLDER/pytorch.ROUND.json (pytorch.py --json).
"""

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))

from rounds import expect_same, print_table  # noqa: E402

SAME = ("tokens", "batch", "heads", "kv_heads", "head_dim", "dtype", "mask", "rest", "ranks")
MODES = ("allgather", "alltoall")


def median(figures):
    """None if one is unknown, or there are none."""
    figures = list(figures)
    return statistics.median(figures) if figures and None not in figures else None


def row(name, compute, time, tandem, wrong):
    if wrong:
        compute = time = None  # no speed of a wrong result
    us = [f"{each:.1f}" if each is not None else "-" for each in (compute, time)]
    ratios = [f"{time / other:.3f}" if time is not None and other is not None else "-" for other in (compute, tandem)]
    return f"{name:<22}{us[0]:>12}{us[1]:>12}{ratios[0]:>14}{ratios[1]:>10}{wrong:>8}"


def of_direction(direction, tandem, pytorch):
    """(the lines of one direction, whether nothing was wrong)."""
    mine = [document[direction] for document in tandem]
    compute, sequence, overlap = (median(each[f"{what}_us"] for each in mine) for what in ("compute", "sequence", "overlap"))
    total = sum(each["wrong"] for each in mine)
    base = None if total else overlap
    lines = [f"{direction:<22}{'compute':>12}{'attention':>12}{'att./compute':>14}{'/ Tandem':>10}{'#wrong':>8}",
             row("Tandem", compute, overlap, base, total),
             row("Tandem, in sequence", compute, sequence, base, total)]
    right = total == 0
    for mode in MODES:
        found = [document for document in pytorch if mode in document["wrong"]]
        if not found:
            continue
        wrong = sum(document["wrong"][mode][direction] for document in found)
        right = right and wrong == 0
        timed = [document["us"] for document in found if mode in document["us"]]
        lines.append(row(f"PyTorch, {mode}", median(us["compute"][direction] for us in timed),
                         median(us[mode][direction] for us in timed), base, wrong))
    return lines, right


def render(tandem, pytorch):
    """(the lines of the table, whether nothing was wrong)."""
    first = tandem[0]
    expect_same(tandem + pytorch, SAME)
    alone = [median(document[direction]["communication_us"] for document in tandem) for direction in ("forward", "backward")]
    lines = [f"# attention to {first['tokens']} tokens, {first['mask']}; batch {first['batch']}, {first['heads']} heads of "
             f"{first['head_dim']}, {first['kv_heads']} of keys; {first['dtype']}; {first['ranks']} ranks",
             f"# us, medians of {len(tandem)} rounds; compute: a rank's local attentions; Tandem's communication alone: "
             f"forward {alone[0]:.1f}, backward {alone[1]:.1f}"]
    for mode in MODES:
        reasons = [document["left_out"][mode] for document in pytorch if mode in document["left_out"]]
        if reasons:
            lines.append(f"# PyTorch, {mode}: left out, {reasons[0]}")
    for name in ("compute", *MODES):
        backends = sorted({document["backend"][name] for document in pytorch if name in document["backend"]})
        if backends:
            lines.append(f"# PyTorch, {name}: by {' and '.join(backends)}")
    right = True
    for direction in ("forward", "backward"):
        more, right_too = of_direction(direction, tandem, pytorch)
        lines += more
        right = right and right_too
    return lines, right


if __name__ == "__main__":
    sys.exit(print_table(__doc__, render))
