#!/usr/bin/env python3
"""Pushes that bring their rows back, by a client in another language, from docs/wire.md alone, over real shards."""
import os
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.environ["PACELINE_PYTHON"])
from paceline.v1 import types_pb2  # noqa: E402
from paper_frames import WAIT, FrameClient  # noqa: E402

BIN = os.environ["PACELINE_BIN"]


class PushPullTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = subprocess.Popen([f"{BIN}/paceline", "up", "--shards", "3", "--port", "0"], stdout=subprocess.PIPE,
                                  text=True)
        cls.coordinator = cls.up.stdout.readline().strip().removeprefix("ready coordinator=")

    @classmethod
    def tearDownClass(cls):
        cls.up.terminate()
        assert cls.up.wait(timeout=WAIT) == 0
        cls.up.stdout.close()

    def setUp(self):
        self.client = FrameClient(self.coordinator, job=self.id())
        self.addCleanup(self.client.close)
        self.table = self.client.open_table("sparse", kind=types_pb2.TABLE_KIND_SPARSE, dim=2,
                                            rule=types_pb2.Rule(add=types_pb2.Rule.Add()))
        self.client.pull(self.table, range(200))  # asks every shard until it has the list of tables with this one

    def test_pushed_rows_come_back_in_one_round_trip(self):
        rows = {key: (key, 1) for key in range(300)}
        for total in 1, 2:  # every row is pushed twice
            values, certificates = self.client.push_pull(self.table, 0, rows)
            self.assertEqual(values, {key: (total * key, total) for key in rows})
            self.assertTrue(all(c[1] == 1 and c[6] == total for c in certificates))
        self.assertEqual(self.client.pull(self.table, list(rows))[0], values)

    def test_rows_of_the_next_clock_come_after_the_tick_on_the_same_stream(self):
        start = self.client.join()
        segment = self.client.segment(self.table, 5)
        shard = self.client.primary(segment)
        stream = self.client.stream("push_pull", shard)
        stream.send(self.client.push_pull_frame(self.table, start, {5: (1, 2)}, [segment], request=9,
                                                min_clock=start + 1, reader_clock_plus_one=start + 2))
        reply = stream.next()
        while not reply.committed:
            reply = stream.next()
        self.assertEqual(stream.rows, [], "committed, and no rows yet")
        self.client.number[segment] += 1
        self.assertEqual(self.client.tick_by_hand(start + 1, "push_pull"), [])
        reply = self.client.rows_of(stream)
        self.assertEqual(reply.request, 9)
        self.assertEqual(struct.unpack("<2f", reply.values), (1, 2))
        self.assertEqual(struct.unpack("<IIQQQQQ", reply.certificates)[5], start + 1)

    def test_a_repeated_part_is_read_again_and_pushed_once(self):
        segment = self.client.segment(self.table, 5)
        stream = self.client.stream("push_pull", self.client.primary(segment))
        for request in 1, 2:
            stream.send(self.client.push_pull_frame(self.table, 0, {5: (1, 2)}, [segment], request=request))
            reply = self.client.rows_of(stream)
            self.assertEqual(reply.request, request)
            self.assertEqual(struct.unpack("<2f", reply.values), (1, 2))
        self.client.number[segment] += 1
        self.assertEqual(self.client.pull(self.table, [5])[0][5], (1, 2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
