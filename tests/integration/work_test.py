#!/usr/bin/env python3
"""Four workers share the examples of a work queue; one of them is killed in mid-epoch, one told to leave, and two join:
every example is trained, once but for what the coordinator counts. The coordinator is killed meanwhile as well."""
import json
import os
import re
import signal
import subprocess
import unittest
from pathlib import Path

BIN = os.environ["PACELINE_BIN"]
PACELINE = f"{BIN}/paceline"
COUNT = f"{BIN}/paceline-count"
WAIT = 120  # seconds for events that should come soon
EXAMPLES = 600
PASSES = 2


class WorkTest(unittest.TestCase):
    def setUp(self):
        self.up = subprocess.Popen([PACELINE, "up", "--shards", "2", "--replicas", "1", "--port", "0"],
                                   stdout=subprocess.PIPE, text=True)  # which starts again what ends
        self.addCleanup(self.end, self.up)
        self.coordinator = re.fullmatch(r"ready coordinator=(\S+)\n", self.up.stdout.readline())[1]

    def end(self, process):
        process.terminate()
        process.wait(WAIT)
        process.stdout.close()

    def worker(self, index, workers):
        process = subprocess.Popen(
            [COUNT, "--coordinator", self.coordinator, "--job", "ctr", "--index", str(index), "--workers", str(workers),
             "--examples", str(EXAMPLES), "--per-item", "10", "--passes", str(PASSES), "--pause", "0.01"],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def work(self):
        """What `paceline job list` says of the queue, as soon as a coordinator answers."""
        done = None
        while done is None or done.returncode != 0:
            done = subprocess.run([PACELINE, "job", "list", "--json", "--coordinator", self.coordinator],
                                  capture_output=True, text=True, timeout=WAIT)
        work = json.loads(done.stdout)[0].get("work", [])
        return work[0] if work else {}

    def until(self, examples):
        """Waits for the queue itself to say that so much is done."""
        while int(self.work().get("examples_done", 0)) < examples:
            self.assertIsNone(self.up.poll())

    def kill_coordinator(self):
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                name, _, rest = path.read_text().rpartition(")")
            except OSError:
                continue
            if int(rest.split()[1]) == self.up.pid and "paceline-coordi" in name:
                return os.kill(int(path.parent.name), signal.SIGKILL)
        self.fail("there is no coordinator")

    def test_workers_come_and_go_in_mid_epoch(self):
        first = [self.worker(index, 4) for index in range(4)]
        for process in first:
            self.assertIn("trains from item", process.stdout.readline())
        self.until(100)
        first[1].kill()
        added = [self.worker(index, 1) for index in (4, 5)]
        for process in added:
            self.assertIn("trains from item", process.stdout.readline())
        text = subprocess.run([PACELINE, "status", "--coordinator", self.coordinator], capture_output=True, text=True,
                              timeout=WAIT).stdout
        self.assertRegex(text, r"work examples: \d+\.\d % of 1200 examples in 2 passes, \d+ items with \d workers")
        self.until(300)
        self.kill_coordinator()  # they go on with what they hold, and the next one knows who holds what
        self.until(400)
        first[2].send_signal(signal.SIGUSR1)  # it leaves, and gives back the rest
        out = first[0].stdout.read()
        for process in [first[0], first[2], first[3], *added]:
            self.assertEqual(process.wait(WAIT), 0)
        trained = re.search(r"all 1200 examples are trained, (\d+) of them once more", out)
        self.assertTrue(trained, out)
        work = self.work()
        self.assertEqual(int(work["examples_done"]), EXAMPLES * PASSES)
        counted = int(work.get("again_begun", 0)) + int(work.get("again_perhaps", 0))
        self.assertLessEqual(int(trained[1]), counted)
        self.assertGreater(counted, 0, "one was killed with work in its hands")
        self.assertLessEqual(int(work["again_begun"]) if "again_begun" in work else 0, 20,
                             "it had one item begun, or was between two")


if __name__ == "__main__":
    unittest.main()
