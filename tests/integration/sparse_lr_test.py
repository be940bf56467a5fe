#!/usr/bin/env python3
"""sparse_lr learns over a cluster what it learns in one process, tells what it did, and ends in order."""
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import unittest

BIN = os.environ["PACELINE_BIN"]
MAKE_DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/sparse_lr/make_data.py")
KEYS = {"test_log_loss", "test_auc", "objective", "nonzeros", "seconds", "examples_per_second", "wait_seconds",
        "wait_seconds_by_cause", "observed_staleness_histogram", "rows_pushed", "reference_test_log_loss"}
CAUSES = {"staleness", "queue", "network", "route", "back_pressure", "work", "value_bound", "commit"}


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


def label(draw, margin):
    return "+1" if draw.random() < 1 / (1 + math.exp(-margin)) else "-1"


def indicators(draw, rows):
    """As one-hot encoded people: of each of 14 groups of columns one is 1."""
    for _ in range(rows):
        values = [min(draw.randrange(8), draw.randrange(8)) for _ in range(14)]
        margin = -0.5 + sum(0.9 if value < 2 else -0.9 for value in values[:4])
        columns = "".join(f" {8 * group + value}:1" for group, value in enumerate(values))
        yield label(draw, margin) + columns + "\n"


def unscaled(draw, rows):
    """Ages, incomes, thousandths, indicators: as they were counted."""
    for _ in range(rows):
        age, income, ratio, flag = draw.gauss(0, 1), draw.gauss(0, 1), draw.gauss(0, 1), draw.random() < 0.3
        margin = 0.8 * age + 1.2 * income + 1.5 * ratio - 2 * flag - 0.5
        yield (f"{label(draw, margin)} 0:{40 + 13 * age:.4g} 1:{50000 + 15000 * income:.6g} 2:{1e-3 * ratio:.4g} "
               f"3:{int(flag)} 4:1\n")


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
        trace = self.path("trace.json")
        result = self.run_model("ssp:2", 2, "--trace", trace)
        self.assertLessEqual(result["observed_staleness_histogram"].keys(), {"0", "1", "2"})
        with open(trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        names = {event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertEqual(names, {"worker 0", "worker 1"})
        spans = [event for event in events if event["ph"] == "X"]
        self.assertEqual({span["name"] for span in spans}, {"clock", "wait for rows", "push", "tick", "finish"})
        self.assertTrue(all(span["ts"] >= 0 and span["dur"] >= 0 for span in spans))
        for rank in range(2):
            clocks = [span for span in spans if span["tid"] == rank and span["name"] == "clock"]
            self.assertEqual([span["args"]["clock"] for span in clocks], list(range(len(clocks))))

    def test_a_bounded_delay(self):
        result = self.run_model("delay:3", 2)
        self.assertLessEqual(result["observed_staleness_histogram"].keys(), {"0", "1", "2", "3"})

    def test_a_bound_of_8_halves_the_pulled_rows(self):
        fresh, stale = self.run_model("ssp:0", 2), self.run_model("ssp:8", 2, "--refresh")
        print(f"bytes pulled: ssp:0 {fresh['bytes_pulled']:,}, ssp:8 {stale['bytes_pulled']:,}; "
              f"held-out log-loss: ssp:0 {fresh['test_log_loss']:.4f}, ssp:8 {stale['test_log_loss']:.4f}")
        self.assertLessEqual(stale["bytes_pulled"], 0.5 * fresh["bytes_pulled"])
        self.assertLessEqual(abs(stale["test_log_loss"] - fresh["test_log_loss"]), 0.01 * fresh["test_log_loss"])
        for result in fresh, stale:
            self.assertEqual(sum(result["observed_staleness_histogram"].values()),
                             result["rows_pulled"] + result["rows_from_cache"])

    def test_filters_leave_out_most_and_change_little(self):
        plain = self.run_model("ssp:2", 2)
        self.assertNotIn("filters", plain)
        for filters, keys in (("kkt", {"kkt"}), ("kkt,top-k:0.5,bf16", {"kkt", "push", "link"}), ("significant:0.2", {"push"})):
            with self.subTest(filters):
                result = self.run_model("ssp:2", 2, "--filters", filters)
                self.assertEqual(result["filters"].keys(), keys)
                # bf16 values travel as 2 bytes.
                link = result["filters"].pop("link", {})
                self.assertEqual(bool(link), "bf16" in filters)
                for name, of in result["filters"].items():
                    print(f"{filters}: {name} {of['share']:.3f} not sent; objective {result['objective']:.4f}, "
                          f"without {plain['objective']:.4f}")
                    self.assertGreater(of["share"], 0.3)
                    self.assertGreater(of["bytes_not_sent"], 0)
                self.assertLess(result["rows_pushed"], 0.7 * plain["rows_pushed"])
                self.assertLess(abs(result["objective"] - plain["objective"]), 0.05 * plain["objective"])

    def test_filters_that_do_not_suit_are_refused(self):
        for more, why in ((["--filters", "kkt", "--rule", "sgd"], "--filters kkt"), (["--filters", "kkt:2"], "'kkt:2'"),
                          (["--filters", "no-such"], "'no-such'"), (["--filters", "top-k:0.5,skip:0.5"], "one of top-k")):
            done = subprocess.run([*self.command("ssp:2", *more), "--coordinator", "localhost:1"], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(why, done.stderr)
        done = self.up(*self.command("bsp", "--workers", "2", "--filters", "top-k:0.5"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("push without a filter", done.stderr)

    def test_asp(self):
        self.run_model("asp", 2)

    def weights(self):
        with open(self.path("weights"), encoding="ascii") as file:
            return {int(column): float(weight) for column, weight in map(str.split, file.read().splitlines()[1:])}

    def test_bsp_does_not_depend_on_the_number_of_workers(self):
        sgd = ("--rule", "sgd", "--lr", "0.1")
        one = self.run_model("bsp", 1, "--batch", "64", *sgd)
        weights_of_one = self.weights()
        four = self.run_model("bsp", 4, "--batch", "16", *sgd)
        weights_of_four = self.weights()
        self.assertEqual(four["observed_staleness_histogram"].keys(), {"0"})
        self.assertAlmostEqual(one["test_log_loss"], four["test_log_loss"], 5)
        columns = weights_of_one.keys() | weights_of_four.keys()
        apart = math.dist(*([of.get(c, 0.0) for c in columns] for of in (weights_of_one, weights_of_four)))
        size = math.hypot(*weights_of_one.values())
        print(f"relative L2 between the models of 1 and 4 workers: {apart / size:.2e}")
        self.assertLessEqual(apart, 1e-5 * size)

    def test_bsp_with_the_default_rule(self):
        built_in = self.run_model("bsp", 2)
        weights = self.weights()
        written = self.run_model("bsp", 2, "--rule", "ftrl-expression")
        self.assertEqual(written["test_log_loss"], built_in["test_log_loss"])
        self.assertEqual(self.weights(), weights, "the rule as an expression gives the same bits")

    def run_defaults(self, make, model):
        """Of data that is not as the others': (results, standard error)."""
        paths = []
        for name, seed in (("train", 1), ("test", 2)):
            paths.append(self.path(f"{make.__name__}-{name}"))
            with open(paths[-1], "w", encoding="ascii") as file:
                file.writelines(make(random.Random(seed), 4000))
        out = self.path("out.json")
        done = self.up(f"{BIN}/sparse_lr", "--train", paths[0], "--test", paths[1], *model, "--workers", "4", "--json",
                       out, "--model-out", self.path("weights"))
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        with open(out, encoding="utf-8") as file:
            return json.load(file), done.stderr

    def test_defaults_suit_indicators_and_columns_of_any_scale(self):
        for make, best in ((indicators, 0.443), (unscaled, 0.401)):
            for model in ("bsp", "ssp:2"):
                with self.subTest(f"{make.__name__} {model}"):
                    result, stderr = self.run_defaults(make, ["--model", model])
                    print(f"{make.__name__} {model}: objective {result['objective']:.4f}")
                    self.assertLess(result["objective"], 1.1 * best, "the best that there is is that of Newton's method")
                    self.assertTrue(result["converged"])
                    self.assertNotIn("warning", stderr)
        self.assertLess(abs(self.weights()[1]), 0.01, "the weight of what is counted in tens of thousands is its own")

    def test_steps_that_are_too_long_are_warned_of(self):
        result, stderr = self.run_defaults(indicators, ["--model", "bsp", "--rule", "sgd", "--lr", "0.1"])
        self.assertFalse(result["converged"])
        self.assertIn("warning: the training has not converged", stderr)

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
