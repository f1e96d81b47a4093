# SPDX-License-Identifier: Apache-2.0
"""What the timelines' pictures are made of; without matplotlib."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import plot_timeline  # noqa: E402


def stream(track, name):
    return {"ph": "M", "name": "thread_name", "pid": 0, "tid": track, "args": {"name": name}}


def event(kind, begin_us, duration_us, track=1):
    return {"ph": "X", "name": kind, "cat": kind, "pid": 0, "tid": track, "ts": 5000 + begin_us, "dur": duration_us}


def loaded(*events):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_text(json.dumps({"traceEvents": list(events)}), encoding="utf-8")
        return plot_timeline.load(path)


class Lanes(unittest.TestCase):
    def test_a_gpu_has_its_engines(self):
        names, ranks, _, _, length = loaded(
            stream(1, "cuda:0 stream 1"), stream(2, "cuda:0 stream 2 (high priority)"), event("compute", 0, 4000),
            event("exchange", 4000, 1000), event("communication", 5000, 500), event("wait", 5500, 100),
            event("communication", 1000, 2000, track=2), event("wait", 0, 1000, track=2))
        self.assertEqual(names, ("SMs", "copy engines"))
        sms, engines = ranks[0]
        self.assertEqual({kind: len(each) for kind, each in sms.items()}, {"compute": 1, "exchange": 1, "wait": 1})
        self.assertEqual(engines["communication"], [(5, 0.5), (1, 2)])
        self.assertEqual(length, 5.6)
        self.assertAlmostEqual(plot_timeline.hidden_share(ranks), 2 / 2.5)

    def test_the_host_has_streams(self):
        names, ranks, phases, _, _ = loaded(
            stream(1, "stream 1"), stream(2, "stream 2 (high priority)"), event("compute", 0, 2000),
            event("communication", 2000, 1000), event("exchange", 0, 1000, track=2), event("communication", 1000, 3000, track=2),
            event("other", 0, 4000))
        self.assertEqual(names, ("compute", "communication"))
        beside, communicating = ranks[0]
        self.assertEqual(set(beside), {"compute", "communication"})
        self.assertEqual(set(communicating), {"exchange", "communication"})
        self.assertEqual(phases[0], [(0, 4, "other")])
        self.assertAlmostEqual(plot_timeline.hidden_share(ranks), 2 / 4)

    def test_a_sequence_has_one_stream(self):
        _, ranks, *_ = loaded(stream(1, "stream 1"), event("compute", 0, 2000), event("communication", 2000, 1000))
        self.assertEqual(plot_timeline.lanes_in_use(ranks), 1)
        self.assertIsNone(plot_timeline.hidden_share(ranks))


if __name__ == "__main__":
    unittest.main()
