#!/usr/bin/env python3
"""On public data, matrix_factorization and lda reach what one process reaches, with 1, 2 and 4 workers, under SSP and ESSP.

Downloads the data if it is not there (scripts/datasets). Prints what each run reached."""
import json
import os
import subprocess
import tempfile
import unittest

BIN = os.environ["PACELINE_BIN"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("PACELINE_DATA") or os.path.expanduser("~/.cache/paceline/datasets")
MODELS = "ssp:2", "essp:2"
WORKERS = 1, 2, 4


class PublicDataTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([os.path.join(ROOT, "scripts", "datasets"), "movielens", "reuters", "--dir", DATA], check=True)
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def train(self, program, *arguments):
        """The results of each model with each number of workers."""
        out = os.path.join(self.folder.name, "out.json")
        for model in MODELS:
            for workers in WORKERS:
                done = subprocess.run([f"{BIN}/paceline", "up", "--shards", "2", "--port", "0", "--", f"{BIN}/{program}",
                                       "--model", model, "--workers", str(workers), "--json", out, *arguments],
                                      capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
                with open(out, encoding="utf-8") as file:
                    result = json.load(file)
                self.assertEqual((result["model"], result["workers"]), (model, workers))
                self.assertLessEqual(max(map(int, result["observed_staleness_histogram"])), 2)
                with self.subTest(model=model, workers=workers):
                    yield f"{model}, {workers} workers, {result['seconds']:.1f} s:", result

    def test_ratings_of_films(self):
        for what, result in self.train("matrix_factorization", "--ratings", f"{DATA}/movielens/ratings.txt"):
            print(f"{what} RMSE {result['test_rmse']:.4f}, one process {result['reference_test_rmse']:.4f}", flush=True)
            self.assertLessEqual(result["test_rmse"], 0.92)

    def test_topics_of_news(self):
        for what, result in self.train("lda", "--docs", f"{DATA}/reuters/documents.ldac", "--topics", "20", "--sweeps", "150"):
            print(f"{what} perplexity {result['perplexity']:.1f}, one process {result['reference_perplexity']:.1f}", flush=True)
            self.assertLessEqual(result["perplexity"], 1.03 * result["reference_perplexity"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
