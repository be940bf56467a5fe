#!/usr/bin/env python3
"""A pusher and a reader under Vap{5}: values show the bound, also while the reader stands still and after it was forgotten.

The pusher counts what it was let push, in memory that this test reads. While the reader is stopped the pusher may go on by no
more than the bound, until the reader is forgotten; then nobody waits for it. What the reader prints once it runs again must
not lack more than the bound of what had been pushed by then, whatever had been on its way to it before.
"""
import json
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.environ["PACELINE_BIN"]
WORKER = os.environ["VALUE_BOUND_WORKER"]
BOUND = 5
ROUNDS = 4
DEADLINE = 60


class Reader:
    def __init__(self, job):
        self.process = subprocess.Popen([WORKER, "read", job, str(BOUND)], stdout=subprocess.PIPE)
        self.rest = b""

    def value(self, after=0.0):
        """The next value that it prints, of those that it was handed after that time."""
        while True:
            value, ns = self.line().split()
            if int(ns) > after * 1e9:
                return float(value)

    def line(self):
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], DEADLINE)[0]:
                raise TimeoutError("the reader prints nothing")
            got = os.read(self.process.stdout.fileno(), 65536)
            if not got:
                raise EOFError("the reader has ended")
            self.rest += got
        line, self.rest = self.rest.split(b"\n", 1)
        return line

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        while open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
            pass
        stopped = time.monotonic()
        self.drain()
        return stopped

    def drain(self):
        """Forgets what it has printed so far."""
        while select.select([self.process.stdout], [], [], 0)[0]:
            os.read(self.process.stdout.fileno(), 65536)
        self.rest = b""


def one_round(reader, pushes):
    for _ in range(20):
        reader.value()
    before = pushes()
    while pushes() < before + 50:
        reader.drain()  # while its pipe is full it confirms nothing, and would be forgotten
    stopped = reader.stop()
    # What the reader had confirmed arrives at once. It is forgotten no sooner than 0.8 s after it stopped.
    while time.monotonic() < stopped + 0.2:
        pass
    began = pushes()
    reached = began
    samples = 0
    while True:
        now = pushes()
        if time.monotonic() > stopped + 0.7:
            break
        reached = now
        samples += 1
    deadline = time.monotonic() + DEADLINE
    while pushes() < reached + 200:
        if time.monotonic() > deadline:
            raise TimeoutError("the pusher still waits for a reader that stands still")
    waited = time.monotonic() - stopped
    pushed = pushes()
    reader.process.send_signal(signal.SIGCONT)
    return {"samples": samples, "went_on_by": reached - began, "waited": waited, "lacks": pushed - reader.value(after=stopped)}


def inside():
    """Runs as the command of `paceline up`."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(8))
        file.flush()
        memory = mmap.mmap(file.fileno(), 8)
        reader = Reader("bound")
        reader.value()  # it is a reader before anything is pushed
        pusher = subprocess.Popen([WORKER, "push", "bound", str(BOUND), file.name])
        try:
            rounds = [one_round(reader, lambda: struct.unpack("<Q", memory[:8])[0]) for _ in range(ROUNDS)]
        finally:
            for process in (pusher, reader.process):
                process.kill()
                process.wait()
    print(json.dumps({"rounds": rounds}))


class ValueBoundTest(unittest.TestCase):
    def test_values_keep_the_bound(self):
        up = subprocess.run([f"{BIN}/paceline", "up", "--shards", "2", "--port", "0", "--no-shared-memory", "--",
                             sys.executable,
                             os.path.abspath(__file__), "--inside"],
                            capture_output=True, text=True, timeout=400)
        self.assertEqual(up.returncode, 0, up.stdout[-3000:] + up.stderr[-3000:])
        rounds = json.loads([line for line in up.stdout.splitlines() if line.startswith("{")][-1])["rounds"]
        print(rounds)
        self.assertEqual(len(rounds), ROUNDS)
        for one in rounds:
            self.assertLessEqual(one["went_on_by"], BOUND, one)
            self.assertGreater(one["samples"], 100, one)
        # A value may be handed out just before the reader is stopped, and be noted afterwards; hardly ever twice.
        old = [one for one in rounds if one["lacks"] > BOUND]
        self.assertLessEqual(len(old), 1, rounds)


if __name__ == "__main__":
    if sys.argv[1:] == ["--inside"]:
        inside()
    else:
        unittest.main(verbosity=2)
