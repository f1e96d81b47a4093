#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts rounds of the transformer layer's figures, Tandem's and PyTorch's, into one table.

    table.py FOLDER

reads FOLDER/tandem.ROUND.json (transformer_layer --json) and FOLDER/pytorch.ROUND.json (pytorch.py --json).
"""

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))

from rounds import expect_same, print_table  # noqa: E402

MODES = ("plain", "compiled", "async")
SAME = ("tokens", "hidden", "mlp", "qkv", "dtype", "seed", "rest", "ranks", "device")


def tandem_rows(document):
    """{(part, pass): {column: us}}, without the parts of a backward pass, which PyTorch does not time separately."""
    return {(row["part"], row["pass"]): {"GEMM": row["gemm_us"], "sequence": row["sequence_us"], "Tandem": row["tandem_us"]}
            for row in document["rows"] if row["pass"] not in ("dgrad", "wgrad")}


def pytorch_rows(document):
    return {(row["part"], row["pass"]): {mode: row[f"{mode}_us"] for mode in MODES if f"{mode}_us" in row}
            for row in document["rows"]}


def medians(rounds):
    """{(part, pass): {column: median of the rounds}}, in the order of the first."""
    out = {}
    for rows in rounds:
        for place, columns in rows.items():
            for column, us in columns.items():
                out.setdefault(place, {}).setdefault(column, []).append(us)
    return {place: {column: statistics.median(us) for column, us in columns.items()} for place, columns in out.items()}


def verdict(name, rounds):
    """One line: how many elements were wrong in all rounds of one program or mode."""
    return (f"# {name}: {sum(r['compared'] for r in rounds)} elements compared, #wrong {sum(r['wrong'] for r in rounds)}, "
            f"largest error {max(r['worst'] for r in rounds):.3f} of the bound")


def render(tandem, pytorch):
    """(the lines of the table, whether nothing was wrong)."""
    wrong = sum(document["wrong"] for document in tandem)
    first = tandem[0]
    lines = [f"# linear parts of one layer: {first['tokens']} tokens, hidden {first['hidden']}, MLP {first['mlp']}, QKV "
             f"{first['qkv']}; {first['dtype']}, {first['ranks']} ranks on {first['device']}" +
             (f", which rests {first['rest']} ms in front of each run" if first["rest"] else "") +
             ("; Tandem keeps what it gathers" if first["keeps_gathered"] else "")]
    expect_same(tandem + pytorch, SAME)
    lines.append(verdict("Tandem, by itself", tandem))
    rows = medians([tandem_rows(document) for document in tandem])
    columns = ["GEMM", "sequence", "Tandem"]
    for mode in MODES:
        found = [document["modes"][mode] for document in pytorch if mode in document["modes"]]
        for document in pytorch:
            if mode in document["left_out"]:
                lines.append(f"# PyTorch, {mode}: left out, {document['left_out'][mode]}")
                break
        if found:
            wrong += sum(r["wrong"] for r in found)
            lines.append(verdict(f"PyTorch {pytorch[0]['torch']}, {mode}", found))
            columns.append(mode)
    fused = [document["fused"] for document in pytorch if "fused" in document]
    if fused:
        lines.append(f"# PyTorch, async: {min(fused)} operations of a pass forward and backward are fused")
    saved = [document["saved"] for document in pytorch if "saved" in document]
    if saved:
        wrong += sum(r["wrong"] for r in saved)
        lines.append(verdict("Tandem, by PyTorch", saved) +
                     f"; at most {max(r['apart'] for r in saved):.3f} of both bounds from PyTorch's")
    for place, more in medians([pytorch_rows(document) for document in pytorch]).items():
        rows.setdefault(place, {}).update(more)
    lines.append(f"# us, medians of {len(tandem)} rounds; GEMM: the products alone; ratio: the best of PyTorch / Tandem")
    lines.append(f"{'part':<6}{'pass':<9}" + "".join(f"{column:>12}" for column in columns) + f"{'ratio':>8}")
    for (part, name), figures in rows.items():
        line = f"{part:<6}{name:<9}"
        for column in columns:
            line += f"{figures[column]:>12.1f}" if column in figures else f"{'-':>12}"
        peers = [figures[mode] for mode in MODES if mode in figures]
        line += f"{min(peers) / figures['Tandem']:>8.3f}" if peers and "Tandem" in figures else f"{'-':>8}"
        lines.append(line)
    return lines, wrong == 0


if __name__ == "__main__":
    sys.exit(print_table(__doc__, render))
