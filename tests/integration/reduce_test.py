#!/usr/bin/env python3
"""Reductions by real processes: right while others push, and while a shard is killed amid one; and `paceline reduce`."""
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

BIN = os.environ["PACELINE_BIN"]
PACELINE = f"{BIN}/paceline"
WORKER = os.environ["REDUCE_WORKER"]
WAIT = 120  # seconds for events that should come soon
ROWS = 4_000_000  # so that a reduction is under way for a while


class Cluster:
    """`paceline up` with three shards, which starts again what is killed."""

    def __init__(self, test):
        scratch = test.enterContext(tempfile.TemporaryDirectory())
        self.process = subprocess.Popen([PACELINE, "up", "--shards", "3", "--replicas", "1", "--port", "0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={**os.environ, "TMPDIR": scratch})
        test.addCleanup(self.end)
        line = self.process.stdout.readline()
        match = re.fullmatch(r"ready coordinator=(127\.0\.0\.1:\d+)\n", line)
        test.assertTrue(match, repr(line))
        self.coordinator = match[1]

    def pid_of(self, shard):
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, ValueError):
                if int(path.read_text().rpartition(")")[2].split()[1]) != self.process.pid:
                    continue
                arguments = (path.parent / "cmdline").read_text().split("\0")
                if "--name" in arguments and arguments[arguments.index("--name") + 1] == shard:
                    return int(path.parent.name)
        raise AssertionError(f"no {shard}")

    def run(self, *arguments):
        return subprocess.run([PACELINE, *arguments], capture_output=True, text=True, timeout=WAIT,
                              env={**os.environ, "PACELINE_COORDINATOR": self.coordinator})

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=WAIT)


class ReduceTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(self)
        self.worker = subprocess.Popen([WORKER, "wide", str(ROWS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True, env={**os.environ, "PACELINE_COORDINATOR": self.cluster.coordinator})
        self.addCleanup(self.end_worker)

    def end_worker(self):
        if self.worker.poll() is None:
            self.worker.kill()
        self.worker.wait()
        self.worker.stdin.close()
        self.worker.stdout.close()

    def next_outcome(self):
        line = self.worker.stdout.readline()
        self.assertTrue(line, "the worker has ended")
        outcome = json.loads(line)
        self.assertEqual(outcome["rows"], ROWS, "each row once")
        self.assertGreaterEqual(outcome["value"], outcome["least"], "what was committed before is in")
        self.assertLessEqual(outcome["value"], outcome["most"], "nothing is in twice")
        return outcome

    def test_a_shard_is_killed_amid_a_reduction(self):
        for turn in range(12):
            self.assertEqual(self.worker.stdout.readline(), "reducing\n")
            if turn == 3:
                os.kill(self.cluster.pid_of("shard-1"), signal.SIGKILL)
            self.next_outcome()
        # What it says after the end of its input is a reduction under way, maybe one more, and the last one.
        self.worker.stdin.close()
        lines = [line for line in self.worker.stdout if line != "reducing\n"]
        self.assertEqual(self.worker.wait(WAIT), 0)
        last = json.loads(lines[-1])
        self.assertEqual(last["value"], last["least"], "all that was committed, and nothing else")
        self.command_line(last["value"])

    def reduce(self, *arguments):
        done = self.cluster.run("reduce", "wide", "wide", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, *arguments):
        done = self.cluster.run("reduce", *arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr

    def command_line(self, total):
        found = json.loads(self.reduce("sum", "--json"))
        self.assertEqual(found, {"job": "wide", "table": "wide", "op": "sum", "value": total, "rows": ROWS,
                                 "values": ROWS})
        parts = [json.loads(self.reduce("sum", "--json", "--range", keys))["value"]
                 for keys in (":1000", "1000:3000000", "3000000:")]
        self.assertEqual(sum(parts), total)
        self.assertIn(f"of {ROWS} values in {ROWS} rows", self.reduce("l2"))
        largest = json.loads(self.reduce("max", "--json"))["value"]
        top = json.loads(self.reduce("top", "-k", "5", "--json"))["top"]
        self.assertEqual(len(top), 5)
        self.assertEqual(top[0]["value"], largest)
        self.assertEqual(top, sorted(top, key=lambda entry: (-entry["value"], entry["key"])))
        pulled = json.loads(self.cluster.run("pull", "wide", "wide", str(top[0]["key"]), "--json").stdout)
        self.assertEqual(pulled[0]["values"], [top[0]["value"]])

        self.assertIn("median", self.refused("wide", "wide", "median"))
        self.assertIn("has no table 'other'", self.refused("wide", "other", "sum"))
        self.assertIn("k: 0; expected 1 to 1024", self.refused("wide", "wide", "top", "-k", "0"))
        self.assertIn(f"the table has keys 0 to {ROWS - 1}", self.refused("wide", "wide", "sum", "--range", f"{ROWS}:"))
        self.assertIn("expected A:B", self.refused("wide", "wide", "sum", "--range", "7"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
