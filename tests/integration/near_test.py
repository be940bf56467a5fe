#!/usr/bin/env python3
"""Streams over shared memory, of clients and between shards: exact counts, whoever is killed or stopped, and TCP where there is no socket."""
import json
import os
import signal
import subprocess
import sys
import unittest

import carrier_case
from carrier_case import BIN, WAIT, WORKER, metric
from waiting import until


def near_share(coordinator):
    """Of the streams from primaries to their copies those over shared memory."""
    streams = metric(coordinator, 'paceline_shard_streams{kind="replicate"}')
    return streams and metric(coordinator, 'paceline_shard_shared_memory_streams{from="shards"}') / streams


def inside():
    """Runs as the command of `paceline up`: counts once the copies are made, over shared memory."""
    coordinator = os.environ["PACELINE_COORDINATOR"]
    until("all streams between shards are near", lambda: near_share(coordinator) == 1)
    subprocess.run([WORKER, "count", "5"], timeout=WAIT, check=True)


class NearTest(carrier_case.KillsAndPauses, carrier_case.CarrierCase):
    near = True

    def near_share(self):
        return near_share(self.coordinator)

    def copies_are_made(self):
        return self.near_share() == 1

    def test_counts_are_exact_and_go_over_shared_memory(self):
        self.start_cluster(shards=2, replicas=0)
        self.start_worker("worker", 2)
        self.assertGreater(self.metric("paceline_shard_shared_memory_streams"), 0)
        self.assertGreater(self.metric("paceline_shard_shared_memory_bytes"), 0)
        result = self.result("worker")
        self.check_counts(result)
        self.assertEqual(result["direct"] + result["grpc"], 0)
        self.assertGreaterEqual(result["shared_memory"], 4)
        until("the streams are gone", lambda: self.metric("paceline_shard_shared_memory_streams") == 0)

    def test_without_a_socket_it_is_tcp_and_said_once(self):
        self.start_cluster(shards=1, replicas=0)
        self.start_worker("worker", 1, sockets=self.folder / "elsewhere")
        result = self.result("worker")
        self.check_counts(result)
        self.assertEqual(result["shared_memory"], 0)
        self.assertGreater(result["direct"], 0)
        self.assertEqual((self.folder / "worker.log").read_text().count("go over TCP"), 1)

    def test_copies_get_their_records_over_shared_memory(self):
        self.start_cluster(shards=3, replicas=1)
        until("copies are made", lambda: self.near_share() == 1)
        self.start_worker("worker", 6)
        self.kill("shard-0")
        until("it is missed", lambda: self.status()["problems"])
        self.start_shard(0)
        until("it is a member again", lambda: not self.status()["problems"])
        self.check_counts(self.result("worker"))
        until("all streams are near again", lambda: self.near_share() == 1)
        self.assertGreater(self.metric('paceline_shard_replicate_records_total{direction="received"}'), 0)

    def test_in_a_local_cluster_nothing_is_lost_with_a_shard(self):
        up = subprocess.run([f"{BIN}/paceline", "up", "--shards", "3", "--replicas", "1", "--port", "0", "--drill", "--",
                             sys.executable, os.path.abspath(__file__), "--inside"],
                            capture_output=True, text=True, timeout=2 * WAIT)
        self.assertEqual(up.returncode, 0, up.stdout + up.stderr)
        self.assertIn("replicas have taken over all", up.stderr)
        self.check_counts(json.loads(up.stdout.splitlines()[-1]))

    def test_copies_at_a_shard_without_a_socket_get_them_over_tcp(self):
        self.start_cluster(shards=3, replicas=1, far=[2])
        until("the other two are near each other", lambda: 0 < self.near_share() < 1)
        self.start_worker("worker", 5)
        self.kill("shard-0")
        self.check_counts(self.result("worker"))
        said = [(self.folder / f"shard-{i}.log").read_text().count("go over TCP") for i in range(3)]
        self.assertEqual(max(said[:2]), 1, f"each that has a copy at shard-2 says so once: {said}")
        self.assertEqual(said[2], 0, "it looks for no sockets")

    def test_a_copy_that_stands_still_longer_than_any_stream_waits(self):
        self.start_cluster(shards=2, replicas=1)
        until("copies are made", lambda: self.near_share() == 1)
        self.start_worker("worker", 20)
        self.processes["shard-1"].send_signal(signal.SIGSTOP)
        until("the other one is primary of all", lambda: self.primaries("shard-1") == 0)
        # Records for it wait in a full ring until its stream is given up, after 10 s.
        self.check_counts(self.result("worker"))
        self.processes["shard-1"].send_signal(signal.SIGCONT)
        until("the cluster is well", lambda: not self.status()["problems"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--inside"]:
        inside()
    else:
        unittest.main(verbosity=2)
