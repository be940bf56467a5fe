#!/usr/bin/env python3
"""A client in another language, from docs/wire.md alone, while segments move: it tells its ticks and does not loop."""
import json
import os
import subprocess
import sys
import unittest

import grpc

sys.path.insert(0, os.environ["PACELINE_PYTHON"])
from paceline.v1 import coordinator_pb2, shard_pb2, types_pb2  # noqa: E402
from paper_frames import WAIT, FrameClient  # noqa: E402

BIN = os.environ["PACELINE_BIN"]
ADD = dict(dim=1, rule=types_pb2.Rule(add=types_pb2.Rule.Add()))
Refusal = shard_pb2.Refusal


class WireMovesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = subprocess.Popen([f"{BIN}/paceline", "up", "--shards", "3", "--replicas", "1", "--port", "0"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.coordinator = cls.up.stdout.readline().strip().removeprefix("ready coordinator=")

    @classmethod
    def tearDownClass(cls):
        cls.up.terminate()
        assert cls.up.wait(timeout=WAIT) == 0
        cls.up.stdout.close()

    def start(self):
        client = FrameClient(self.coordinator, job=self.id())
        self.addCleanup(client.close)
        table = client.open_table("t", kind=types_pb2.TABLE_KIND_SPARSE, **ADD)
        client.pull(table, range(200))  # every shard has the list of tables
        return client, table

    def hand_over(self, shard):
        name = f"shard-{shard}" if isinstance(shard, int) else shard
        done = subprocess.run([f"{BIN}/paceline", "handover", name, "--json", "--coordinator", self.coordinator],
                              capture_output=True, text=True, timeout=WAIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["handed_over"]

    def name_of(self, client, shard):
        return next(s.name for s in client.map.shards if s.shard == shard)

    def test_ticks_to_shards_that_handed_over_are_few_and_do_count(self):
        client, table = self.start()
        start, clocks = client.join(), 6
        keys = list(range(300))
        for clock in range(start, start + clocks):
            client.push(table, clock, {key: (1,) for key in keys})
            # All of what one shard is primary of goes elsewhere; the client's map and streams are of before.
            self.assertGreater(self.hand_over(self.name_of(client, client.primary(clock % 64))), 0)
            client.tick(clock + 1)
            values = client.pull(table, keys, min_clock=clock + 1)[0]
            self.assertEqual(set(values.values()), {(clock + 1 - start,)})
        # At least a round of one to each shard for each clock; one that loops tells thousands in a second.
        rounds = client.ticks / (3 * clocks)
        self.assertLess(rounds, 10)
        client.finish()

    def test_a_frame_with_an_older_map_is_refused_with_the_newer_version(self):
        client, table = self.start()
        shard = client.primary(3)
        key = next(key for key in range(10**6) if client.by_segment(table, [key]).keys() == {3})
        stream, old = client.stream("push", shard), client.map.version
        frame = client.push_frame(table, 0, {key: (1,)}, [3])
        self.assertGreater(self.hand_over(self.name_of(client, shard)), 0)
        stream.send(frame)
        refusal = self.first_refusal(stream)
        self.assertEqual(refusal.reason, Refusal.MOVED)
        self.assertGreater(refusal.map_version, old)
        # Of an epoch that is newer than the shard's it cannot know, whatever it is.
        frame = client.push_frame(table, 0, {key: (1,)}, [3])
        frame.parts = client.part(3, 1, epoch=10**6)
        stream.send(frame)
        refusal = self.first_refusal(stream)
        self.assertEqual(refusal.reason, Refusal.UNAVAILABLE)
        self.assertIn("1000000", refusal.message)

    def first_refusal(self, stream):
        while not (reply := stream.next()).refusals:
            pass
        return reply.refusals[0]

    def test_the_primary_takes_a_part_of_any_epoch(self):
        client, table = self.start()
        client.follow()
        key = next(key for key in range(10**6) if client.by_segment(table, [key]).keys() == {5})
        frame = client.push_frame(table, 0, {key: (1,)}, [5])
        frame.parts = client.part(5, 1, epoch=0)
        stream = client.stream("push", client.primary(5))
        stream.send(frame)
        while not (reply := stream.next()).committed:
            self.assertFalse(reply.refusals)
        client.number[5] += 1
        self.assertEqual(client.pull(table, [key])[0][key], (1,))

    def test_fields_beside_a_hello_are_refused(self):
        client, table = self.start()
        client.follow()
        shard = client.primary(3)
        address = next(s.address for s in client.map.shards if s.shard == shard)
        raw = grpc.insecure_channel(address).stream_stream(
            "/paceline.v1.Shard/Push", request_serializer=shard_pb2.PushRequest.SerializeToString,
            response_deserializer=shard_pb2.PushReply.FromString)
        key = next(key for key in range(10**6) if client.by_segment(table, [key]).keys() == {3})
        both = client.push_frame(table, 0, {key: (1,)}, [3])
        both.hello.CopyFrom(client.hello())
        frames = [both, shard_pb2.PushRequest(hello=client.hello()), client.push_frame(table, 0, {key: (1,)}, [3])]
        replies = list(raw(iter(frames), timeout=WAIT))
        self.assertEqual([r.reason for reply in replies for r in reply.refusals], [Refusal.MALFORMED])
        self.assertIn("hello: its frame has other fields too", replies[0].refusals[0].message)
        client.number[3] += 1
        self.assertEqual(client.pull(table, [key])[0][key], (1,), "the second one was taken")

    def test_a_closed_session_is_refused_at_hello(self):
        client, _ = self.start()
        client.close()
        for kind in ("push", "push_pull"):
            stream = client.stream(kind, client.primary(3), client=kind)
            self.assertEqual(self.told_at_hello(stream).reason, Refusal.FENCED)
        refusal = self.told_at_hello(client.stream("pull", client.primary(3), client="pull"))
        self.assertEqual(refusal.reason, Refusal.FENCED)
        self.assertIn("session", refusal.message)

    def told_at_hello(self, stream):
        return stream.refusals[0] if stream.refusals else self.first_refusal(stream)

    def test_a_request_of_a_closed_session_fails_by_code(self):
        client, _ = self.start()
        client.close()
        who = dict(session=client.session, token=client.token)
        for call, request in ((client.api.KeepAlive, coordinator_pb2.KeepAliveRequest(**who)),
                              (client.api.JoinJob, coordinator_pb2.JoinJobRequest(**who))):
            with self.assertRaises(grpc.RpcError) as error:
                call(request, timeout=WAIT)
            self.assertEqual(error.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIn(("paceline-standing", "leads"), [tuple(pair) for pair in error.exception.trailing_metadata()])


if __name__ == "__main__":
    unittest.main(verbosity=2)
