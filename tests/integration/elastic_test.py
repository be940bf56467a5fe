#!/usr/bin/env python3
"""A job counts on, exactly, while its cluster grows and shrinks: 3 shards, 4, a drain that is cancelled, 2; and one shard is
killed while its segments move. Without copies (on disks), and with one."""
import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from waiting import until

BIN = os.environ["PACELINE_BIN"]
WAIT = 150  # seconds for events that should come soon
WORKERS = 2


class Cluster:
    def __init__(self, test, replicas):
        self.test, self.replicas = test, replicas
        self.folder = Path(test.enterContext(tempfile.TemporaryDirectory()))
        self.processes = {}
        test.addCleanup(self.end)
        port = self.folder / "port"
        self.start("coordinator", "paceline-coordinator", "--data-dir", self.folder / "coordinator", "--shards", "3",
                   "--replicas", str(replicas), "--ring-bits", "4", "--listen", "127.0.0.1:0", "--port-file", port,
                   "--session-timeout", "10m")
        self.coordinator = until("the coordinator serves", lambda: port.exists() and port.read_text().strip())
        for i in range(3):
            self.start_shard(i)
        until("the cluster begins", lambda: int(self.status()["map_version"]) > 0)

    def start(self, name, program, *arguments):
        log = self.test.enterContext(open(self.folder / f"{name}.log", "a"))
        environment = dict(os.environ, PACELINE_RECORD=str(self.folder / f"{name}.history"))
        self.processes[name] = subprocess.Popen([f"{BIN}/{program}", *map(str, arguments)], stdout=log, stderr=log,
                                                env=environment)

    def start_shard(self, i):
        # Copies take a while, so that others find them under way, on a busy machine too.
        self.start(f"shard-{i}", "paceline-shard", "--coordinator", self.coordinator, "--name", f"shard-{i}",
                   "--threads", 1, "--data-dir", self.folder / f"shard-{i}", "--acks", "durable", "--move-rate",
                   "128KiB")

    def start_workers(self):
        for i in range(WORKERS):
            self.start(f"worker-{i}", "paceline-count", "--coordinator", self.coordinator, "--job", "count",
                       "--workers", WORKERS, "--index", i, "--rows", 100_000, "--clocks", 1_000_000, "--pause", 0.05,
                       "--timeout", 120)

    def paceline(self, *arguments, check=True):
        return subprocess.run([f"{BIN}/paceline", *arguments, "--coordinator", self.coordinator], capture_output=True,
                              text=True, timeout=WAIT, check=check)

    def status(self):
        return json.loads(self.paceline("status", "--json").stdout)

    def shards(self):
        listed = json.loads(self.paceline("shard", "list", "--json").stdout)
        return {shard["info"]["name"]: shard for shard in listed}

    def holds(self, name):
        shard = self.shards()[name]
        return int(shard.get("primaries", 0)) + int(shard.get("replicas", 0))

    def at_rest(self):
        """Nothing moves, and nothing is wrong."""
        status = self.status()
        return "moves" not in status and not status["problems"] and not status.get("segments_under_replicated")

    def counts(self):
        """The workers have counted on since."""
        def clock():
            return int(self.status()["jobs"][0].get("min_clock", 0))
        before = until("the job has begun", lambda: self.status()["jobs"] and clock())
        until("the job counts on", lambda: clock() > before + 2)

    def end(self):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()


class ElasticTest(unittest.TestCase):
    def grow_and_shrink(self, replicas):
        cluster = Cluster(self, replicas)
        cluster.start_workers()
        cluster.counts()
        # 3 → 4: the new one gets its share while the job counts. One shard is killed with copies under way.
        cluster.start_shard(3)
        until("segments are being copied", lambda: cluster.status().get("moves", {}).get("copies", 0))
        cluster.processes["shard-1"].kill()
        cluster.processes["shard-1"].wait()
        cluster.start_shard(1)
        share = 16 * (replicas + 1) // 4
        until("shard-3 has its share", lambda: cluster.holds("shard-3") == share and cluster.at_rest())
        cluster.counts()
        # A drain that is cancelled under way: nothing goes, and all is even again.
        cluster.paceline("drain", "shard-0")
        until("the drain has moved something", lambda: cluster.holds("shard-0") < share)
        cancelled = cluster.paceline("drain", "shard-0", "--cancel")
        self.assertIn("does not drain", cancelled.stdout)
        until("all is even", lambda: cluster.holds("shard-0") == share and cluster.at_rest())
        # 4 → 2. Draining three is refused if two copies are wanted.
        if replicas == 1:
            refused = cluster.paceline("drain", "shard-1", "shard-2", "shard-3", check=False)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("each segment needs 2", refused.stderr)
        done = cluster.paceline("drain", "shard-2", "shard-3", "--wait", "--timeout", str(WAIT))
        self.assertIn("shard-2 has nothing any more: it may go", done.stdout)
        self.assertIn("shard-3 has nothing any more: it may go", done.stdout)
        for name in ("shard-2", "shard-3"):
            cluster.processes[name].send_signal(signal.SIGTERM)
            self.assertEqual(cluster.processes[name].wait(WAIT), 0)
        until("they are forgotten", lambda: set(cluster.shards()) == {"shard-0", "shard-1"})
        until("the rest is well", cluster.at_rest)
        cluster.counts()
        # The name comes back, with the folder: a new shard, which gets its share; and goes by `shard remove`.
        cluster.start_shard(2)
        until("shard-2 is there again", lambda: "shard-2" in cluster.shards() and cluster.holds("shard-2") > 0)
        until("all is even", cluster.at_rest)
        removed = cluster.paceline("shard", "remove", "shard-2", "--timeout", str(WAIT))
        self.assertIn("is removed", removed.stdout)
        cluster.counts()
        for i in range(WORKERS):
            cluster.processes[f"worker-{i}"].send_signal(signal.SIGUSR1)
        for i in range(WORKERS):
            log = cluster.folder / f"worker-{i}.log"
            self.assertEqual(cluster.processes[f"worker-{i}"].wait(WAIT), 0, log.read_text())
        self.assertIn("ok, all 100000 rows hold", (cluster.folder / "worker-0.log").read_text())
        for process in list(cluster.processes.values()):
            process.terminate()
        for process in list(cluster.processes.values()):
            process.wait()
        verified = subprocess.run([f"{BIN}/paceline", "verify", *map(str, cluster.folder.glob("*.history*"))],
                                  capture_output=True, text=True, timeout=WAIT, check=False)
        self.assertEqual(verified.returncode, 0, verified.stdout[-4000:])

    def test_counts_are_exact_without_copies(self):
        self.grow_and_shrink(0)

    def test_counts_are_exact_with_one_copy(self):
        self.grow_and_shrink(1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
