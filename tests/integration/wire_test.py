#!/usr/bin/env python3
"""A client in another language, from docs/wire.md alone, over real shards: the right numbers and the named errors."""
import os
import struct
import subprocess
import sys
import unittest

import grpc

sys.path.insert(0, os.environ["PACELINE_PYTHON"])
from paceline.v1 import coordinator_pb2, coordinator_pb2_grpc, shard_pb2, types_pb2  # noqa: E402
from stock_client import WAIT, Placement, Refused, StockClient, pause  # noqa: E402

BIN = os.environ["PACELINE_BIN"]
ADD = dict(dim=2, rule=types_pb2.Rule(add=types_pb2.Rule.Add()))
Refusal = shard_pb2.Refusal


class WireTest(unittest.TestCase):
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
        self.client = StockClient(self.coordinator, job=self.id())
        self.addCleanup(self.client.close)
        self.table = self.client.open_table("sparse", kind=types_pb2.TABLE_KIND_SPARSE, **ADD)
        self.client.pull(self.table, range(200))  # asks every shard until it has the list of tables with this one

    def key_of_segment(self, segment):
        placement = Placement(self.table, self.client.map.ring_bits)
        return next(key for key in range(10**6) if placement.segment(key) == segment)

    # -- the right numbers --

    def test_sparse_rows_come_back_in_order_and_summed(self):
        rows = {key: (key, 1) for key in range(500)}
        self.client.push(self.table, 0, rows)
        self.client.push(self.table, 0, {key: (1, 1) for key in range(0, 500, 2)})
        keys = list(range(499, -1, -1)) + [3, 3, 10**15]
        values, certificates = self.client.pull(self.table, keys)
        for key in range(500):
            self.assertEqual(values[key], (key + 1, 2) if key % 2 == 0 else (key, 1))
        self.assertEqual(values[10**15], (0, 0), "a row never pushed has its initial value")
        self.assertTrue(all(c[1] == 1 for c in certificates))
        self.assertEqual(len({self.client.primary(c[0]) for c in certificates}), 3, "three shards were asked")

    def test_ranged_rows_by_keys_and_by_ranges(self):
        table = self.client.open_table("ranged", kind=types_pb2.TABLE_KIND_RANGED, rows=10_000, **ADD)
        self.client.push(table, 0, {key: (key, -key) for key in range(0, 10_000, 7)})
        values, _ = self.client.pull(table, [0, 7, 8, 9_996])
        self.assertEqual([values[k] for k in (0, 7, 8, 9_996)], [(0, 0), (7, -7), (0, 0), (9_996, -9_996)])
        placement = Placement(table, self.client.map.ring_bits)
        segment = placement.segment(0)
        stream = self.client.stream("pull", self.client.primary(segment))
        stream.send(shard_pb2.PullRequest(request=1, table=table.id, catalogue_version=self.client.catalogue_version,
                                          key_form=shard_pb2.KEY_FORM_RANGES,
                                          parts=self.client.part(segment, 1, number=0), keys=struct.pack("<QQ", 6, 3)))
        self.assertEqual(struct.unpack("<6f", stream.next().values), (0, 0, 7, -7, 0, 0))

    def test_duplicate_keys_in_a_part_are_summed(self):
        key = 42
        segment = Placement(self.table, self.client.map.ring_bits).segment(key)
        stream = self.client.stream("push", self.client.primary(segment))
        stream.send(shard_pb2.PushRequest(
            table=self.table.id, line=types_pb2.LINE_ARRIVAL, catalogue_version=self.client.catalogue_version,
            parts=self.client.part(segment, 3), keys=struct.pack("<3Q", key, key, key),
            values=struct.pack("<6f", 1, 2, 3, 4, 5, 6)))
        self.client.number[segment] += 1
        self.assertEqual(self.client.pull(self.table, [key])[0][key], (9, 12))

    def test_ticks_move_the_min_clock_on_every_shard(self):
        start = self.client.join()
        self.client.push(self.table, start, {key: (1, 1) for key in range(200)})
        self.assertEqual(self.client.tick(start + 1), [])
        _, certificates = self.client.pull(self.table, list(range(200)), min_clock=start + 1)
        self.assertTrue(all(c[5] == start + 1 for c in certificates))
        with self.assertRaises(Refused) as refused:
            self.client.pull(self.table, [1], min_clock=start + 2, timeout_ms=100)
        self.assertEqual(refused.exception.refusal.reason, Refusal.DEADLINE)
        self.assertIn(f"(session {self.client.session}) at clock {start + 1}", str(refused.exception))

    def test_a_tick_on_a_new_stream_speaks_only_for_what_it_names(self):
        start = self.client.join()
        self.assertEqual(self.client.tick(start + 1), [])
        self.client.streams.clear()
        shard = self.client.shards()[0]
        stream = self.client.stream("push", shard)
        stream.send(shard_pb2.PushRequest(tick=shard_pb2.Tick(clock=start + 2)))
        unspoken = {s for (s,) in struct.iter_unpack("<I", stream.next().ticks[0].unspoken)}
        self.assertEqual(unspoken, {s for s in range(64) if self.client.primary(s) == shard})

    def test_a_half_closed_stream_is_answered_and_ends(self):
        key = 5
        segment = Placement(self.table, self.client.map.ring_bits).segment(key)
        stream = self.client.stream("push", self.client.primary(segment))
        stream.send(self.client.push_frame(self.table, 0, {key: (1, 1)}, [segment]))
        replies = stream.close()
        self.assertEqual([n for r in replies for _, _, n in struct.iter_unpack("<IIQ", r.committed)], [1])

    # -- the named errors; the stream lives on after each --

    def refused(self, stream, frame, reason, says):
        stream.send(frame)
        reply = stream.next()
        while not reply.refusals or self.is_behind(reply.refusals[0], reason):
            if reply.refusals:
                pause(reply.refusals[0])
                stream.send(frame)
            reply = stream.next()
        self.assertEqual(reply.refusals[0].reason, reason, reply.refusals[0].message)
        self.assertIn(says, reply.refusals[0].message)
        return reply.refusals[0]

    @staticmethod
    def is_behind(refusal, expected):
        """Whether the shard only has to fetch the list of tables first."""
        return refusal.reason == Refusal.UNAVAILABLE and expected != Refusal.UNAVAILABLE

    def good_frame(self, segment=3):
        return self.client.push_frame(self.table, 0, {self.key_of_segment(segment): (1, 1)}, [segment])

    def expect_alive(self, stream, segment=3):
        stream.send(self.good_frame(segment))
        committed = []
        while not committed:
            reply = stream.next()
            if reply.refusals and self.is_behind(reply.refusals[0], None):
                pause(reply.refusals[0])
                stream.send(self.good_frame(segment))
                continue
            self.assertFalse(reply.refusals)
            committed = list(struct.iter_unpack("<IIQ", reply.committed))
        self.assertEqual(committed, [(segment, 1, 1)])

    def test_bad_pushes(self):
        stream = self.client.stream("push", self.client.primary(3))

        def changed(**fields):
            frame = self.good_frame()
            for name, value in fields.items():
                setattr(frame, name, value)
            return frame

        bad = [
            (changed(values=b"\0" * 12), Refusal.INVALID, "expected 8: 2 f32 a row"),
            (changed(table=999_999), Refusal.INVALID, "table: 999999 is unknown"),
            (changed(values=struct.pack("<2f", float("nan"), 1)), Refusal.INVALID, "values"),
            (changed(parts=b"\0" * 23), Refusal.MALFORMED, "parts: 23 bytes"),
            (changed(parts=self.client.part(3, 1, number=9)), Refusal.OUT_OF_ORDER, "before part 1"),
            (changed(parts=struct.pack("<IIQQ", 64, 1, 1, 1)), Refusal.INVALID, "segment 64"),
            (changed(keys=struct.pack("<Q", self.key_of_segment(4))), Refusal.INVALID, "lies in segment 4"),
            (changed(line=types_pb2.LINE_AGGREGATED), Refusal.INVALID, "line: 2"),
            (changed(catalogue_version=10**6), Refusal.UNAVAILABLE, "list of tables"),
            (changed(values=b"\0" * (9 << 20)), Refusal.MALFORMED, "send smaller frames"),
        ]
        for frame, reason, says in bad:
            with self.subTest(says):
                self.refused(stream, frame, reason, says)
        self.expect_alive(stream)

    def test_a_frame_that_is_no_message(self):
        address = next(s.address for s in self.client.map.shards if s.shard == self.client.primary(3))
        channel = grpc.insecure_channel(address)
        raw = channel.stream_stream("/paceline.v1.Shard/Push", request_serializer=lambda b: b,
                                    response_deserializer=shard_pb2.PushReply.FromString)
        frames = [shard_pb2.PushRequest(hello=self.client.hello()).SerializeToString(), b"\xff\xff\xff",
                  self.good_frame().SerializeToString()]
        replies = list(raw(iter(frames), timeout=WAIT))
        self.assertEqual([r.reason for reply in replies for r in reply.refusals], [Refusal.MALFORMED])
        self.assertEqual([m for reply in replies for m in struct.iter_unpack("<IIQ", reply.committed)], [(3, 1, 1)])

    def test_another_jobs_table(self):
        other = StockClient(self.coordinator, job=self.id() + "-other")
        self.addCleanup(other.close)
        theirs = other.open_table("theirs", kind=types_pb2.TABLE_KIND_SPARSE, **ADD)
        self.client.catalogue_version = other.catalogue_version
        stream = self.client.stream("push", self.client.primary(3))
        frame = self.good_frame()
        frame.table = theirs.id
        self.refused(stream, frame, Refusal.INVALID, "belongs to another job")
        self.expect_alive(stream)

    def test_hellos(self):
        shard = self.client.primary(3)
        address = next(s.address for s in self.client.map.shards if s.shard == shard)
        raw = grpc.insecure_channel(address).stream_stream(
            "/paceline.v1.Shard/Push", request_serializer=shard_pb2.PushRequest.SerializeToString,
            response_deserializer=shard_pb2.PushReply.FromString)
        frames = [shard_pb2.PushRequest(hello=self.client.hello(feature_level=0)), self.good_frame(),
                  shard_pb2.PushRequest(hello=self.client.hello(session=0)),
                  shard_pb2.PushRequest(hello=self.client.hello()), self.good_frame()]
        replies = list(raw(iter(frames), timeout=WAIT))
        messages = [r.message for reply in replies for r in reply.refusals]
        self.assertEqual(len(messages), 3, messages)
        self.assertIn("feature_level 0", messages[0])
        self.assertIn("hello: missing", messages[1])
        self.assertIn("session 0", messages[2])
        self.assertEqual([m for reply in replies for m in struct.iter_unpack("<IIQ", reply.committed)], [(3, 1, 1)])

    def test_a_session_that_is_not_open_is_fenced(self):
        stream = self.client.stream("push", self.client.primary(3), session=10**9)
        self.refused(stream, self.good_frame(), Refusal.FENCED, "session 1000000000")

    def test_a_closed_session_is_fenced(self):
        other = StockClient(self.coordinator, job=self.id())
        other.catalogue_version = self.client.catalogue_version
        stream = other.stream("push", other.primary(3))
        other.close()
        self.refused(stream, self.good_frame(), Refusal.FENCED, "is not open")

    def test_a_wrong_owner_says_moved(self):
        wrong = next(s for s in self.client.shards() if s != self.client.primary(3))
        refusal = self.refused(self.client.stream("push", wrong), self.good_frame(), Refusal.MOVED, "not served here")
        self.assertEqual(refusal.map_version, self.client.map.version)
        self.expect_alive(self.client.stream("push", self.client.primary(3)))

    def test_bad_pulls(self):
        shard = self.client.primary(3)
        stream = self.client.stream("pull", shard)

        def pull(**fields):
            request = dict(request=5, table=self.table.id, catalogue_version=self.client.catalogue_version,
                           parts=self.client.part(3, 1, number=0), keys=struct.pack("<Q", self.key_of_segment(3)))
            request.update(fields)
            return shard_pb2.PullRequest(**request)

        self.refused(stream, pull(table=999_999), Refusal.INVALID, "table: 999999")
        self.refused(stream, pull(keys=b""), Refusal.INVALID, "keys: 0 bytes")
        self.refused(stream, pull(keys=struct.pack("<Q", self.key_of_segment(4))), Refusal.INVALID, "lies in segment 4")
        self.refused(stream, pull(key_form=shard_pb2.KEY_FORM_RANGES, keys=struct.pack("<QQ", 0, 1)), Refusal.INVALID,
                     "a range, but the table is sparse")
        stream.send(pull())
        self.assertEqual(stream.next().values, struct.pack("<2f", 0, 0))

    def test_a_width_that_fits_no_page_is_refused_by_field(self):
        with self.assertRaises(grpc.RpcError) as error:
            self.client.open_table("wide", kind=types_pb2.TABLE_KIND_SPARSE, dim=1_000_000, rule=ADD["rule"])
        self.assertEqual(error.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("dim", error.exception.details())

    def test_another_schema_is_refused_by_field(self):
        with self.assertRaises(grpc.RpcError) as error:
            self.client.open_table("sparse", kind=types_pb2.TABLE_KIND_SPARSE, dim=3, rule=ADD["rule"])
        self.assertIn("dim", error.exception.details())

    def test_what_is_not_served_yet_says_so(self):
        from paceline.v1 import shard_pb2_grpc
        address = self.client.map.shards[0].address
        stub = shard_pb2_grpc.ShardStub(grpc.insecure_channel(address))
        for call in (stub.Subscribe(shard_pb2.SubscribeRequest(), timeout=WAIT),
                     stub.PushPull(iter([shard_pb2.PushPullRequest()]), timeout=WAIT)):
            with self.assertRaises(grpc.RpcError) as error:
                list(call)
            self.assertEqual(error.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
            self.assertIn("feature level 1", error.exception.details())

    def test_health_and_reflection(self):
        for address in [self.coordinator] + [s.address for s in self.client.map.shards]:
            channel = grpc.insecure_channel(address)
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            self.assertEqual(check(b"", timeout=WAIT), b"\x08\x01", "SERVING")
            # ServerReflectionRequest{list_services: "*"}
            reflect = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
            reply = b"".join(reflect(iter([b"\x3a\x01*"]), timeout=WAIT))
            self.assertIn(b"paceline.v1.", reply)


if __name__ == "__main__":
    unittest.main(verbosity=2)
