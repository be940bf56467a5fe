#!/usr/bin/env python3
"""On 20 newsgroups, as scripts/quickstart trains but for --refresh: a bound of 8 clocks at least halves the bytes pulled, at an equal loss.

Downloads the data if it is not there (scripts/prepare-newsgroups). Prints what each run pulled."""
import json
import os
import subprocess
import tempfile
import unittest

BIN = os.environ["PACELINE_BIN"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(os.environ.get("PACELINE_DATA") or os.path.expanduser("~/.cache/paceline"), "newsgroups")
RUNS = 3


class NewsgroupsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([os.path.join(ROOT, "scripts", "prepare-newsgroups"), DATA], check=True)
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def train(self, model, *more):
        out = os.path.join(self.folder.name, "out.json")
        done = subprocess.run([f"{BIN}/paceline", "up", "--shards", "3", "--port", "0", "--",
                               f"{BIN}/sparse_lr", "--train", f"{DATA}/train.libsvm", "--test", f"{DATA}/test.libsvm",
                               "--workers", "4", "--model", model, "--l1", "8.86e-6", "--epochs", "5", "--json", out, *more],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        with open(out, encoding="utf-8") as file:
            result = json.load(file)
        print(f"{model}: {result['bytes_pulled']:,} bytes pulled, held-out log-loss {result['test_log_loss']:.5f}, "
              f"{result['seconds']:.1f} s", flush=True)
        return result

    def test_a_bound_of_8_halves_the_pulled_rows(self):
        fresh = self.train("ssp:0")
        for _ in range(RUNS):
            stale = self.train("ssp:8", "--refresh")
            print(f"ratio {stale['bytes_pulled'] / fresh['bytes_pulled']:.3f}")
            self.assertLessEqual(stale["bytes_pulled"], 0.5 * fresh["bytes_pulled"])
            self.assertAlmostEqual(stale["test_log_loss"], fresh["test_log_loss"],
                                   delta=0.01 * fresh["test_log_loss"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
