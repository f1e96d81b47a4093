# SPDX-License-Identifier: Apache-2.0
"""What benchmarks/transformer_layer does without torch: the generated tensors, the shards, the table, the driver.

usage: transformer_layer_test.py [TestCase...]; Driver runs the programs in the folder that TANDEM_TEST_BUILD names.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "transformer_layer"
sys.path.insert(0, str(BENCHMARK))

import layer  # noqa: E402
import table  # noqa: E402
import values  # noqa: E402


class Values(unittest.TestCase):
    def test_are_those_of_the_table(self):
        rows = [line.split() for line in (BENCHMARK / "values.txt").read_text(encoding="utf-8").splitlines()
                if line and not line.startswith("#")]
        self.assertGreaterEqual(len(rows), 10)
        for seed, tensor, place, value in rows:
            self.assertEqual(values.value_at(values.key_of(int(seed), int(tensor)), int(place)), float(value))


class Shards(unittest.TestCase):
    def test_cover_every_tensor_once(self):
        for part in layer.parts_of(22, 13, 17):
            for ranks in (1, 2, 3, 5, 8):
                for operand in ("x", "weight", "y"):
                    rows, columns = layer.sizes_of(part, operand, 29)
                    seen = set()
                    for rank in range(ranks):
                        (top, bottom), (left, right) = layer.block_of(part, operand, 29, ranks, rank)
                        own = {(r, c) for r in range(top, bottom) for c in range(left, right)}
                        self.assertFalse(own & seen)
                        seen |= own
                    self.assertEqual(len(seen), rows * columns)

    def test_are_of_ceil_size(self):
        self.assertEqual([layer.shard(6, 5, rank) for rank in range(5)], [(0, 2), (2, 4), (4, 6), (6, 6), (6, 6)])


def tandem_round(us, wrong=0, **changed):
    passes = [("qkv", "forward", 1), ("qkv", "dgrad", 1), ("qkv", "wgrad", 1), ("qkv", "backward", 2), ("layer", "both", 1)]
    rows = [{"part": part, "pass": name, "gemm_us": of * us, "sequence_us": 3 * of * us, "tandem_us": 2 * of * us}
            for part, name, of in passes]
    return {"tokens": 8, "hidden": 4, "mlp": 6, "qkv": 5, "dtype": "f32", "seed": 1, "rest": 0, "ranks": 2, "device": "host",
            "keeps_gathered": False, "compared": 100, "wrong": wrong, "worst": 0.5, "rows": [] if wrong else rows} | changed


def pytorch_round(us, **changed):
    passes = [("qkv", "forward"), ("qkv", "backward"), ("layer", "both")]
    return {"tokens": 8, "hidden": 4, "mlp": 6, "qkv": 5, "dtype": "f32", "seed": 1, "rest": 0, "ranks": 2, "device": "host",
            "torch": "0", "modes": {"plain": {"compared": 100, "wrong": 0, "worst": 0.25}},
            "left_out": {"async": "needs CUDA"},
            "rows": [{"part": part, "pass": name, "plain_us": us} for part, name in passes]} | changed


class Table(unittest.TestCase):
    def test_has_the_medians_of_the_rounds_and_their_ratio(self):
        lines, right = table.render([tandem_round(us) for us in (10, 1000, 20)], [pytorch_round(us) for us in (60, 80, 7)])
        text = "\n".join(lines)
        self.assertTrue(right)
        self.assertRegex(text, r"qkv +forward +20\.0 +60\.0 +40\.0 +60\.0 +1\.500")
        self.assertRegex(text, r"qkv +backward +40\.0 +120\.0 +80\.0 +60\.0 +0\.750")
        self.assertNotRegex(text, "dgrad|wgrad")
        self.assertIn("PyTorch, async: left out, needs CUDA", text)

    def test_shows_no_speed_of_a_wrong_result(self):
        lines, right = table.render([tandem_round(10, wrong=3)], [pytorch_round(60)])
        self.assertFalse(right)
        self.assertIn("#wrong 3", "\n".join(lines))
        self.assertRegex("\n".join(lines), r"qkv +forward +- +- +- +60\.0 +-")

    def test_sees_what_pytorch_found_wrong_in_what_was_saved(self):
        saved = {"compared": 100, "wrong": 1, "worst": 9.0, "apart": 5.0}
        _, right = table.render([tandem_round(10)], [pytorch_round(60, saved=saved)])
        self.assertFalse(right)

    def test_does_without_pytorch(self):
        lines, right = table.render([tandem_round(10)], [])
        self.assertTrue(right)
        self.assertRegex(lines[-1], r"layer +both +10\.0 +30\.0 +20\.0 +-")

    def test_refuses_rounds_of_different_layers(self):
        for other in (tandem_round(10, tokens=9), pytorch_round(60, ranks=3)):
            with self.assertRaisesRegex(SystemExit, "one round has (tokens 9|ranks 3), another one (8|2)"):
                table.render([tandem_round(10)] + ([other] if "torch" not in other else []),
                             [other] if "torch" in other else [])


class Driver(unittest.TestCase):
    def run_driver(self, *more):
        command = [BENCHMARK / "run.sh", "--build", os.environ["TANDEM_TEST_BUILD"], "--ranks", "2", "--rounds", "2", "--tokens",
                   "20", "--hidden", "16", "--mlp", "12", "--qkv", "10", "--iters", "2", "--warmup", "1", *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    def test_does_without_torch_and_says_so(self):
        run = self.run_driver("--python", "false")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("pytorch: left out, since false has no torch", run.stdout)
        self.assertIn("#wrong 0", run.stdout)
        for part in ("qkv", "out", "up", "down", "layer"):
            for name in ("forward", "backward"):
                self.assertRegex(run.stdout, rf"(?m)^{part} +{name}( +\d+\.\d){{3}} +-$")

    def test_keeps_the_rounds_where_it_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            run = self.run_driver("--python", "false", "--out", folder)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["tandem.1.json", "tandem.2.json"])

    def test_passes_on_what_goes_wrong(self):
        run = self.run_driver("--python", "false", "--dtype", "f99")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("f99", run.stdout)
        self.assertTrue(re.search(r"^tandem: ended with [1-9]", run.stdout, re.MULTILINE), run.stdout)


if __name__ == "__main__":
    unittest.main()
