#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws Tandem's timelines: each rank's compute and communication, one above the other, on one clock.

    plot_timeline.py timeline.json [more.json ...] -o timeline.png [--title TEXT]

Each file is a Chrome trace as `tandem demo` and `tandem bench --timeline` write it, and becomes one panel.
"""

import argparse
import json
import sys
from collections import defaultdict

LACKS = 3  # the exit status if this Python has no matplotlib
INK = "#22303c"
COLORS = {
    "compute": "#3a7ca5",
    "communication": "#f28f3b",
    "exchange": "#c8553d",
    "wait": "#d9dde1",
}
NAMES = {
    "compute": "compute",
    "communication": "communication",
    "exchange": "communication by SMs or cores",
    "wait": "waits for a peer",
}
# The lanes of a rank. On the host they are streams: a plan communicates concurrently with the caller's stream on one of
# its own, which has a high priority. On a GPU they are the units that do the work.
STREAMS = ("compute", "communication")
ENGINES = ("SMs", "copy engines")


def load(path):
    """A trace as its two lanes, {rank: ({kind: [(begin, duration), ...]} for each lane)} in ms from its start, the named
    phases of each rank as [(begin, duration, name), ...], its label and its length."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    events = document["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    ranges = [e for e in events if e["ph"] == "X"]
    if not ranges:
        sys.exit(f"{path} has no ranges: nothing was traced")
    start = min(e["ts"] for e in ranges)
    end = max(e["ts"] + e["dur"] for e in ranges)
    gpus = all(names.get((e["pid"], e["tid"]), "").startswith("cuda:") for e in ranges)
    ranks = defaultdict(lambda: (defaultdict(list), defaultdict(list)))
    phases = defaultdict(list)
    for event in ranges:
        begin, duration = (event["ts"] - start) / 1e3, event["dur"] / 1e3
        if event["cat"] == "other":
            phases[event["pid"]].append((begin, duration, event["name"]))
            continue
        beside = "high priority" in names.get((event["pid"], event["tid"]), "")
        if gpus and beside and event["cat"] == "wait":
            continue  # no computation waits for it
        lane = event["cat"] == "communication" if gpus else beside
        ranks[event["pid"]][lane][event["cat"]].append((begin, duration))
    lanes = ENGINES if gpus else STREAMS
    return lanes, dict(sorted(ranks.items())), phases, document.get("otherData", {}).get("label", ""), (end - start) / 1e3


def merged(ranges):
    """The same stretch of time as ranges that do not overlap."""
    result = []
    for begin, duration in sorted(ranges):
        if result and begin <= result[-1][1]:
            result[-1][1] = max(result[-1][1], begin + duration)
        else:
            result.append([begin, begin + duration])
    return result


def hidden_share(ranks):
    """Of the time in which a rank's second lane communicates, the share in which its first computes."""
    total = both = 0.0
    for compute, communication in ranks.values():
        computes = merged(compute["compute"])
        for begin, end in merged(communication["communication"] + communication["exchange"]):
            total += end - begin
            both += sum(max(0.0, min(end, e) - max(begin, b)) for b, e in computes)
    return both / total if total else None


def lanes_in_use(ranks):
    """How many lanes: on the host, a plan that runs in sequence communicates on the caller's own stream."""
    return 2 if any(any(lanes[1].values()) for lanes in ranks.values()) else 1


def draw(axes, names, ranks, phases, label, length):
    from matplotlib.ticker import MaxNLocator

    height, gap = 0.82, 0.75
    y = 0.0
    shown = lanes_in_use(ranks)
    for number, (rank, lanes) in enumerate(ranks.items()):
        axes.axhspan(y - gap / 2, y + shown + gap / 2, color="#f4f6f8" if number % 2 == 0 else "white", zorder=0, lw=0)
        for begin, duration, name in phases.get(rank, []):
            margin = min(0.0015 * length, 0.2 * duration)
            axes.plot((begin + margin, begin + duration - margin), (y - 0.1, y - 0.1), color="#9aa7b2", linewidth=1.6, zorder=3,
                      solid_capstyle="butt")
            if number == 0 and duration > 0.03 * length:
                axes.text(begin, y - 0.2, name, fontsize=7.5, color="#5b6b79", ha="left", va="bottom", zorder=4)
        axes.text(-0.012, y + shown / 2, f"rank {rank}", transform=axes.get_yaxis_transform(), ha="right", va="center",
                  fontsize=10, fontweight="bold", color=INK)
        for lane, name in zip(lanes[:shown], names):
            for kind in reversed(COLORS):
                ranges = lane.get(kind, [])
                if ranges:
                    axes.broken_barh(ranges, (y + (1 - height) / 2, height), facecolors=COLORS[kind],
                                     edgecolors="white", linewidth=0.25, zorder=3 if kind != "wait" else 2)
            axes.text(1.006, y + 0.5, name if shown > 1 or names == ENGINES else "both in sequence",
                      transform=axes.get_yaxis_transform(), ha="left", va="center", fontsize=8, color="#5b6b79")
            y += 1
        y += gap
    axes.set_ylim(y - gap / 2, -gap / 2 - 0.25)
    axes.set_xlim(0, length)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(12))
    axes.grid(axis="x", color="#dfe4e8", linewidth=0.6, zorder=1)
    axes.tick_params(axis="x", colors="#5b6b79", labelsize=9, length=3)
    axes.set_xlabel("time (ms)", color="#5b6b79", fontsize=9)
    for side in axes.spines.values():
        side.set_visible(False)
    share = hidden_share(ranks)
    axes.set_title(label, loc="left", fontsize=11.5, color=INK, fontweight="bold", pad=7)
    if share is not None:
        axes.set_title(f"{share:.0%} of the communication beside compute", loc="right", fontsize=9.5, color="#5b6b79",
                       pad=7)


def main():
    parser = argparse.ArgumentParser(
        description="Draws Tandem's timelines as one PNG, a panel for each.",
        epilog="Example: tandem bench all_reduce -n 4 --timeline t.json && plot_timeline.py t.json -o t.png")
    parser.add_argument("timelines", nargs="+", metavar="TIMELINE.json")
    parser.add_argument("-o", "--out", required=True, metavar="OUT.png")
    parser.add_argument("--title", default="Every rank, compute and communication")
    options = parser.parse_args()
    try:  # not earlier: --help and reading a timeline do not need it
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        from matplotlib.patches import Patch
    except ImportError as error:
        print(f"matplotlib is missing ({error}): install python3-matplotlib, or open the JSON in ui.perfetto.dev",
              file=sys.stderr)
        sys.exit(LACKS)

    panels = [load(path) for path in options.timelines]
    plt.rcParams["font.family"] = ["DejaVu Sans"]
    rows = [(0.24 + 0.2 * lanes_in_use(ranks)) * len(ranks) + 0.2 for _, ranks, *_ in panels]
    head, between, foot = 0.95, 0.95, 0.6  # inches
    height = head + sum(rows) + between * (len(panels) - 1) + foot
    figure, all_axes = plt.subplots(len(panels), 1, figsize=(12.5, height), squeeze=False, dpi=120,
                                    gridspec_kw={"height_ratios": rows})
    for axes, panel in zip(all_axes[:, 0], panels):
        draw(axes, *panel)
    kinds = [kind for kind in COLORS
             if any(lane.get(kind) for _, ranks, *_ in panels for lanes in ranks.values() for lane in lanes)]
    title = figure.text(0.065, 1 - 0.16 / height, options.title, ha="left", va="top", fontsize=14, fontweight="bold",
                        color=INK)
    legend = figure.legend(handles=[Patch(facecolor=COLORS[kind], label=NAMES[kind]) for kind in kinds], loc="upper right",
                           bbox_to_anchor=(0.92, 1 - 0.06 / height), ncol=len(kinds), frameon=False, fontsize=9.5,
                           labelcolor=INK, handlelength=1.4, columnspacing=1.4)
    figure.canvas.draw()
    if title.get_window_extent().x1 > legend.get_window_extent().x0:  # a long title needs the whole line
        legend.set_bbox_to_anchor((0.92, 1 - 0.32 / height))
    figure.subplots_adjust(left=0.065, right=0.915, top=1 - head / height, bottom=foot / height,
                           hspace=between / (sum(rows) / len(rows)))
    figure.savefig(options.out)


if __name__ == "__main__":
    main()
