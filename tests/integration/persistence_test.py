#!/usr/bin/env python3
"""Shards with disks: killed, one and all at once, and everything is there again."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

sys.path.insert(0, os.environ["PACELINE_PYTHON"])
from paceline.v1 import types_pb2  # noqa: E402
from paper_frames import FrameClient  # noqa: E402
from paper_wire import Failed  # noqa: E402
from waiting import until  # noqa: E402

BIN = os.environ["PACELINE_BIN"]
WAIT = 120  # seconds for events that should come soon
ADD = {"rule": types_pb2.Rule(add=types_pb2.Rule.Add()), "initialiser": types_pb2.Initialiser(
    zeros=types_pb2.Initialiser.Zeros())}


class Cluster:
    """A coordinator and shards, each a process of ours with a folder of its own."""

    def __init__(self, test, shards, replicas=0, ring_bits=3, keep=True, acks="replicated"):
        self.test, self.shards, self.replicas, self.ring_bits = test, shards, replicas, ring_bits
        self.keep, self.acks = keep, acks
        self.starts = {}  # the newest incarnation of each shard that is known
        self.ended = {}  # … of those that were killed since
        self.folder = Path(test.enterContext(tempfile.TemporaryDirectory()))
        self.processes = {}
        self.coordinator = ""
        test.addCleanup(self.end)

    def start(self, name, *arguments):
        log = self.test.enterContext(open(self.folder / f"{name}.log", "a"))
        self.processes[name] = subprocess.Popen(arguments, stdout=log, stderr=log)

    def begin_coordinator(self):
        """Where it will say that it serves."""
        port = self.folder / "port"
        port.unlink(missing_ok=True)
        self.start("coordinator", f"{BIN}/paceline-coordinator", "--data-dir", self.folder / "coordinator", "--shards",
                   str(self.shards), "--replicas", str(self.replicas), "--ring-bits", str(self.ring_bits), "--listen",
                   "127.0.0.1:0", "--port-file", port, "--session-timeout", "10m")
        return port

    def start_coordinator(self):
        port = self.begin_coordinator()
        self.coordinator = until("the coordinator serves", lambda: port.exists() and port.read_text().strip())

    def start_shard(self, i):
        keep = ["--data-dir", self.folder / f"shard-{i}", "--acks", self.acks] if self.keep else []
        self.start(f"shard-{i}", f"{BIN}/paceline-shard", "--coordinator", self.coordinator, "--name", f"shard-{i}",
                   "--threads", "2", *keep)

    def start_all(self):
        self.start_coordinator()
        for i in range(self.shards):
            self.start_shard(i)
        self.await_well()

    def kill(self, *names):
        for name in names:
            self.ended[name] = self.starts.get(name, 0)
            self.processes[name].kill()
        for name in names:
            self.processes[name].wait()

    def end(self):
        self.kill(*self.processes)

    def status(self):
        done = subprocess.run([f"{BIN}/paceline", "status", "--json", "--coordinator", self.coordinator],
                              capture_output=True, text=True, timeout=WAIT, check=True)
        return json.loads(done.stdout)

    def is_well(self):
        """The newest start of every shard is one of the cluster, and nothing is wrong."""
        status = self.status()
        self.starts = {shard["info"]["name"]: int(shard["info"]["incarnation"]) for shard in status["shards"]}
        again = all(self.starts.get(name, 0) > old for name, old in self.ended.items() if name != "coordinator")
        alive = sum(shard.get("alive", False) for shard in status["shards"])
        under = int(status.get("segments_under_replicated", 0))
        return again and alive == self.shards and not status["problems"] and under == 0

    def await_well(self):
        return until("the cluster is well", self.is_well)

    def metric(self, name):
        """Summed over all shards."""
        total = 0
        for shard in self.status()["shards"]:
            page = urllib.request.urlopen(f"http://{shard['metrics_address']}/metrics", timeout=10).read().decode()
            total += sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.M))
        return total

    def await_written(self):
        until("everything is on the disks", lambda: self.metric("paceline_shard_disk_pending_bytes") == 0
              and self.metric("paceline_shard_disk_incomplete_segments") == 0)


class PersistenceTest(unittest.TestCase):
    def client(self, cluster):
        client = FrameClient(cluster.coordinator, "persistence")
        self.addCleanup(client.leave)
        return client

    def push_some(self, client, table, expected, clock, keys=300):
        rows = {key * 7919: tuple(float(clock + key % 5 + d) for d in range(table.schema.dim)) for key in range(keys)}
        client.push(table, clock, rows)
        for key, values in rows.items():
            old = expected.get(key, (0.0,) * len(values))
            expected[key] = tuple(a + b for a, b in zip(old, values))

    def check(self, client, table, expected, clock):
        """As the worker itself reads: its own parts, and the min clock, are there."""
        self.assertEqual(client.read(table, list(expected), clock, 0), expected)

    def start_work(self, cluster, dim=2):
        cluster.start_all()
        client = self.client(cluster)
        table = client.open_table("rows", kind=types_pb2.TABLE_KIND_SPARSE, dim=dim, **ADD)
        client.pull(table, [0])  # every shard knows of the table
        self.assertEqual(client.join(), 0)
        return client, table

    def work(self, client, table, expected, clocks, keys=300):
        for clock in clocks:
            self.push_some(client, table, expected, clock, keys)
            client.tick(clock + 1)

    def repeat_the_last_part(self, client, table, clock):
        """It was applied before the kill, and is not applied again: its number is part of what was kept."""
        segment = client.by_segment(table, [0]).popitem()[0]
        stream = client.stream("push", client.primary(segment))
        client.number[segment] -= 1
        frame = client.push_frame(table, clock, {0: (1000.0,) * table.schema.dim}, [segment])
        stream.send(frame)
        while not any(s == segment and n >= client.number[segment]
                      for s, _, n in struct.iter_unpack("<IIQ", stream.next().committed)):
            pass
        client.number[segment] += 1

    def kill_and_check(self, cluster, client, table, expected, clocks):
        cluster.await_written()
        cluster.kill("shard-0")
        cluster.start_shard(0)
        cluster.await_well()
        client.follow(cluster.coordinator)
        self.check(client, table, expected, clocks)

    def test_a_killed_shard_restores_everything(self):
        cluster = Cluster(self, shards=2)
        client, table = self.start_work(cluster)
        expected = {}
        self.work(client, table, expected, range(5))
        self.kill_and_check(cluster, client, table, expected, 5)
        self.repeat_the_last_part(client, table, 5)
        self.work(client, table, expected, range(5, 8))
        self.check(client, table, expected, 8)
        self.kill_and_check(cluster, client, table, expected, 8)

    def test_bases_cut_the_log_and_restore_everything(self):
        cluster = Cluster(self, shards=1, ring_bits=1)
        client, table = self.start_work(cluster, dim=256)
        expected = {}
        self.work(client, table, expected, range(12), keys=2000)
        until("bases were written", lambda: cluster.metric("paceline_shard_disk_bases_total") >= 2)
        self.work(client, table, expected, range(12, 14), keys=2000)
        cluster.await_written()
        self.assertLess(cluster.metric("paceline_shard_disk_log_bytes"), 14 * 2000 * 1032)
        cluster.kill("shard-0")
        cluster.start_shard(0)
        cluster.await_well()
        client.follow(cluster.coordinator)
        self.check(client, table, expected, 14)

    def all_at_once(self, replicas):
        cluster = Cluster(self, shards=3, replicas=replicas)
        client, table = self.start_work(cluster)
        expected = {}
        self.work(client, table, expected, range(4))
        cluster.await_well()
        cluster.await_written()
        cluster.kill(*cluster.processes)
        cluster.start_all()
        client.follow(cluster.coordinator)
        self.check(client, table, expected, 4)
        self.work(client, table, expected, range(4, 6))
        self.check(client, table, expected, 6)

    def test_all_at_once(self):
        self.all_at_once(replicas=0)

    def test_all_at_once_with_replicas(self):
        self.all_at_once(replicas=1)

    def test_durable_acknowledgements_survive(self):
        cluster = Cluster(self, shards=3, replicas=1, acks="durable")
        client, table = self.start_work(cluster)
        expected = {}
        self.work(client, table, expected, range(4))
        self.push_some(client, table, expected, 4)
        cluster.kill(*cluster.processes)  # at once
        cluster.start_all()
        client.follow(cluster.coordinator)
        self.assertEqual(client.pull(table, list(expected))[0], expected)

    def test_a_folder_of_another_shard_is_refused(self):
        cluster = Cluster(self, shards=2)
        client, table = self.start_work(cluster)
        self.work(client, table, {}, range(1))
        cluster.await_written()
        cluster.kill("shard-0", "shard-1")
        (cluster.folder / "shard-0").rename(cluster.folder / "other")
        (cluster.folder / "shard-1").rename(cluster.folder / "shard-0")
        cluster.start_shard(0)
        self.assertEqual(cluster.processes["shard-0"].wait(timeout=WAIT), 1)
        self.assertIn("--data-dir: it has the data of shard", (cluster.folder / "shard-0.log").read_text())

    def recover(self, cluster, *flags):
        return subprocess.run([f"{BIN}/paceline", "recover", "--coordinator", cluster.coordinator, *flags],
                              capture_output=True, text=True, timeout=WAIT)

    def await_only_shard_0(self, cluster):
        """Shard 0 was started again, and what it cannot have by itself is known."""
        until("the other one is missed",
              lambda: "shard-1" in self.recover(cluster).stdout
              and sum(shard.get("alive", False) for shard in cluster.status()["shards"]) == 1)

    def test_a_loss_is_accepted_with_replicas(self):
        cluster = Cluster(self, shards=2, replicas=1)
        client, table = self.start_work(cluster)
        expected = {}
        self.work(client, table, expected, range(4))
        cluster.await_well()
        cluster.await_written()
        self.assertEqual(self.recover(cluster).returncode, 0)
        cluster.kill("shard-0", "shard-1")
        cluster.start_shard(0)
        self.await_only_shard_0(cluster)
        refused = self.recover(cluster)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("segments 0-7: shard-1 is awaited", refused.stdout)
        self.assertIn("nothing was done", refused.stderr)
        self.assertIn("was not named", self.recover(cluster, "--accept-loss", "shard-7").stderr)
        accepted = self.recover(cluster, "--accept-loss", "shard-1")
        self.assertEqual(accepted.returncode, 0, accepted)
        self.assertIn("8 segments go on", accepted.stdout)
        client.follow(cluster.coordinator)
        self.check(client, table, expected, 4)
        self.work(client, table, expected, range(4, 6))
        self.check(client, table, expected, 6)

    def test_a_total_loss_is_accepted(self):
        cluster = Cluster(self, shards=2)
        client, table = self.start_work(cluster)
        self.work(client, table, {}, range(2))
        cluster.await_written()
        cluster.kill("shard-0", "shard-1")
        cluster.start_shard(0)
        self.await_only_shard_0(cluster)
        accepted = self.recover(cluster, "--accept-loss", "shard-1")
        self.assertEqual(accepted.returncode, 0, accepted)
        client.follow(cluster.coordinator)

        with self.assertRaises(Failed) as lost:
            self.push_some(client, table, {}, 2)
        self.assertEqual(lost.exception.code, "DATA_LOSS", lost.exception)
        again = self.client(cluster)
        table = again.open_table("rows", kind=types_pb2.TABLE_KIND_SPARSE, dim=2, **ADD)
        clock = again.join()
        kept = again.pull(table, [key * 7919 for key in range(300)])[0]
        self.assertTrue(any(row == (0.0, 0.0) for row in kept.values()))
        self.assertTrue(any(row != (0.0, 0.0) for row in kept.values()), "segments of shard 0 have what they had")
        self.work(again, table, kept, range(clock, clock + 2))
        self.check(again, table, kept, clock + 2)

    def test_without_disks_a_loss_with_all_replicas_is_told(self):
        cluster = Cluster(self, shards=2, replicas=1, keep=False)
        client, table = self.start_work(cluster)
        self.work(client, table, {}, range(1))
        cluster.kill("shard-0", "shard-1")
        for i in range(cluster.shards):
            cluster.start_shard(i)
        until("the loss is told", lambda: "is gone" in " ".join(cluster.status()["problems"]))
        client.follow(cluster.coordinator)
        with self.assertRaises(Failed) as told:
            client.read(table, [0], 1, 0)
        self.assertEqual(told.exception.code, "DATA_LOSS", told.exception)

    def test_without_a_disk_the_loss_is_reported(self):
        cluster = Cluster(self, shards=1, keep=False)
        client, table = self.start_work(cluster)
        self.work(client, table, {}, range(1))
        cluster.kill("shard-0")
        cluster.start_shard(0)
        # Not before the earlier start, which nothing proves to have ended, has been silent for a while.
        until("the loss is told", lambda: "is gone" in " ".join(cluster.status()["problems"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
