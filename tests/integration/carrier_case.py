"""What tests of the ways of streams share: a cluster whose processes are killed and stopped, and workers that count."""
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

from waiting import until

BIN = os.environ["PACELINE_BIN"]
WORKER = os.environ["NEAR_WORKER"]
WAIT = 180  # seconds for what should come soon


def status(coordinator):
    done = subprocess.run([f"{BIN}/paceline", "status", "--json", "--coordinator", coordinator],
                          capture_output=True, text=True, timeout=WAIT, check=True)
    return json.loads(done.stdout)


def metric(coordinator, name):
    """Of all shards that live."""
    total = 0
    for shard in filter(lambda shard: shard.get("alive"), status(coordinator)["shards"]):
        page = urllib.request.urlopen(f"http://{shard['metrics_address']}/metrics", timeout=10).read().decode()
        total += sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name))
    return total


class CarrierCase(unittest.TestCase):
    near = False  # whether shards and workers share a folder of sockets, unless a call says otherwise

    def setUp(self):
        # Short: the name of a socket has a hundred characters at most.
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="near-", dir="/tmp")))
        self.sockets = self.folder / "s"
        self.processes = {}
        self.addCleanup(self.end)

    def end(self):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def start(self, name, *arguments, **options):
        log = self.enterContext(open(self.folder / f"{name}.log", "a"))
        env = {key: value for key, value in os.environ.items() if key != "PACELINE_SOCKET_DIR"}
        self.processes[name] = subprocess.Popen([str(a) for a in arguments], stderr=log,
                                                **{"stdout": log, "text": True, "env": env, **options})
        return self.processes[name]

    def start_shard(self, i, *arguments, near=None):
        return self.start(f"shard-{i}", f"{BIN}/paceline-shard", "--coordinator", self.coordinator, "--name",
                          f"shard-{i}", "--threads", "2", *(["--socket-dir", self.sockets] if (self.near if near is None else near) else []),
                          *arguments)

    def start_cluster(self, shards, replicas, *arguments, far=()):
        port = self.folder / "port"
        self.start("coordinator", f"{BIN}/paceline-coordinator", "--data-dir", self.folder / "coordinator",
                   "--shards", shards, "--replicas", replicas, "--ring-bits", "3", "--listen", "127.0.0.1:0",
                   "--port-file", port, "--session-timeout", "2m")
        self.coordinator = until("the coordinator serves", lambda: port.exists() and port.read_text().strip())
        for i in range(shards):
            self.start_shard(i, *arguments, near=False if i in far else None)
        until("the cluster is well", lambda: not self.status()["problems"] and all(
            shard.get("alive") for shard in self.status()["shards"]) and len(self.status()["shards"]) == shards)

    def status(self):
        return status(self.coordinator)

    def metric(self, name):
        return metric(self.coordinator, name)

    def primaries(self, name):
        """Of so many segments it is the primary."""
        return next(int(shard.get("primaries", 0)) for shard in self.status()["shards"] if shard["info"]["name"] == name)

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def start_worker(self, name, seconds, *arguments, sockets=None, job="count", environment=None):
        folder = str(sockets or (self.sockets if self.near else ""))
        worker = self.start(name, WORKER, job, seconds, *arguments, stdout=subprocess.PIPE,
                            env={**os.environ, "PACELINE_COORDINATOR": self.coordinator,
                                 "PACELINE_SOCKET_DIR": folder, **(environment or {})})
        self.assertEqual(worker.stdout.readline(), "counting\n", (self.folder / f"{name}.log").read_text())
        return worker

    def result(self, name):
        out, _ = self.processes[name].communicate(timeout=WAIT)
        self.assertEqual(self.processes[name].returncode, 0, (self.folder / f"{name}.log").read_text())
        return json.loads(out)

    def check_counts(self, *results):
        """Each table holds what the workers have pushed; the last one to read has read it all."""
        pushes = sum(result["pushes"] for result in results)
        last = results[-1]
        self.assertEqual(last["sparse"], [8 * pushes, 8 * pushes])
        self.assertEqual(last["ranged"], [pushes, pushes])

    def cpu_seconds(self, name):
        fields = Path(f"/proc/{self.processes[name].pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class KillsAndPauses:
    """What is so whatever carries the streams."""

    def check_carried(self, result):
        """By what the streams of a worker went whose shards were killed: over shared memory or TCP, as it came."""

    def test_a_shard_is_killed_amid_pushes(self):
        self.start_cluster(shards=3, replicas=1)
        self.start_worker("worker", 8)
        for i in (0, 1):
            self.kill(f"shard-{i}")
            until("it is missed", lambda: self.status()["problems"])  # the worker goes on, with the replicas
            self.start_shard(i)
            until("it is a member again", lambda: not self.status()["problems"])
        result = self.result("worker")
        self.check_counts(result)
        self.assertGreater(result["breaks"], 0)
        self.check_carried(result)

    def test_a_primary_that_stands_still_is_replaced(self):
        self.start_cluster(shards=3, replicas=1)
        until("copies are made", self.copies_are_made)
        self.start_worker("worker", 8)
        self.assertGreater(self.primaries("shard-0"), 0)
        self.processes["shard-0"].send_signal(signal.SIGSTOP)
        until("others are primaries", lambda: self.primaries("shard-0") == 0)
        self.processes["shard-0"].send_signal(signal.SIGCONT)
        self.check_counts(self.result("worker"))
        until("the cluster is well", lambda: not self.status()["problems"])

    def test_a_shard_that_stands_still_holds_nobody_for_good(self):
        self.start_cluster(shards=2, replicas=0)
        worker = self.start_worker("worker", 8)
        self.processes["shard-0"].send_signal(signal.SIGSTOP)
        until("it is missed", lambda: self.status()["problems"])
        self.assertIsNone(worker.poll())
        self.processes["shard-0"].send_signal(signal.SIGCONT)
        self.check_counts(self.result("worker"))

    def test_values_that_were_lent_are_the_callers_again(self):
        """Whatever the caller writes to them, the rows hold what it has pushed."""
        self.start_cluster(shards=3, replicas=1)
        self.start_worker("worker", 10, "30ms")
        for i in (0, 1, 2):
            self.processes[f"shard-{i}"].send_signal(signal.SIGSTOP)
            time.sleep(0.7)  # how long the fault lasts: the worker gives up waiting again and again
            self.processes[f"shard-{i}"].send_signal(signal.SIGCONT)
        until("each segment has its copies", lambda: not self.status()["problems"])
        self.kill("shard-1")
        until("it is missed", lambda: self.status()["problems"])
        self.start_shard(1)
        result = self.result("worker")
        self.assertEqual(result["ranged"], [result["pushes"], result["pushes"]])
        self.assertGreater(result["early"], 0)
        self.assertGreater(result["breaks"], 0)
        self.check_carried(result)

    def test_a_client_that_stands_still_or_is_killed_disturbs_no_other(self):
        self.start_cluster(shards=1, replicas=0)
        still = self.start_worker("still", 60)
        killed = self.start_worker("killed", 60)
        still.send_signal(signal.SIGSTOP)
        killed.kill()  # whatever is in its rings
        killed.wait()
        self.start_worker("other", 2, job="another")
        self.check_counts(self.result("other"))
        still.kill()
        still.wait()
        until("all streams are gone", lambda: self.metric("paceline_shard_streams{") == 0)
        until("and their memory", lambda: self.metric("paceline_shard_shared_memory_bytes") == 0)

    def test_an_idle_pair_uses_no_cpu(self):
        self.start_cluster(shards=1, replicas=0)
        worker = self.start_worker("worker", 60)
        worker.send_signal(signal.SIGSTOP)  # its streams stay, and nothing comes
        seen = [self.cpu_seconds("shard-0")]

        def rests():
            seen.append(self.cpu_seconds("shard-0"))
            return seen[-1] == seen[-2]

        until("what was under way is done", rests)
        time.sleep(3)  # the time itself is measured
        self.assertLess(self.cpu_seconds("shard-0") - seen[-1], 0.3)
