#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts rounds of Tandem's figures and its peers' into one table.

    table.py FOLDER [--ratios]

reads FOLDER/tandem.ROUND.WAY.OPERATION[.SHAPE].json (tandem bench --json), FOLDER/pytorch.*.json (pytorch.py --json) and
FOLDER/left_out.txt, a line for what is missing. With --ratios, only the last part: one line for each place, with the peer
that is fastest there, and where Tandem is behind.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

from columns import (PEERS, TIMES, algbw, bus_factor, from_pytorch, from_tandem, ideal, is_overlap, order, over_sequence,
                     taken, titled)

SAME = ("ranks", "device")
SLOWER_THAN_SEQUENCE = 1.01  # an overlap may take at most this many times its sequence's time
LEVEL = 0.05  # two runs of the same thing may differ by this fraction


def load(folder, pattern):
    """{path: document}, sorted."""
    return {path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(pattern))}


def together(entries):
    """{place: {peer: (#wrong, {time: median of the rounds})}}; no times if any round was wrong."""
    runs = {}
    for entry in entries:
        runs.setdefault(entry.place, {}).setdefault(entry.peer, []).append(entry)
    out = {}
    for place in sorted(runs, key=order):
        peers = runs[place]
        for peer in sorted(peers, key=PEERS.index):
            wrong = sum(run.wrong for run in peers[peer])
            times = {}
            for name in dict.fromkeys(name for run in peers[peer] for name in run.times):
                known = [run.times[name] for run in peers[peer] if run.times.get(name) is not None]
                times[name] = statistics.median(known) if known and not wrong else None
            out.setdefault(place, {})[peer] = (wrong, times)
    return out


def text(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def relative(peer, peers):
    """A peer's time / Tandem's time."""
    own, other = (taken(name, peers.get(name, (0, {}))[1]) for name in ("tandem", peer))
    return other / own if own and other else None


def efficiency(peer, place, times):
    """T_ideal / T for an overlap."""
    best, whole = ideal(times), taken(peer, times)
    return best / whole if is_overlap(place) and best and whole else None


def best_peer(peers):
    """The fastest of the peers other than Tandem."""
    others = {peer: taken(peer, times) for peer, (_, times) in peers.items() if peer != "tandem" and taken(peer, times)}
    return min(others, key=others.get, default=None)


def collective_lines(places, ranks):
    lines = [f"# {'operation':<14} {'size':>10} {'type':>4} {'way':<15} {'peer':<11} {'#wrong':>6} {'time':>9} "
             f"{'algbw':>7} {'busbw':>7} {'/Tandem':>8}",
             f"# {'':<14} {'(B)':>10} {'':>4} {'':<15} {'':<11} {'':>6} {'(us)':>9} "
             f"{'(GB/s)':>7} {'(GB/s)':>7} {'':>8}"]
    for place, peers in places.items():
        for peer, (wrong, times) in peers.items():
            us = times.get("time")
            speed = algbw(place, us) if us else None
            bus = speed * bus_factor(place.operation, ranks) if us else None
            lines.append(f"  {place.operation:<14} {place.what:>10} {place.dtype:>4} {place.way:<15} {peer:<11} "
                         f"{wrong:>6} {text(us, 2):>9} {text(speed, 2):>7} {text(bus, 2):>7} "
                         f"{text(relative(peer, peers), 3):>8}")
    return lines


def overlap_lines(places):
    lines = [f"# {'operation':<32} {'what':<17} {'type':>6} {'way':<8} {'peer':<11} {'#wrong':>6}" +
             "".join(f" {name:>9}" for name in (*TIMES, "T_ideal")) + f" {'T_i/T':>6} {'/Tandem':>8}",
             f"# {'':<32} {'(B or M,N,K)':<17} {'':>6} {'':<8} {'':<11} {'':>6}" + f" {'(us)':>9}" * 5]
    for place, peers in places.items():
        for peer, (wrong, times) in peers.items():
            lines.append(f"  {place.operation:<32} {place.what:<17} {place.dtype:>6} {place.way:<8} {peer:<11} {wrong:>6}" +
                         "".join(f" {text(us):>9}" for us in (*(times.get(name) for name in TIMES), ideal(times))) +
                         f" {text(efficiency(peer, place, times), 3):>6} {text(relative(peer, peers), 3):>8}")
    return lines


def ratio_lines(places):
    lines = [f"# {'operation':<32} {'what':<17} {'way':<15} {'Tandem':>9} {'best peer':>9} {'':<11} {'/Tandem':>8} "
             f"{'t_seq/T':>7} {'T_i/T':>6} peer's",
             f"# {'':<32} {'(B or M,N,K)':<17} {'':<15} {'(us)':>9} {'(us)':>9}"]
    for place, peers in places.items():
        best = best_peer(peers)
        own, other = (peers.get(name, (0, {}))[1] for name in ("tandem", best))
        lines.append(f"  {titled(place):<32} {place.what:<17} {place.way:<15} {text(taken('tandem', own)):>9} "
                     f"{text(taken(best, other)):>9} {best or '-':<11} {text(relative(best, peers), 3):>8} "
                     f"{text(over_sequence(own), 3):>7} {text(efficiency('tandem', place, own), 3):>6} "
                     f"{text(efficiency(best, place, other), 3):>6}")
    return lines


def miss_lines(places):
    """Lists where Tandem is behind a peer, or more than 1 % behind its own sequence; and counts that, and how often
    Tandem is clearly ahead of all peers."""
    lines, judged, clear = [], 0, 0
    for place, peers in places.items():
        own, best = peers.get("tandem", (0, {}))[1], best_peer(peers)
        ahead, kept = relative(best, peers), over_sequence(own)
        judged += ahead is not None or kept is not None
        clear += ahead is not None and ahead > 1 + LEVEL
        why = [f"{best} takes {ahead:.3f} of its time"] if ahead is not None and ahead < 1 else []
        why += [f"its own sequence takes {kept:.3f} of its time"] if kept is not None and kept < 1 / SLOWER_THAN_SEQUENCE else []
        if why:
            lines.append(f"# behind: {titled(place)} {place.what} {place.way}: {', '.join(why)}")
    if not judged:
        return []
    return lines + [f"# Tandem is behind in {len(lines)} of {judged}, and ahead of all peers by more than {LEVEL:.0%} in {clear}"]


def remarks(tandem, pytorch, left_out):
    """What readers must know about the figures, without duplicates."""
    said = [f"tandem {run['version']}, commit {run['commit'] or 'unknown'}; plan cache: {run['plan_cache']}"
            for run in (document.get("run") for _, _, document in tandem) if run]  # older rounds have none
    said += [f"{name}: left out, {reason}" for name, _, reason in (line.partition(": ") for line in left_out)]
    for document in pytorch:
        said += [f"PyTorch {document['torch']}, {document['library']}"] + document["left_out"] + document["notes"]
    lines = [f"# {line}" for line in dict.fromkeys(said)]
    rounds = max((number for number, _, _ in tandem), default=0)
    if any(document["shared"] for document in pytorch):
        lines.append("# ranks share GPUs: what is right and what is wrong, no times")
    elif rounds:
        lines.append(f"# medians of {rounds} rounds; eager times have in them what the caller's language costs; /Tandem: a "
                     "peer's time / Tandem's")
    return lines


def read(folder):
    """The documents of the rounds in a folder: Tandem's as [(round, way, document)], PyTorch's, and what is left out."""
    tandem = []
    for path, document in load(folder, "tandem.*.json").items():
        _, number, way, *_ = path.name.split(".")
        tandem.append((int(number), way, document))
    if not tandem:
        sys.exit(f"{folder} has no tandem.*.json")
    left_out = folder / "left_out.txt"
    return (tandem, list(load(folder, "pytorch.*.json").values()),
            left_out.read_text(encoding="utf-8").splitlines() if left_out.exists() else [])


def figures(tandem, pytorch):
    """({place: ...} as from `together`, the number of ranks, the device)."""
    documents = [document for _, _, document in tandem] + pytorch
    for document in documents[1:]:
        for name in SAME:
            if document[name] != documents[0][name]:
                raise SystemExit(f"table.py: one run has {name} {documents[0][name]}, another one {document[name]}")
    entries = [entry for _, way, document in tandem for entry in from_tandem(document, way)]
    entries += [entry for document in pytorch for entry in from_pytorch(document)]
    if any(document["shared"] for document in pytorch):
        for entry in entries:
            entry.times = {}
    return together(entries), documents[0]["ranks"], documents[0]["device"]


def render(tandem, pytorch, left_out=(), ratios=False):
    """(the lines of the table, whether nothing was wrong). The arguments are what `read` returns."""
    places, ranks, device = figures(tandem, pytorch)
    overlaps = {place: peers for place, peers in places.items() if is_overlap(place)}
    collectives = {place: peers for place, peers in places.items() if not is_overlap(place)}
    lines = [f"# {ranks} ranks on {device}"]
    lines += remarks(tandem, pytorch, left_out)
    if not ratios:
        lines += collective_lines(collectives, ranks) + overlap_lines(overlaps)
    lines += ratio_lines(places) + miss_lines(places)
    wrong = [f"# wrong: {titled(place)} {place.what} {place.way}, {peer}: {count} elements"
             for place, peers in places.items() for peer, (count, _) in peers.items() if count]
    return lines + wrong, not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ratios", action="store_true", help="only the fastest peer of each place")
    options = parser.parse_args()
    lines, right = render(*read(options.folder), options.ratios)
    print("\n".join(lines))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
