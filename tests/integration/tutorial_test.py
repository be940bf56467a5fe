#!/usr/bin/env python3
"""docs/tutorial.md, step by step: the program that it shows is the one that runs here."""
import os
import re
import signal
import subprocess
import unittest
from pathlib import Path

BIN = os.environ["PACELINE_BIN"]
ROOT = Path(__file__).resolve().parents[2]
WAIT = 120


class TutorialTest(unittest.TestCase):
    def setUp(self):
        self.up = subprocess.Popen([f"{BIN}/paceline", "up", "--shards", "2", "--port", "0"], stdout=subprocess.PIPE,
                                   text=True)
        self.addCleanup(self.end)
        self.coordinator = re.fullmatch(r"ready coordinator=(\S+)\n", self.up.stdout.readline())[1]

    def end(self):
        self.up.terminate()
        self.up.wait(WAIT)
        self.up.stdout.close()

    def start(self, *arguments):
        return subprocess.Popen([f"{BIN}/line", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**os.environ, "PACELINE_COORDINATOR": self.coordinator})

    def finish(self, *workers):
        """Their output, line by line."""
        outputs = []
        for worker in workers:
            out, err = worker.communicate(timeout=WAIT)
            self.assertEqual(worker.returncode, 0, err)
            outputs.append(out.splitlines())
        return outputs

    def loss(self):
        [[line]] = self.finish(self.start("evaluate"))
        return float(re.fullmatch(r"held-out loss (\S+); that of the noise is 0.01", line)[1])

    def train(self, model, last_clock):
        return self.finish(*[self.start(rank, 2, model, last_clock) for rank in range(2)])

    def test_train_evaluate_stop_and_go_on(self):
        first, second = self.train("2", 20)
        self.assertEqual([first[0], second[0]], [f"worker {rank} begins at clock 0" for rank in range(2)])
        self.assertEqual([first[-1], second[-1]], [f"worker {rank} stops at clock 20" for rank in range(2)])
        early = self.loss()
        self.assertGreater(early, 0.1, "it has not learnt everything yet")
        # The name of a job is its state: the same command with a later end goes on.
        first, second = self.train("2", 400)
        self.assertRegex(first[0], "begins at clock 21$", "Finish ended clock 20")
        self.assertLess(self.loss(), 0.02)

    def test_a_worker_that_is_told_to_stop_leaves_in_order(self):
        workers = [self.start(rank, 2, "2", 1_000_000) for rank in range(2)]
        for worker in workers:
            self.assertRegex(worker.stdout.readline(), "begins at clock 0")
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        first, second = self.finish(*workers)
        clock = int(re.fullmatch(r"worker 0 stops at clock (\d+)", first[-1])[1])
        more = self.train("2", clock + 5)
        self.assertRegex(more[0][0], r"begins at clock \d+")
        self.assertEqual(more[0][-1], f"worker 0 stops at clock {clock + 5}")

    def test_each_model_learns(self):
        for model in ("0", "asp", "bsp"):
            with self.subTest(model):
                self.train(model, 400)
                self.assertLess(self.loss(), 0.02)
            subprocess.run([f"{BIN}/paceline", "job", "delete", "line", "--coordinator", self.coordinator], check=True,
                           stdout=subprocess.DEVNULL, timeout=WAIT)

    def test_a_table_keeps_the_schema_it_was_made_with(self):
        self.train("2", 5)
        worker = self.start(0, 1, "bsp", 10)
        _, err = worker.communicate(timeout=WAIT)
        self.assertEqual(worker.returncode, 1)
        self.assertIn("aggregated", err)

    def test_the_page_shows_this_program(self):
        page = (ROOT / "docs/tutorial.md").read_text()
        shown = re.findall(r"```cpp\n(.*?)```", page, re.S)
        source = (ROOT / "examples/tutorial/main.cc").read_text()
        for name in "model", "train", "evaluate", "main":
            part = source.split(f"// [{name}]\n")[1]
            with self.subTest(name):
                self.assertIn(part, shown)


if __name__ == "__main__":
    unittest.main(verbosity=2)
