#!/usr/bin/env python3
"""mlp learns over a cluster what it learns in one process, with priorities and without, and tells what it did."""
import json
import os
import random
import struct
import subprocess
import tempfile
import unittest

BIN = os.environ["PACELINE_BIN"]
SIDE, CLASSES = 8, 4
COMMON = {"test_accuracy", "reference_test_accuracy", "seconds", "reference_seconds", "examples_per_second", "wait_seconds",
          "wait_seconds_by_cause", "observed_staleness_histogram", "worker_seconds", "blocked_seconds", "rows_pushed",
          "rows_pulled", "workers", "model", "curve", "reference_curve"}


def images(draw, count):
    """Noise with a bright quarter each, and which quarter it is."""
    labels = [draw.randrange(CLASSES) for _ in range(count)]
    pixels = bytearray()
    for label in labels:
        for at in range(SIDE * SIDE):
            quarter = at // (SIDE * SIDE // CLASSES)
            pixels.append(draw.randrange(90) + (110 if quarter == label else 0))
    return pixels, bytes(labels)


def write_idx(folder, part, count, seed):
    pixels, labels = images(random.Random(seed), count)
    with open(os.path.join(folder, f"{part}-images-idx3-ubyte"), "wb") as file:
        file.write(struct.pack(">IIII", 0x0803, count, SIDE, SIDE) + pixels)
    with open(os.path.join(folder, f"{part}-labels-idx1-ubyte"), "wb") as file:
        file.write(struct.pack(">II", 0x0801, count) + labels)


class MlpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name
        write_idx(cls.folder, "train", 1200, 1)
        write_idx(cls.folder, "t10k", 300, 2)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def run_mlp(self, model, workers, *more):
        out = os.path.join(self.folder, "out.json")
        done = subprocess.run([f"{BIN}/paceline", "up", "--shards", "2", "--port", "0", "--", f"{BIN}/mlp", "--images",
                               self.folder, "--model", model, "--workers", str(workers), "--json", out, "--hidden", "24,16",
                               "--epochs", "4", "--batch", "10", *more], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        with open(out, encoding="utf-8") as file:
            result = json.load(file)
        self.assertLessEqual(COMMON, result.keys())
        self.assertEqual((result["model"], result["workers"]), (model, workers))
        self.assertGreater(result["test_accuracy"], 0.95)
        self.assertGreater(result["reference_test_accuracy"], 0.95)
        self.assertLess(result["curve"][-1]["loss"], result["curve"][0]["loss"])
        self.assertIn("test accuracy", done.stdout)
        return result

    def test_one_worker_is_the_reference(self):
        result = self.run_mlp("ssp:1", 1)
        self.assertTrue(result["priorities"])
        self.assertAlmostEqual(result["curve"][-1]["loss"], result["reference_curve"][-1]["loss"], delta=0.05)

    def test_several_workers(self):
        for model in "ssp:2", "bsp", "asp":
            self.run_mlp(model, 2)

    def test_without_priorities(self):
        self.assertFalse(self.run_mlp("ssp:2", 2, "--fifo")["priorities"])

    def test_other_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            write_idx(folder, "train", 10, 1)
            write_idx(folder, "t10k", 10, 1)
            with open(os.path.join(folder, "train-images-idx3-ubyte"), "wb") as file:
                file.write(b"\x1f\x8b" + bytes(100))
            done = subprocess.run([f"{BIN}/mlp", "--images", folder, "--coordinator", "127.0.0.1:1"], capture_output=True,
                                  text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("train-images-idx3-ubyte: begins with 1f8b", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
