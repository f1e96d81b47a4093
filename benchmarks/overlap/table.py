#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts runs of linear layers over emulated links into one table of how much they hide.

    table.py FOLDER

reads FOLDER/tandem.RUN.CASE.json (tandem bench --json).
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

ENOUGH = 80  # percent
LINK = "emulated link "  # precedes the link in the name of a device


def load(documents):
    """{(operation, link, (M, N, K)): {ranks: [(#wrong, percent hidden, us to hide) of each run]}}, in the documents' order."""
    cases = {}
    for document in documents:
        _, found, link = document["device"].partition(LINK)
        if not found:
            raise SystemExit(f"table.py: a run was on '{document['device']}', without an emulated link")
        for row in document["rows"]:
            case = document["operation"], link, (row["m"], row["n"], row["k"])
            run = row["wrong"], row["hidden_percent"], min(row["t_gemm_us"], row["t_comm_us"])
            cases.setdefault(case, {}).setdefault(document["ranks"], []).append(run)
    return cases


def hidden(runs):
    """The percentages of all runs in order, or none if a result was wrong once."""
    return [] if any(wrong for wrong, _, _ in runs) else sorted(percent for _, percent, _ in runs)


def in_all(cases, operation, teams):
    """The percentage that is hidden of all that an operation's cases on teams of these sizes have to hide. A case
    counts for at most 100 %: an excess in one does not make up for another."""
    hides = has = 0
    for (name, _, _), figures in cases.items():
        for ranks in teams:
            percents = hidden(figures.get(ranks, []))
            if name != operation or not percents:
                continue
            to_hide = statistics.median(us for _, _, us in figures[ranks])
            hides += min(statistics.median(percents), 100) * to_hide
            has += to_hide
    return f"{hides / has:.0f} %" if has else "-"


def text(percents):
    if not percents:
        return "-"
    return f"{statistics.median(percents):.0f} ({percents[0]:.0f} to {percents[-1]:.0f})"


def render(documents):
    """(the lines of the table, whether nothing was wrong)."""
    cases = load(documents)
    teams = sorted({ranks for figures in cases.values() for ranks in figures})
    most = max((len(runs) for figures in cases.values() for runs in figures.values()), default=0)
    lines = ["# hidden = (t_seq - t_overlap) / min(t_gemm, t_comm), in percent: median of the runs (least to most), of which "
             f"there were {most}",
             f"# {'operation':<22} {'link':<14} {'M,N,K':<15}" + "".join(f" {f'{ranks} ranks':>18}" for ranks in teams)]
    below, wrong = [], []
    enough = total = 0
    for (operation, link, shape), figures in cases.items():
        name = ",".join(str(extent) for extent in shape)
        lines.append(f"  {operation:<22} {link:<14} {name:<15}" +
                     "".join(f" {text(hidden(figures.get(ranks, []))):>18}" for ranks in teams))
        for ranks, runs in sorted(figures.items()):
            total += 1
            percents = hidden(runs)
            what = f"{operation} {name} over {link}, {ranks} ranks"
            if not percents:
                wrong.append(f"# wrong: {what}: {sum(count for count, _, _ in runs)} elements")
            elif statistics.median(percents) >= ENOUGH:  # compared unrounded, unlike what is printed above
                enough += 1
            else:
                below.append(f"# less than {ENOUGH} %: {what}: {statistics.median(percents):.1f}")
    sums = [f"# of all that it could, {operation} hides {in_all(cases, operation, teams)}: " +
            ", ".join(f"{in_all(cases, operation, [ranks])} on {ranks} ranks" for ranks in teams)
            for operation in dict.fromkeys(operation for operation, _, _ in cases)]
    return lines + below + wrong + sums + [f"# {enough} of {total} hide {ENOUGH} % or more"], bool(cases) and not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("tandem.*.json"))]
    if not documents:
        sys.exit(f"table.py: {folder} has no tandem.*.json")
    lines, right = render(documents)
    print("\n".join(lines))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
