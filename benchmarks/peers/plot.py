#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws rounds of Tandem's figures and its peers': all_reduce by size, and how much longer the fastest peer takes.

    plot.py FOLDER -o peers.png [--title TEXT]

FOLDER is what run.sh --out wrote. Above 1, Tandem is faster. Needs matplotlib.
"""

import argparse
import sys
from pathlib import Path

import table
from columns import PEERS, algbw, bus_factor, is_overlap, order, titled

INK = "#22303c"
TANDEM = "#c8553d"
COLORS = {"eager": "#3a7ca5", "graph": "#f28f3b", "beside": "#5b8e7d"}
LINES = ("#3a7ca5", "#5b8e7d", "#8a6fa8", "#7f8c99", "#b08b57", "#4f5d75")
NAMES = {"nccl": "NCCL", "registered": "NCCL, registered", "copy-engine": "NCCL, copy engines", "async-tp": "async TP"}


def size(text):
    """"1 KiB" of "1024"."""
    value = int(text)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024 or unit == "MiB":
            return f"{value} {unit}"
        value //= 1024
    return text


def curves(places, ranks):
    """{peer: [(bytes, bus bandwidth in GB/s), ...]} of all_reduce."""
    lines = {}
    for place, peers in places.items():
        if place.operation != "all_reduce":
            continue
        for peer, (_, times) in peers.items():
            if times.get("time"):
                speed = algbw(place, times["time"]) * bus_factor(place.operation, ranks)
                lines.setdefault(peer, []).append((int(place.what), speed))
    return {peer: sorted(lines[peer]) for peer in sorted(lines, key=PEERS.index)}


def dots(places):
    """[(label, way, ratio, the fastest peer)] of all else: by operation, and the smallest first."""
    def rank(place):
        operation, narrow, way = order(place)
        return operation, narrow, way.partition(", ")[2], [int(number) for number in place.what.split(",")]

    found = []
    for place in sorted(places, key=rank):
        peers = places[place]
        best = table.best_peer(peers)
        ratio = table.relative(best, peers)
        if place.operation == "all_reduce" or ratio is None:
            continue
        beside = place.operation.startswith("all_gather beside")
        way, _, form = place.way.partition(", ")
        if beside:
            way, form = "beside", place.way
        what = place.what if is_overlap(place) and not beside else size(place.what)
        form = f", {'out of place' if form == 'apart' else form}" if form else ""
        operation = "all_gather beside a GEMM" if beside else titled(place).replace("_linear", " + GEMM").replace(
            "linear_", "GEMM + ")
        found.append((f"{operation} {what}{form}", way, ratio, NAMES.get(best, best)))
    return found


def draw_by_size(above, below, lines, set_sizes):
    """Each library's bus bandwidth, and below how long the others take in relation to Tandem."""
    own = dict(lines.get("tandem", []))
    others = iter(LINES)
    for peer, points in lines.items():
        style = {"color": TANDEM, "linewidth": 2.2, "zorder": 3, "label": "Tandem"} if peer == "tandem" else {
            "color": next(others), "linewidth": 1.2, "label": NAMES.get(peer, peer)}
        above.plot(*zip(*points), marker="o", markersize=3, **style)
        # For one size, speeds are as times, upside down.
        ratios = [(size, own[size] / speed) for size, speed in points if size in own]
        if ratios:
            below.plot(*zip(*ratios), marker="o", markersize=3, **style)
    above.set(title="all_reduce in a graph, in place", ylabel="bus bandwidth (GB/s)", ylim=(0, None))
    above.legend(frameon=False)
    below.set(ylabel="time / Tandem's", xlabel="message")
    for axes in (above, below):
        set_sizes(axes, [size for size, _ in max(lines.values(), key=len, default=[])])


def draw_ratios(axes, rows):
    """A dot for each place, and the ticks of a logarithmic axis."""
    labels = list(dict.fromkeys(label for label, *_ in rows))
    for way, color in COLORS.items():
        points = [(ratio, labels.index(label)) for label, each, ratio, _ in rows if each == way]
        if points:
            axes.scatter(*zip(*points), color=color, s=22, zorder=3, label="beside a GEMM" if way == "beside" else way)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set(xscale="log", title="all else: time of the fastest other library / Tandem's", yticks=range(len(labels)),
             yticklabels=labels, ylim=(len(labels) - 0.4, -0.6))
    ratios = [ratio for _, _, ratio, _ in rows] or [1]
    ticks = [tick for tick in (0.5, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 8) if min(ratios) / 1.3 < tick < max(ratios) * 1.3]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False, loc="lower right")


def draw(places, ranks, title, path):
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        sys.exit(f"matplotlib is missing ({error}): install python3-matplotlib")

    def set_sizes(axes, sizes):
        axes.set_xscale("log")
        axes.set_xticks(sizes, [size(str(each)) for each in sizes], rotation=45)
        axes.minorticks_off()

    rows = dots(places)
    pyplot.rcParams.update({"font.size": 8, "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK,
                            "ytick.color": INK, "axes.edgecolor": "#b8c0c8", "axes.grid": True, "grid.color": "#e6eaee",
                            "grid.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False})
    height = 2 + 0.19 * max(len({label for label, *_ in rows}), 16)
    figure = pyplot.figure(figsize=(12, height), layout="constrained")
    parts = figure.subplot_mosaic([["speed", "ratios"], ["time", "ratios"]], width_ratios=(1, 1.1))
    draw_by_size(parts["speed"], parts["time"], curves(places, ranks), set_sizes)
    draw_ratios(parts["ratios"], rows)
    if title:
        figure.suptitle(title)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True, help="the picture")
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    tandem, pytorch, _ = table.read(options.folder)
    places, ranks, _ = table.figures(tandem, pytorch)
    draw(places, ranks, options.title, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
