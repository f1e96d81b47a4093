# SPDX-License-Identifier: Apache-2.0
"""What tests of the comparison with other libraries share. To import it makes its modules known, too."""

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
PEERS = BENCHMARKS / "peers"
sys.path += [str(BENCHMARKS / folder) for folder in ("peers", "common", "transformer_layer")]

from columns import Place  # noqa: E402


RUN = {"version": "0.1.0", "commit": "fedcba9", "plan_cache": "none"}


def tandem_gather(us, wrong=0, ranks=2, size=4096):
    row = {"size": size, "count": 0, "type": "f32", "redop": "none", "root": -1}
    for prefix in ("out_of_place", "in_place"):
        row |= {f"{prefix}_time_us": None if wrong else us, f"{prefix}_wrong": wrong}
    return {"ranks": ranks, "device": "host", "operation": "all_gather", "run": RUN, "rows": [row]}


def tandem_overlap(us, operation="linear_reduce_scatter", **more):
    row = {"m": 8, "n": 4, "k": 2, "type": "f32", "wrong": 0, "t_gemm_us": us, "t_comm_us": us / 2, "t_seq_us": 2 * us,
           "t_overlap_us": 1.25 * us}
    return {"ranks": 2, "device": "host", "operation": operation, "run": RUN, "rows": [row | more]}


def pytorch_round(entries, **changed):
    return {"ranks": 2, "device": "host", "torch": "0", "library": "gloo", "shared": False, "left_out": [], "notes": [],
            "entries": [{"place": vars(place), "peer": peer, "wrong": wrong, "times": times}
                        for place, peer, wrong, times in entries]} | changed


GATHER = Place("all_gather", "4096", "f32", "eager, in place")
SCATTER = Place("linear_reduce_scatter", "8,4,2", "f32", "eager")
