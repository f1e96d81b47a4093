# SPDX-License-Identifier: Apache-2.0
"""The figures of Tandem and of its peers in the same columns. Does not need torch.

An entry has the figures of one peer at one place of the table. Times are in microseconds, None if there is none.
"""

from dataclasses import dataclass, field

PEERS = ("tandem", "gloo", "nccl", "registered", "copy-engine", "one-shot", "two-shot", "async-tp", "cublasmp")
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast")
OPERATIONS = (*COLLECTIVES, "all_gather beside", "all_gather_linear", "linear_reduce_scatter", "linear_all_reduce")
FORMS = (("out_of_place", "apart"), ("in_place", "in place"))
TIMES = ("t_gemm", "t_comm", "t_seq", "t_overlap")


@dataclass(frozen=True)
class Place:
    operation: str
    what: str  # bytes, as nccl-tests counts them, or M,N,K
    dtype: str
    way: str = ""  # how it is called: eager or graph; for collectives also whether it is in place


@dataclass
class Entry:
    place: Place
    peer: str
    wrong: int
    times: dict = field(default_factory=dict)  # {"time": us} for a collective, TIMES for an overlap


def is_overlap(place):
    return place.operation not in COLLECTIVES


def order(place):
    """Sorts by operation, 8-bit floats last, then eager before graphs; equal places keep their order."""
    name = "all_gather beside" if place.operation.startswith("all_gather beside") else place.operation
    return OPERATIONS.index(name), place.dtype.startswith("f8"), place.way


def beside(shape):
    """The operation name of a gather concurrent with a GEMM of this M,N,K."""
    return f"all_gather beside {shape}"


def titled(place):
    """The operation, and the dtype if it has 8 bits: then the same shape is measured in another one, too."""
    return f"{place.operation} {place.dtype}" if place.dtype.startswith("f8") else place.operation


def bus_factor(operation, ranks):
    if operation == "broadcast":
        return 1
    return (ranks - 1) / ranks * (2 if operation == "all_reduce" else 1)


def algbw(place, us):
    """GB/s"""
    return int(place.what) / us * 1e-3 if us else 0


def taken(peer, times):
    """What a caller waits for: for Tandem the plan's choice, for a peer the faster of overlap and sequence."""
    names = ("time", "t_overlap") if peer == "tandem" else ("time", "t_overlap", "t_seq")
    return min((times[name] for name in names if times.get(name) is not None), default=None)


def over_sequence(times):
    """The time of the sequence divided by that of the overlap: below 1, the overlap is slower."""
    sequence, overlap = times.get("t_seq"), times.get("t_overlap")
    return sequence / overlap if sequence and overlap else None


def ideal(times):
    parts = [times.get("t_gemm"), times.get("t_comm")]
    return None if None in parts else max(parts)


def from_tandem(document, way):
    """The entries of one `tandem bench --json`, which was run this way: eager, graph or beside."""
    entries = []
    operation = document["operation"]
    for row in document["rows"]:
        shape = f"{row['m']},{row['n']},{row['k']}" if "m" in row else ""
        if shape:
            form = {"symmetric in place": "in place"}.get(document.get("tensors"), "apart")
            place = (Place(beside(shape), str(row["size"]), row["type"], form) if way == "beside" else
                     Place(operation, shape, row["type"], way))
            entries.append(Entry(place, "tandem", row["wrong"], {name: row[f"{name}_us"] for name in TIMES}))
            continue
        for prefix, form in FORMS:
            if row[f"{prefix}_wrong"] is not None:
                place = Place(operation, str(row["size"]), row["type"], f"{way}, {form}")
                entries.append(Entry(place, "tandem", row[f"{prefix}_wrong"], {"time": row[f"{prefix}_time_us"]}))
    return entries


def from_pytorch(document):
    return [Entry(Place(**entry["place"]), entry["peer"], entry["wrong"], entry["times"]) for entry in document["entries"]]
