#!/usr/bin/env python3
"""docker/snapshot-jobs, which the chart's CronJob runs, on a cluster of this machine (`paceline up`)."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = os.environ["PACELINE_BIN"]
WAIT = 120  # seconds for what should come soon


def paceline(*arguments):
    return subprocess.run([f"{BIN}/paceline", *arguments], check=True, capture_output=True, text=True, timeout=WAIT).stdout


class SnapshotJobsTest(unittest.TestCase):
    def setUp(self):
        self.taken = Path(self.enterContext(tempfile.TemporaryDirectory())) / "taken"

    def count(self, job):
        """A worker that counts in the job until SIGUSR1; it has begun when this returns."""
        worker = subprocess.Popen([f"{BIN}/paceline-count", "--job", job, "--rows", "100", "--clocks", "1000000", "--pause", "0.005"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(worker.stderr.close)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        while not any(line.split()[:1] == [job] and line.split()[3:4] == ["1"] for line in paceline("job", "list").splitlines()):
            self.assertIsNone(worker.poll(), "the worker ended")
        return worker

    def run_jobs(self, *arguments, code=0):
        done = subprocess.run([ROOT / "docker/snapshot-jobs", f"--taken={self.taken}", "--timeout=60", *arguments], capture_output=True, text=True,
                              timeout=WAIT, env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def take(self, *arguments):
        """The name of the only snapshot that is taken."""
        (name,) = [line for line in self.run_jobs(*arguments).stdout.splitlines() if " " not in line]
        return name

    @staticmethod
    def snapshots(job):
        """Their names, oldest first."""
        return [line.split()[3] for line in paceline("snapshot", "list", job).splitlines() if " of job " in line]

    def test_the_last_are_kept_and_others_left_alone(self):
        self.count("kept")
        mine = paceline("snapshot", "create", "kept").strip()
        taken = [self.take("--keep=2", "--", "kept") for _ in range(4)]
        self.assertEqual(self.snapshots("kept"), [mine, *taken[-2:]])
        self.assertEqual([line.split()[:2] for line in self.taken.read_text().splitlines()], [[name, "kept"] for name in taken[-2:]])
        paceline("snapshot", "delete", taken[-2])  # by hand: it is not missed
        newest = self.take("--keep=1", "--", "kept")
        self.assertEqual(self.snapshots("kept"), [mine, newest])

    def test_each_job_or_those_that_are_named(self):
        self.count("a")
        self.count("b")
        self.run_jobs("--", "a")
        self.assertEqual((len(self.snapshots("a")), len(self.snapshots("b"))), (1, 0))
        done = self.run_jobs("--", "absent", "b", code=1)
        self.assertIn("there is no open job 'absent'", done.stderr)
        self.assertEqual(len(self.snapshots("b")), 1, "the others have theirs all the same")
        self.run_jobs()
        self.assertEqual((len(self.snapshots("a")), len(self.snapshots("b"))), (2, 2))

    def test_a_job_that_has_ended_gets_one_more_and_no_other(self):
        worker = self.count("ended")
        worker.send_signal(signal.SIGUSR1)
        self.assertEqual(worker.wait(WAIT), 0, worker.stderr.read())
        for _ in range(3):
            self.run_jobs("--", "ended")
        self.assertEqual(len(self.snapshots("ended")), 1)

    def test_says_what_is_wrong_with_its_command(self):
        self.assertIn("unknown argument '--bad'", self.run_jobs("--bad", code=2).stderr)
        done = subprocess.run([ROOT / "docker/snapshot-jobs"], capture_output=True, text=True, timeout=WAIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--taken=FILE is missing", done.stderr)


if __name__ == "__main__":
    if "IN_CLUSTER" in os.environ:
        unittest.main(verbosity=2)
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(subprocess.run([f"{BIN}/paceline", "up", "--shards", "2", "--port", "0", "--snapshot-dir", folder, "--",
                                 sys.executable, __file__, *sys.argv[1:]], env={**os.environ, "IN_CLUSTER": "1"}).returncode)
