# SPDX-License-Identifier: Apache-2.0
"""Turns the output of the collectives benchmarks into one table for each operation and number of ranks, and summarizes
how Tandem compares. Exits with 1 if one of Tandem's results was wrong."""

import statistics
import sys
from collections import defaultdict

ORDER = ["tandem", "tandem-plain", "openmpi", "gloo"]
OURS = ORDER[:2]
MEASURES = ["median", "mean"]  # the first two figures: statistics of the time
LEVEL = 0.05  # times are level if they differ by at most this fraction of the peer's


def load(lines):
    """{(ranks, op): {(size, count, type, redop): {library: (#wrong, (time, mean, algbw, busbw))}}}, all sorted: medians
    of the rounds, with None for the figures if any round was wrong."""
    rounds = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for line in lines:
        library, op, ranks, size, count, dtype, redop, time, mean, algbw, busbw, wrong = line.split()
        measured = (int(wrong), float(time), float(mean), float(algbw), float(busbw))
        rounds[int(ranks), op][int(size), int(count), dtype, redop][library].append(measured)

    def together(runs):
        wrong, *figures = zip(*runs)
        return sum(wrong), None if any(wrong) else tuple(statistics.median(figure) for figure in figures)

    return {case: {row: {library: together(libraries[library]) for library in sorted(libraries, key=ORDER.index)}
                   for row, libraries in sorted(rows.items())} for case, rows in sorted(rounds.items())}


def table(cases):
    lines = []
    for (ranks, op), rows in cases.items():
        lines += [f"\n{op}, {ranks} ranks",
                  f"{'library':>14}{'size':>12}{'count':>12}{'type':>7}{'redop':>7}{'time':>12}{'mean':>12}{'algbw':>9}"
                  f"{'busbw':>9}"
                  f"{'#wrong':>8}",
                  f"{'':>14}{'(B)':>12}{'(elements)':>12}{'':>7}{'':>7}{'(us)':>12}{'(us)':>12}{'(GB/s)':>9}"
                  f"{'(GB/s)':>9}"]
        for (size, count, dtype, redop), libraries in rows.items():
            for library, (wrong, figures) in libraries.items():
                row = f"{library:>14}{size:>12}{count:>12}{dtype:>7}{redop:>7}"
                if figures is None:  # no speed for a wrong result
                    lines.append(f"{row}{'-':>12}{'-':>12}{'-':>9}{'-':>9}{wrong:>8}")
                    continue
                time, mean, algbw, busbw = figures
                lines.append(f"{row}{time:>12.2f}{mean:>12.2f}{algbw:>9.3f}{busbw:>9.3f}{wrong:>8}")
    return lines


def standing(cases, own, measure):
    """In how many rows one of Tandem's variants is ahead of the best peer, level with it, or behind, by one of
    MEASURES; lists the rows where it is behind."""
    at = MEASURES.index(measure)
    counts = {"ahead": 0, "level": 0, "behind": 0}
    behind = []
    for (ranks, op), rows in cases.items():
        for (size, *_), libraries in rows.items():
            peers = {library: figures[at] for library, (_, figures) in libraries.items()
                     if library not in OURS and figures is not None}
            if own not in libraries or libraries[own][1] is None or not peers:
                continue
            best = min(peers, key=peers.get)
            time = libraries[own][1][at]
            ratio = time / peers[best]
            outcome = "behind" if ratio > 1 + LEVEL else "ahead" if ratio < 1 - LEVEL else "level"
            counts[outcome] += 1
            if outcome == "behind":
                behind.append(f"  behind: {op} of {size} B by {ranks} ranks, {time:.2f} us, {best} {peers[best]:.2f} us "
                              f"({ratio:.2f} of it)")
    return [f"{own}, {sum(counts.values())} rows with a peer, by the {measure}: {counts['ahead']} ahead of the better peer, "
            f"{counts['level']} level with it (within {LEVEL:.0%}), {counts['behind']} behind"] + behind


def render(lines):
    """(the lines of the tables and of the summary, whether Tandem was never wrong)."""
    cases = load(lines)
    wrong = [f"{own}: wrong in {op} of {size} B by {ranks} ranks, {libraries[own][0]} elements"
             for own in OURS for (ranks, op), rows in cases.items() for (size, *_), libraries in rows.items()
             if own in libraries and libraries[own][0]]
    return table(cases) + [""] + [line for own in OURS for measure in MEASURES
                                   for line in standing(cases, own, measure)] + wrong, not wrong


def main():
    lines, right = render(sys.stdin)
    print("\n".join(lines))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
