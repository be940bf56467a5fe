#!/usr/bin/env python3
"""Bulk synchronous training on real processes: bit-equal to one worker, and what it costs where workers straggle."""
import json
import os
import subprocess
import unittest

BIN = os.environ["PACELINE_BIN"]
WORKER = os.environ["BSP_WORKER"]


class BspTest(unittest.TestCase):
    def run_on(self, shards, *command):
        up = subprocess.run([f"{BIN}/paceline", "up", "--shards", str(shards), "--port", "0", "--", WORKER, *command],
                            capture_output=True, text=True, timeout=400)
        self.assertEqual(up.returncode, 0, up.stdout[-3000:] + up.stderr[-3000:])
        return json.loads([line for line in up.stdout.splitlines() if line.startswith("{")][-1])

    def check_equal(self, shards):
        under_ssp = 0
        for seed in (1, 2, 3):
            result = self.run_on(shards, "equal", str(seed))
            print(f"{shards} shards, seed {seed}: of {result['views']} views of 4 workers {result['different_bsp']} "
                  f"differ from those of one worker under BSP, {result['different_ssp']} under SSP(0)")
            self.assertEqual(result["different_bsp"], 0)
            under_ssp += result["different_ssp"]
        self.assertGreater(under_ssp, 0, "the check cannot fail")

    def test_1_shard(self):
        self.check_equal(1)

    def test_2_shards(self):
        self.check_equal(2)

    def test_5_shards(self):
        self.check_equal(5)

    def test_stragglers(self):
        result = self.run_on(3, "straggle")
        bsp, ssp = result["bsp"], result["ssp8"]
        print(f"{result['clocks']} clocks of {1000 * result['clock_seconds']:.1f} ms: waited for staleness {bsp['staleness_wait_seconds']:.3f} s under BSP, "
              f"{ssp['staleness_wait_seconds']:.3f} s under SSP(8); loss {bsp['loss']:.5f} and {ssp['loss']:.5f}, "
              f"of one process {result['reference_loss']:.5f}")
        self.assertGreater(ssp["staleness_wait_seconds"], 0)
        self.assertGreaterEqual(bsp["staleness_wait_seconds"], 1.5 * ssp["staleness_wait_seconds"])
        for model in (bsp, ssp):
            self.assertLessEqual(model["loss"], 1.05 * result["reference_loss"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
