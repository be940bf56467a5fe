#!/usr/bin/env python3
"""sparse_lr learns over a cluster what it learns in one process, tells what it did, and ends in order."""
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import unittest

BIN = os.environ["PACELINE_BIN"]
MAKE_DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/sparse_lr/make_data.py")
KEYS = {"test_log_loss", "test_auc", "objective", "nonzeros", "seconds", "examples_per_second", "wait_seconds",
        "wait_seconds_by_cause", "observed_staleness_histogram", "rows_pushed", "reference_test_log_loss"}
CAUSES = {"staleness", "queue", "network", "route", "back_pressure", "commit"}


def children(process):
    """The processes that `process` has started."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it has just ended
        if parent == process:
            found.append(int(name))
    return found


class SparseLrTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.train, cls.test = cls.path("train.libsvm"), cls.path("test.libsvm")
        subprocess.run([sys.executable, MAKE_DATA, cls.folder.name], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def command(self, model, *more):
        return [f"{BIN}/sparse_lr", "--train", self.train, "--test", self.test, "--l1", "1e-3", "--model", model, *more]

    def up(self, *command):
        return subprocess.run([f"{BIN}/paceline", "up", "--shards", "2", "--port", "0", "--", *command],
                              capture_output=True, text=True, timeout=300)

    def run_model(self, model, workers, *more):
        out, weights = self.path("out.json"), self.path("weights")
        done = self.up(*self.command(model, "--workers", str(workers), "--json", out, "--model-out", weights, *more))
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        with open(out, encoding="utf-8") as file:
            result = json.load(file)
        self.check_result(result, workers)
        self.check_weights(weights, result["nonzeros"])
        self.assertIn("held-out log-loss", done.stdout)
        self.assertIn("100 %", done.stderr)
        return result

    def check_result(self, result, workers):
        self.assertLessEqual(KEYS, result.keys())
        self.assertEqual(CAUSES, result["wait_seconds_by_cause"].keys())
        self.assertAlmostEqual(sum(result["wait_seconds_by_cause"].values()), result["wait_seconds"], 6)
        self.assertEqual(result["workers"], workers)
        self.assertLess(result["test_log_loss"], 1.05 * result["reference_test_log_loss"])
        self.assertGreater(result["test_auc"], result["reference_test_auc"] - 0.02)
        self.assertLess(result["reference_test_log_loss"], 0.6)  # of 0.69 without any learning
        self.assertGreater(result["rows_pushed"], 0)
        self.assertGreater(result["seconds"], 0)

    def check_weights(self, path, nonzeros):
        with open(path, encoding="ascii") as file:
            lines = file.read().splitlines()
        self.assertTrue(lines[0].startswith("#"), lines[0])
        weights = {int(column): float(weight) for column, weight in map(str.split, lines[1:])}
        self.assertEqual(len(weights), nonzeros)
        self.assertNotIn(0.0, weights.values())
        self.assertLessEqual(max(weights), 500)

    def test_one_worker_is_the_reference(self):
        result = self.run_model("ssp:0", 1)
        self.assertAlmostEqual(result["test_log_loss"], result["reference_test_log_loss"], 4)
        self.assertEqual(result["observed_staleness_histogram"].keys(), {"0"})

    def test_ssp_0(self):
        result = self.run_model("ssp:0", 2)
        self.assertEqual(result["observed_staleness_histogram"].keys(), {"0"})

    def test_ssp_2(self):
        result = self.run_model("ssp:2", 2)
        self.assertLessEqual(result["observed_staleness_histogram"].keys(), {"0", "1", "2"})

    def test_a_bound_of_8_halves_what_is_pulled(self):
        fresh, stale = self.run_model("ssp:0", 2), self.run_model("ssp:8", 2)
        print(f"bytes pulled: ssp:0 {fresh['bytes_pulled']:,}, ssp:8 {stale['bytes_pulled']:,}; "
              f"held-out log-loss: ssp:0 {fresh['test_log_loss']:.4f}, ssp:8 {stale['test_log_loss']:.4f}")
        self.assertLessEqual(stale["bytes_pulled"], 0.5 * fresh["bytes_pulled"])
        self.assertLessEqual(abs(stale["test_log_loss"] - fresh["test_log_loss"]), 0.01 * fresh["test_log_loss"])
        for result in fresh, stale:
            self.assertEqual(sum(result["observed_staleness_histogram"].values()),
                             result["rows_pulled"] + result["rows_from_cache"])

    def test_asp(self):
        self.run_model("asp", 2)

    def weights(self):
        with open(self.path("weights"), encoding="ascii") as file:
            return {int(column): float(weight) for column, weight in map(str.split, file.read().splitlines()[1:])}

    def test_bsp_does_not_depend_on_the_number_of_workers(self):
        one = self.run_model("bsp", 1, "--batch", "64")
        weights_of_one = self.weights()
        four = self.run_model("bsp", 4, "--batch", "16")
        weights_of_four = self.weights()
        self.assertEqual(four["observed_staleness_histogram"].keys(), {"0"})
        self.assertAlmostEqual(one["test_log_loss"], four["test_log_loss"], 5)
        columns = weights_of_one.keys() | weights_of_four.keys()
        apart = math.dist(*([of.get(c, 0.0) for c in columns] for of in (weights_of_one, weights_of_four)))
        size = math.hypot(*weights_of_one.values())
        print(f"relative L2 between the models of 1 and 4 workers: {apart / size:.2e}")
        self.assertLessEqual(apart, 1e-5 * size)

    def test_bsp_with_ftrl(self):
        self.run_model("bsp", 2, "--rule", "ftrl")

    def test_ends_in_order(self):
        done = self.up(sys.executable, os.path.abspath(__file__), "--inside",
                       *self.command("ssp:2", "--workers", "2", "--epochs", "1000000"))
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])


class Ends(unittest.TestCase):
    """Runs as the command of `paceline up`: trainings that would not end by themselves."""

    def setUp(self):
        self.run = subprocess.Popen(sys.argv[2:], stderr=subprocess.PIPE, text=True)
        while "epoch" not in self.run.stderr.readline():
            self.assertIsNone(self.run.poll())
        self.workers = children(self.run.pid)
        self.assertEqual(len(self.workers), 2)

    def tearDown(self):
        self.run.kill()
        self.run.wait()
        self.run.stderr.close()

    def check_end(self, code):
        stderr = self.run.stderr.read()  # up to the end of the last process that holds it
        self.assertEqual(self.run.wait(timeout=100), code, stderr)
        for worker in self.workers:
            self.assertFalse(os.path.exists(f"/proc/{worker}"), stderr)
        return stderr

    def test_a_worker_dies(self):
        os.kill(self.workers[1], signal.SIGKILL)
        self.assertIn(f"(process {self.workers[1]}) was killed by signal 9", self.check_end(1))

    def test_terminated(self):
        self.run.send_signal(signal.SIGTERM)
        self.check_end(128 + signal.SIGTERM)

    def test_interrupted(self):
        self.run.send_signal(signal.SIGINT)
        self.check_end(128 + signal.SIGINT)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        unittest.main(argv=sys.argv[:1], defaultTest="Ends", verbosity=2)
    else:
        unittest.main(defaultTest="SparseLrTest", verbosity=2)
