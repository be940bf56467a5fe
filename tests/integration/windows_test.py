#!/usr/bin/env python3
"""Many fast clients at one shard, and one that does not read: nothing is refused, and nobody waits for another."""
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

sys.path.insert(0, os.environ["PACELINE_PYTHON"])
from paceline.v1 import shard_pb2, types_pb2  # noqa: E402
from paper_frames import FrameClient  # noqa: E402
from waiting import until  # noqa: E402

BIN = os.environ["PACELINE_BIN"]
WAIT = 120  # seconds for events that should come soon
DIM = 256
ADD = {"kind": types_pb2.TABLE_KIND_SPARSE, "dim": DIM, "rule": types_pb2.Rule(add=types_pb2.Rule.Add()),
       "initialiser": types_pb2.Initialiser(zeros=types_pb2.Initialiser.Zeros())}
BUDGET = 64 << 20  # --stream-budget
CLIENTS, FRAMES = 16, 48  # each frame has about a megabyte


class Fast(threading.Thread):
    """A client that always has something to push, and reads its answers."""

    def __init__(self, client, table, keys):
        super().__init__(daemon=True)
        self.client, self.segment, self.failed = client, client.segment(table, keys[0]), None
        self.stream = client.stream("push", client.primary(self.segment))
        self.frame = shard_pb2.PushRequest(
            table=table.id, catalogue_version=client.catalogue, line=types_pb2.LINE_ARRIVAL, keys=struct.pack(f"<{len(keys)}Q", *keys),
            values=struct.pack("<f", 1) * DIM * len(keys))
        self.rows, self.granted, self.pushed, self.committed = len(keys), 1, 0, 0

    def take(self):
        reply = self.stream.next()
        assert not reply.refusals, reply.refusals
        self.granted = max(self.granted, reply.granted)
        for _, _, number in struct.iter_unpack("<IIQ", reply.committed):
            self.committed = number

    def run(self):
        try:
            for number in range(1, FRAMES + 1):
                while self.pushed >= self.granted:
                    self.take()
                self.frame.parts = self.client.part(self.segment, self.rows, number)
                sent = shard_pb2.PushRequest.FromString(self.frame.SerializeToString())
                self.pushed += sent.ByteSize()
                self.stream.send(sent)
            while self.committed < FRAMES:
                self.take()
        except BaseException as error:  # for the main thread
            self.failed = error


class WindowsTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.coordinator = self.start("coordinator", "--data-dir", self.folder / "store", "--shards", "1", "--ring-bits", "2")
        self.start("shard", "--coordinator", self.coordinator, "--name", "shard-0", "--data-dir", self.folder / "shard",
                   "--threads", "2")
        self.page = until("its page is named", lambda: re.search(r"metrics=(\S+)", (self.folder / "shard.log").read_text()))[1]
        until("the cluster is well", lambda: "No problems" in subprocess.run(
            [f"{BIN}/paceline", "status", "--coordinator", self.coordinator], capture_output=True, text=True, check=False).stdout)
        self.first = self.client()
        self.table = self.first.open_table("rows", **ADD)
        self.first.pull(self.table, [0])  # the shard knows of the table
        self.refused = self.metric("paceline_shard_refusals_total")
        self.keys = {}  # by segment
        for key in range(20000):
            self.keys.setdefault(self.first.segment(self.table, key), []).append(key)

    def start(self, what, *arguments):
        port = self.folder / f"{what}.port"
        log = self.enterContext(open(self.folder / f"{what}.log", "w"))
        process = subprocess.Popen([f"{BIN}/paceline-{what}", "--listen", "127.0.0.1:0", "--port-file", port, *arguments],
                                   stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        setattr(self, what, process)
        return until(f"the {what} serves", lambda: port.exists() and port.read_text().strip())

    def client(self):
        client = FrameClient(self.coordinator, "windows")
        self.addCleanup(client.leave)
        return client

    def metric(self, name):
        page = urllib.request.urlopen(f"http://{self.page}/metrics", timeout=WAIT).read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.M))

    def test_nothing_of_16_fast_clients_is_refused(self):
        self.assertEqual(self.first.join(), 0)
        fast = []
        for i in range(CLIENTS):
            client = self.client()
            client.open_table("rows", **ADD)
            fast.append(Fast(client, self.table, self.keys[i % 4][:1000]))
        held = pending = clock = 0
        for thread in fast:
            thread.start()
        while any(thread.is_alive() for thread in fast):
            held = max(held, self.metric("paceline_shard_stream_bytes"))
            pending = max(pending, self.metric("paceline_shard_disk_pending_bytes"))
            self.first.push(self.table, clock, {10**6: (1.0,) * DIM})  # the slow one: its parts and ticks go on
            self.first.tick(clock + 1)
            clock += 1
        self.assertEqual([thread.failed for thread in fast if thread.failed], [])
        self.assertEqual(self.metric("paceline_shard_refusals_total"), self.refused)
        self.assertLessEqual(held, BUDGET + (CLIENTS + 1) * (1 << 20))
        self.assertLess(pending, 2 * BUDGET)
        waits = self.metric("paceline_shard_stream_waits_total")
        self.assertGreater(waits, 0, f"the disk was never slow: {pending} bytes waited for it at most")
        self.assertGreater(clock, 0)
        values = self.first.read(self.table, [self.keys[0][0], self.keys[3][999]], clock, 0)
        self.assertEqual({row[0] for row in values.values()}, {CLIENTS / 4 * FRAMES})

    def test_a_client_that_does_not_read_replies_holds_up_nobody(self):
        segment, keys = 0, self.keys[0][:4000]
        stream = self.first.stream("pull", self.first.primary(segment))
        asked = 60
        served = self.metric("paceline_shard_rows_pulled_total")
        for request in range(1, asked + 1):  # 240 MB of replies
            # What the shard reads while an executor is busy it answers too. So until replies wait, it gets the next
            # request when it has served the last one.
            until("the request before is served, or replies wait", lambda: (
                self.metric("paceline_shard_rows_pulled_total") - served >= (request - 1) * len(keys)
                or self.metric("paceline_shard_reply_bytes") > 4 << 20))
            stream.send(shard_pb2.PullRequest(
                request=request, table=self.table.id, catalogue_version=self.first.catalogue,
                parts=self.first.part(segment, len(keys), number=0), keys=struct.pack(f"<{len(keys)}Q", *keys)))
        reply = 4 * DIM * len(keys)
        until("replies wait", lambda: self.metric("paceline_shard_reply_bytes") > reply)
        other = self.client()
        table = other.open_table("rows", **ADD)
        for clock in range(20):
            other.push(table, 0, {key: (1.0,) * DIM for key in self.keys[0][:10]})
            self.assertEqual(other.pull(table, self.keys[0][:10])[0][self.keys[0][0]][0], clock + 1)
            self.assertLess(self.metric("paceline_shard_reply_bytes"), (4 << 20) + 3 * reply)
        self.assertEqual(self.metric("paceline_shard_refusals_total"), self.refused)
        answered = sorted(stream.next().request for _ in range(asked))  # it reads on
        self.assertEqual(answered, list(range(1, asked + 1)))


if __name__ == "__main__":
    unittest.main()
