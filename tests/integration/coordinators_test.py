#!/usr/bin/env python3
"""Two coordinators on an etcd, two shards and two workers that count: whatever of the control plane is killed or
hangs, training goes on, the counts are exact, and `paceline status` says what is wrong."""
import contextlib
import json
import os
import queue
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

from waiting import until

BIN = os.environ["PACELINE_BIN"]
WORKER = os.environ["COORDINATORS_WORKER"]
WAIT = 120  # seconds for events that should come soon
LEASE = 2.0


def free_port():
    # Below those that the kernel gives to clients, so that none of these talks to itself while nobody listens.
    while True:
        port = random.randint(15_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port


class Worker:
    """A process that counts, and the clock it has reached."""

    def __init__(self, cluster, workers):
        self.process = subprocess.Popen([WORKER, "count", str(workers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "PACELINE_COORDINATOR": cluster.coordinators()})
        self.clock = 0
        self.ended = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            word, number = line.split()
            self.clock = int(number)
            if word == "finished":
                self.ended.put(self.clock)

    def finish(self):
        """The clocks it has counted."""
        self.process.stdin.close()
        code = self.process.wait(WAIT)
        if code != 0:
            raise AssertionError(f"a worker ended with {code}: {self.process.stderr.read()}")
        return self.ended.get(timeout=WAIT)


class Cluster:
    """The processes, in a folder of their own. Each keeps its port when it is started again."""

    def __init__(self, test, lease):
        self.lease = lease
        self.folder = Path(test.enterContext(tempfile.TemporaryDirectory()))
        self.ports = {name: free_port() for name in ("etcd", "etcd-peer", "coordinator-0", "coordinator-1")}
        self.processes = {}
        self.workers = []
        test.addCleanup(self.end)
        self.start_etcd()
        for name in ("coordinator-0", "coordinator-1"):
            self.start_coordinator(name)
        for name in ("shard-0", "shard-1"):
            self.start(name, "paceline-shard", "--coordinator", self.coordinators(), "--listen", "127.0.0.1:0",
                       "--name", name)

    def start(self, name, program, *arguments):
        log = (self.folder / f"{name}.log").open("ab")
        path = program if program == "etcd" else f"{BIN}/{program}"
        self.processes[name] = subprocess.Popen([path, *arguments], stdout=log, stderr=log)
        log.close()

    def start_etcd(self):
        client, peer = (f"http://127.0.0.1:{self.ports[name]}" for name in ("etcd", "etcd-peer"))
        self.start("etcd", "etcd", "--name=test", f"--data-dir={self.folder}/etcd", f"--listen-client-urls={client}",
                   f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
                   f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=test={peer}")

    def start_coordinator(self, name, *more):
        self.start(name, "paceline-coordinator", "--store", f"etcd://127.0.0.1:{self.ports['etcd']}", "--listen",
                   self.address(name), "--shards", "2", "--leader-lease", f"{self.lease}s", *more)

    def address(self, name):
        return f"127.0.0.1:{self.ports[name]}"

    def coordinators(self):
        return f"{self.address('coordinator-0')},{self.address('coordinator-1')}"

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def signal(self, name, number):
        self.processes[name].send_signal(number)

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait(WAIT)

    def status(self, json_too=True):
        """What `paceline status` says; None if nobody answers."""
        done = subprocess.run([f"{BIN}/paceline", "status", "--coordinator", self.coordinators(),
                               *(["--json"] if json_too else [])], capture_output=True, text=True, timeout=WAIT)
        if done.returncode != 0:
            self.said = done.stderr
            return None
        return json.loads(done.stdout) if json_too else done.stdout

    def leader(self):
        """The name of the coordinator that leads now; None: none does."""
        found = self.status()
        if found is None or found.get("standby"):
            return None
        return next(name for name in ("coordinator-0", "coordinator-1") if self.address(name) == found["leader"])

    def problems(self):
        found = self.status()
        return self.said if found is None else "\n".join(found.get("problems", []))

    def count(self):
        self.workers = [Worker(self, 2) for _ in range(2)]
        until("the workers count", lambda: min(w.clock for w in self.workers) >= 3)

    def goes_on(self, clocks=20):
        """Every worker counts that far from here."""
        goal = max(w.clock for w in self.workers) + clocks
        until("training goes on", lambda: min(w.clock for w in self.workers) >= goal)

    def end(self):
        for process in [*self.processes.values(), *(w.process for w in self.workers)]:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None and not stream.closed and process in [w.process for w in self.workers]:
                    with contextlib.suppress(OSError, ValueError):
                        stream.close()


class CoordinatorsTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        # A leader that gives up its lease is replaced without a wait.
        self.cluster = Cluster(self, lease=300 if "ends_in_order" in self.id() else LEASE)
        self.leader = until("a coordinator leads", self.cluster.leader)
        self.other = {"coordinator-0": "coordinator-1", "coordinator-1": "coordinator-0"}[self.leader]
        self.cluster.count()

    def end_exactly(self):
        """The workers finish, and every key holds what they counted."""
        counted = sum(w.finish() for w in self.cluster.workers)
        done = subprocess.run([WORKER, "read"], capture_output=True, text=True, timeout=2 * WAIT,
                              env={**os.environ, "PACELINE_COORDINATOR": self.cluster.coordinators()})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"{counted} {counted}\n")

    def metrics(self, name):
        address = re.findall(r"coordinator serves .*metrics=(\S+)", self.cluster.log(name))[-1]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=WAIT) as page:
            lines = page.read().decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    def test_the_leader_is_killed_and_comes_back(self):
        self.assertEqual(self.metrics(self.leader)["paceline_coordinator_leads"], "1")
        self.assertEqual(self.metrics(self.other)["paceline_coordinator_leads"], "0")
        self.cluster.kill(self.leader)
        until("the other one leads", lambda: self.cluster.leader() == self.other)
        self.assertIn(f"the coordinator at {self.cluster.address(self.leader)} does not answer", self.cluster.problems())
        self.assertEqual(self.metrics(self.other)["paceline_coordinator_term"], "2")
        self.cluster.goes_on()
        self.cluster.start_coordinator(self.leader)
        until("nothing is wrong any more", lambda: self.cluster.problems() == "")
        self.assertEqual(self.cluster.leader(), self.other)
        self.end_exactly()

    def test_a_leader_that_ends_in_order_is_replaced_sooner_than_its_lease(self):
        self.cluster.signal(self.leader, signal.SIGTERM)
        self.assertEqual(self.cluster.processes[self.leader].wait(WAIT), 0)
        until("the other one leads", lambda: "coordinator leads term=2" in self.cluster.log(self.other))
        self.end_exactly()

    def test_a_paused_leader_steps_down_when_it_wakes(self):
        self.cluster.signal(self.leader, signal.SIGSTOP)
        until("the other one leads", lambda: self.cluster.leader() == self.other)
        self.cluster.goes_on()
        self.cluster.signal(self.leader, signal.SIGCONT)
        until("the first one steps down", lambda: "leads no longer" in self.cluster.log(self.leader))
        until("nothing is wrong any more", lambda: self.cluster.problems() == "")
        self.assertEqual(self.cluster.leader(), self.other)
        self.end_exactly()

    def test_all_coordinators_are_killed(self):
        for name in (self.leader, self.other):
            self.cluster.kill(name)
        self.cluster.goes_on(50)
        self.assertIn("no coordinator answers", self.cluster.problems())
        for name in (self.other, self.leader):
            self.cluster.start_coordinator(name)
        until("one leads again", self.cluster.leader)
        self.cluster.goes_on()
        self.end_exactly()

    def test_etcd_hangs_for_longer_than_the_lease(self):
        self.cluster.signal("etcd", signal.SIGSTOP)
        until("status tells", lambda: "no coordinator can lead" in self.cluster.problems())
        problems = self.cluster.problems()
        self.assertIn(f"etcd at 127.0.0.1:{self.cluster.ports['etcd']} does not answer", problems)
        # The leader leads until its lease is over.
        until("the leader has stepped down", lambda: "no coordinator leads" in self.cluster.status(json_too=False))
        self.cluster.goes_on(50)
        self.cluster.signal("etcd", signal.SIGCONT)
        until("one leads again", self.cluster.leader)
        self.cluster.goes_on()
        self.assertGreater(float(self.metrics(self.leader)["paceline_coordinator_store_failures_total"]), 0)
        self.end_exactly()

    def test_a_coordinator_with_another_ring_ends_at_once(self):
        self.cluster.ports["coordinator-2"] = 0
        self.cluster.start_coordinator("coordinator-2", "--ring-bits", "7")
        self.assertEqual(self.cluster.processes["coordinator-2"].wait(WAIT), 1)
        self.assertIn("ring_bits: 7, but this cluster was created with 6", self.cluster.log("coordinator-2"))

    def test_etcd_is_killed_and_started_again(self):
        self.cluster.kill("etcd")
        until("status tells", lambda: "no coordinator can lead" in self.cluster.problems())
        self.cluster.goes_on(50)
        self.cluster.start_etcd()
        until("one leads again", self.cluster.leader)
        until("nothing is wrong any more", lambda: self.cluster.problems() == "")
        self.cluster.goes_on()
        self.end_exactly()


if __name__ == "__main__":
    unittest.main(verbosity=2)
