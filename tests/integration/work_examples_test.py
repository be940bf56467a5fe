#!/usr/bin/env python3
"""sparse_lr, matrix_factorization and lda share their examples by a work queue; one of four workers is killed in mid-epoch, and
two join: every example of every pass is trained, once but for what the coordinator counts, and the model is as good as
that of one process."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from factors_topics_test import TOPICS, documents, ratings

BIN = os.environ["PACELINE_BIN"]
PACELINE = f"{BIN}/paceline"
MAKE_DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/sparse_lr/make_data.py")
WAIT = 240  # seconds for events that should come soon
WORKERS = 4


def children(parent):
    """The processes that `parent` has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            rest = path.read_text(encoding="ascii", errors="replace").rpartition(")")[2]
        except OSError:
            continue  # it has just ended
        if int(rest.split()[1]) == parent:
            found.append(int(path.parent.name))
    return found


class WorkExamplesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.up = subprocess.Popen([PACELINE, "up", "--shards", "2", "--replicas", "1", "--port", "0"],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, self.up)
        self.coordinator = re.fullmatch(r"ready coordinator=(\S+)\n", self.up.stdout.readline())[1]

    def end(self, process):
        process.terminate()
        process.communicate(timeout=WAIT)

    def start(self, *command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def work(self):
        """What `paceline job list` says of the queue."""
        done = subprocess.run([PACELINE, "job", "list", "--json", "--coordinator", self.coordinator],
                              capture_output=True, text=True, timeout=WAIT, check=True)
        jobs = [job for job in json.loads(done.stdout) if job["name"] == "train"]
        work = jobs[0].get("work", []) if jobs else []
        return work[0] if work else {}

    def train(self, program, examples, *options, had_work=True):
        """The results of a run amid which one of its workers is killed and two others join."""
        out = os.path.join(self.folder, "out.json")
        command = [f"{BIN}/{program}", "--coordinator", self.coordinator, "--job", "train", "--work", "queue",
                   "--count-work", *options]
        run = self.start(*command, "--workers", str(WORKERS), "--json", out)
        while int(self.work().get("examples_done", 0)) < examples // 50:
            self.assertIsNone(run.poll(), "it has ended before anything could happen to it")
        killed = children(run.pid)[1]
        os.kill(killed, signal.SIGKILL)
        joined = [self.start(*command, "--join") for _ in range(2)]
        told, errors = run.communicate(timeout=WAIT)
        self.assertEqual(run.returncode, 0, told[-3000:] + errors[-3000:])
        self.assertIn(f"(process {killed}) was killed by signal 9 (Killed); the others take over its work", errors)
        for process in joined:
            out_of_it, why = process.communicate(timeout=WAIT)
            self.assertEqual(process.returncode, 0, why[-3000:])
            trained = re.search(r"joined, and trained ([0-9,]+) of the ", out_of_it)
            self.assertTrue(trained, out_of_it)
            self.assertGreater(int(trained[1].replace(",", "")), 0, "it has joined in mid-epoch")
        with open(out, encoding="utf-8") as file:
            result = json.load(file)
        self.assertIn("all examples of all passes are trained", told)
        result["counted"] = self.check_work(result, examples, had_work)
        return result

    def check_work(self, result, examples, had_work=True):
        """The number of examples that may have been trained again. `had_work`: the one that was killed surely had some."""
        work = self.work()
        self.assertEqual(int(work["examples_done"]), examples)
        counted = int(work.get("again_begun", 0)) + int(work.get("again_perhaps", 0))
        print(f"{result['trained_again']} of {examples} examples were trained again; {counted} are counted")
        self.assertLessEqual(result["trained_again"], counted)
        if had_work:
            self.assertGreater(counted, 0, "one was killed with work in its hands")
        return counted

    def test_sparse_lr(self):
        subprocess.run([sys.executable, MAKE_DATA, self.folder], check=True)
        epochs = 150
        result = self.train("sparse_lr", 2000 * epochs, "--train", f"{self.folder}/train.libsvm", "--test",
                            f"{self.folder}/test.libsvm", "--l1", "1e-3", "--epochs", str(epochs))
        self.assertLess(result["test_log_loss"], 1.1 * result["reference_test_log_loss"])
        self.assertLess(result["reference_test_log_loss"], 0.6)

    def test_workers_that_somebody_else_starts(self):
        """As the pods of an indexed Job: number 1 is killed and started again, number 7 comes later."""
        subprocess.run([sys.executable, MAKE_DATA, self.folder], check=True)
        epochs = 150
        command = [f"{BIN}/sparse_lr", "--coordinator", self.coordinator, "--job", "train", "--work", "queue", "--count-work",
                   "--train", f"{self.folder}/train.libsvm", "--test", f"{self.folder}/test.libsvm", "--l1", "1e-3",
                   "--epochs", str(epochs), "--index"]
        first = [self.start(*command, str(index)) for index in range(3)]
        while int(self.work().get("examples_done", 0)) < 2000 * epochs // 50:
            self.assertIsNone(first[0].poll(), "it has ended before anything could happen to it")
        first[1].kill()
        later = [self.start(*command, index) for index in ("1", "7")]
        told, errors = first[0].communicate(timeout=WAIT)
        self.assertEqual(first[0].returncode, 0, told[-3000:] + errors[-3000:])
        again = re.search(r"all examples of all epochs are trained, (\d+) of them once more", told)
        self.assertTrue(again, told)
        self.check_work({"trained_again": int(again[1])}, 2000 * epochs)
        for process in [first[2], *later]:
            _, why = process.communicate(timeout=WAIT)
            self.assertEqual(process.returncode, 0, why[-3000:])

    def test_matrix_factorization(self):
        data = os.path.join(self.folder, "ratings")
        with open(data, "w", encoding="ascii") as file:
            file.writelines(ratings(random.Random(1)))
        with open(data, encoding="ascii") as file:
            lines = sum(1 for _ in file)
        epochs = 300
        held_out = int(0.1 * lines + 0.5)
        result = self.train("matrix_factorization", (lines - held_out) * epochs, "--ratings", data, "--rank", "4",
                            "--epochs", str(epochs), "--batch", "20", "--lr", "0.05", "--decay", "0.98", "--reg", "0.02")
        self.assertLess(result["test_rmse"], 0.2)
        self.assertGreater(result["mean_test_rmse"], 0.8)

    def test_lda(self):
        """Documents go from worker to worker with the topics of their tokens. That the model counts each token once, as lda
        itself checks, and that no more are repaired than what is counted explains."""
        data = os.path.join(self.folder, "documents")
        with open(data, "w", encoding="ascii") as file:
            for seed in range(3):
                file.writelines(documents(random.Random(seed)))
        sweeps = 80
        # With more topics than there are no two of them are taken for one, which a chain may never leave again. One pass counts.
        result = self.train("lda", 540 * (1 + sweeps), "--docs", data, "--topics", str(2 * TOPICS), "--sweeps", str(sweeps),
                            "--batches", "20", had_work=False)
        print(f"perplexity {result['perplexity']:.2f}, one process {result['reference_perplexity']:.2f}; "
              f"{result['tokens_repaired']} of {result['tokens']} tokens were counted amiss")
        self.assertEqual(result["tokens"], 540 * 60)
        self.assertLessEqual(result["tokens_repaired"], 60 * result["counted"])
        self.assertLess(result["perplexity"], 1.03 * result["reference_perplexity"])
        self.assertGreater(result["unigram_perplexity"], 36)


if __name__ == "__main__":
    unittest.main(verbosity=2)
