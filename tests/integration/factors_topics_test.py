#!/usr/bin/env python3
"""matrix_factorization and lda learn over a cluster what they learn in one process, and tell what they did."""
import json
import os
import random
import subprocess
import tempfile
import unittest

BIN = os.environ["PACELINE_BIN"]
COMMON = {"seconds", "examples_per_second", "wait_seconds", "wait_seconds_by_cause", "observed_staleness_histogram",
          "worker_seconds", "blocked_seconds", "rows_pushed", "rows_pulled", "workers", "model", "curve",
          "reference_curve"}
TOPICS = 5


def ratings(draw):
    """What two hidden factors, biases and some noise make of 60 users and 50 items."""
    users = [[draw.uniform(-1, 1) for _ in range(3)] for _ in range(60)]
    items = [[draw.uniform(-1, 1) for _ in range(3)] for _ in range(50)]
    for u, p in enumerate(users):
        for i, q in enumerate(items):
            if draw.random() < 0.7:
                value = 3 + p[0] + q[0] + 1.5 * (p[1] * q[1] + p[2] * q[2]) + draw.uniform(-0.1, 0.1)
                yield f"{1000 + u}\t{7 * i}\t{value:.3f}\t881250949\n"


def documents(draw):
    """Documents of words of two of TOPICS topics; a topic has eight words of its own."""
    for _ in range(200):
        topics = [draw.randrange(TOPICS) for _ in range(2)]
        counts = {}
        for _ in range(60):
            word = 8 * draw.choice(topics) + draw.randrange(8)
            counts[word] = counts.get(word, 0) + 1
        yield f"{len(counts)} " + " ".join(f"{word}:{count}" for word, count in sorted(counts.items())) + "\n"


class ExampleTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, lines=None):
        path = os.path.join(self.folder, name)
        if lines is not None:
            with open(path, "w", encoding="ascii") as file:
                file.writelines(lines)
        return path

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def up(self, *command):
        return subprocess.run([f"{BIN}/paceline", "up", "--shards", "2", "--port", "0", "--", *command],
                              capture_output=True, text=True, timeout=300)

    def run_example(self, program, model, workers, *more):
        """The results, after a look at what all examples tell."""
        done = self.up(f"{BIN}/{program}", "--model", model, "--workers", str(workers), "--json", self.path("out"), *more)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        result = json.loads(self.read("out"))
        self.assertLessEqual(COMMON, result.keys())
        self.assertEqual((result["model"], result["workers"]), (model, workers))
        self.assertLessEqual(result["blocked_seconds"], result["worker_seconds"])
        self.assertGreater(result["seconds"], 0)
        for name in "curve", "reference_curve":
            curve = result[name]
            self.assertEqual([point["pass"] for point in curve], sorted(point["pass"] for point in curve))
            self.assertLess(curve[-1]["loss"], curve[0]["loss"])
        self.assertAlmostEqual(result["curve"][-1]["pass"], result["reference_curve"][-1]["pass"])
        bound = {"ssp:0": 0, "ssp:2": 2, "bsp": 0}.get(model)
        if bound is not None:
            self.assertLessEqual(max(map(int, result["observed_staleness_histogram"])), bound)
        self.assertIn("100 %", done.stderr)
        self.assertIn("time of", done.stdout)
        return result


class MatrixFactorizationTest(ExampleTest):
    def factorize(self, model, workers, *more):
        data = self.path("ratings", ratings(random.Random(1)))
        return self.run_example("matrix_factorization", model, workers, "--ratings", data, "--rank", "4", "--epochs",
                                "60", "--batch", "100", "--lr", "0.05", "--decay", "0.98", "--reg", "0.02", *more)

    def check(self, result):
        print(f"{result['model']}, {result['workers']} workers: RMSE {result['test_rmse']:.4f}, "
              f"one process {result['reference_test_rmse']:.4f}")
        self.assertLess(result["test_rmse"], 0.2)
        self.assertLess(result["reference_test_rmse"], 0.2)
        self.assertGreater(result["mean_test_rmse"], 0.8)

    def test_one_worker_is_the_reference(self):
        result = self.factorize("ssp:0", 1)
        self.check(result)
        self.assertAlmostEqual(result["test_rmse"], result["reference_test_rmse"], 3)

    def test_ssp_2(self):
        for workers in 2, 4:
            self.check(self.factorize("ssp:2", workers))

    def test_bsp_and_asp(self):
        for model in "bsp", "asp":
            self.check(self.factorize(model, 2))

    def test_steps_that_are_too_long_are_told_early(self):
        data = self.path("ratings", ratings(random.Random(1)))
        done = self.up(f"{BIN}/matrix_factorization", "--ratings", data, "--epochs", "1000000", "--lr", "3", "--workers", "2")
        self.assertEqual(done.returncode, 1, done.stderr[-3000:])
        self.assertIn("the training diverges", done.stderr)
        self.assertIn("lower --lr", done.stderr)

    def test_another_format_is_refused(self):
        done = self.up(f"{BIN}/matrix_factorization", "--ratings", self.path("ratings", ["user,item,rating\n"]))
        self.assertEqual(done.returncode, 1, done.stderr[-3000:])
        self.assertIn("ratings:1: expected a user", done.stderr)


class LdaTest(ExampleTest):
    def sample(self, model, workers, *more):
        data = self.path("documents", documents(random.Random(1)))
        return self.run_example("lda", model, workers, "--docs", data, "--topics", str(TOPICS), "--sweeps", "60",
                                "--topics-out", self.path("topics"), *more)

    def check(self, result):
        print(f"{result['model']}, {result['workers']} workers: perplexity {result['perplexity']:.2f}, "
              f"one process {result['reference_perplexity']:.2f}, without topics {result['unigram_perplexity']:.2f}")
        self.assertLess(result["perplexity"], 1.1 * result["reference_perplexity"])
        self.assertLess(result["perplexity"], 20)
        self.assertGreater(result["unigram_perplexity"], 36)

    def test_one_worker_is_the_reference(self):
        result = self.sample("ssp:0", 1)
        self.check(result)
        self.assertAlmostEqual(result["perplexity"], result["reference_perplexity"], 6)

    def test_ssp_2(self):
        vocabulary = self.path("vocabulary", [f"word{i}\n" for i in range(40)])
        for workers in 2, 4:
            self.check(self.sample("ssp:2", workers, "--vocabulary", vocabulary))
        lines = self.read("topics").splitlines()
        self.assertTrue(lines[0].startswith("#"))
        self.assertEqual(len(lines), 1 + TOPICS)
        for line in lines[1:]:
            words = [int(word.removeprefix("word")) for word in line.split()[2:10]]
            # The eight most frequent words of a topic are its own.
            self.assertEqual(len({word // 8 for word in words}), 1, lines)
        self.assertAlmostEqual(sum(float(line.split()[1]) for line in lines[1:]), 1, 2)

    def test_bsp_and_asp(self):
        for model in "bsp", "asp":
            self.check(self.sample(model, 2))

    def test_queue(self):
        """Any worker may have a document next: without anybody killed nothing is counted amiss. (The topics of tokens are
        read as they are, so the histogram of staleness may exceed the bound of the counts.)"""
        data = self.path("documents", documents(random.Random(1)))
        result = self.run_example("lda", "ssp:3", 3, "--docs", data, "--topics", str(2 * TOPICS), "--sweeps", "40",
                                  "--work", "queue", "--count-work", "--batches", "5")
        self.check(result)
        self.assertEqual(result["tokens_repaired"], 0)
        self.assertEqual(result["trained_again"], 0)

    def test_counts_that_do_not_add_up_are_told(self):
        data = self.path("documents", documents(random.Random(1)))
        lda = [f"{BIN}/lda", "--docs", data, "--topics", "5", "--sweeps", "2", "--workers", "1", "--job", "again"]
        # A second run adds its counts to those of the first.
        done = self.up("sh", "-c", 'exec 2>&1; "$@" && "$@"', "sh", *lda)
        self.assertEqual(done.returncode, 1, done.stdout[-3000:])
        self.assertRegex(done.stdout, "the job has begun already|the topics have [0-9]+ tokens, the documents [0-9]+")


if __name__ == "__main__":
    unittest.main(verbosity=2)
