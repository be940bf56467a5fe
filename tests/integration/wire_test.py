#!/usr/bin/env python3
"""A client in another language, from docs/wire.md alone, over real shards: the right numbers and the named errors."""
import concurrent.futures
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import grpc

sys.path.insert(0, os.environ["PACELINE_PYTHON"])
from paceline.v1 import shard_pb2, types_pb2  # noqa: E402
from paper_frames import WAIT, FrameClient, pause
from paper_wire import Failed, segment_of  # noqa: E402

BIN = os.environ["PACELINE_BIN"]
WIRE_MD = Path(__file__).resolve().parents[2] / "docs/wire.md"
ADD = dict(dim=2, rule=types_pb2.Rule(add=types_pb2.Rule.Add()))
Refusal = shard_pb2.Refusal


class DocumentTest(unittest.TestCase):
    """What docs/wire.md computes and what it lists are the same, and are what the stock client does."""

    def setUp(self):
        self.text = WIRE_MD.read_text()
        self.rules = {}
        exec(re.search(r"```python\n(.*?)```", self.text, re.S)[1], self.rules)  # the page's own rules

    def rows(self, header):
        """The rows of the table with that header, as lists of cells."""
        after = self.text.split(f"\n{header}\n", 1)[1].split("\n")[1:]
        lines = [line for line in after[:after.index("")] if line.startswith("|")]
        self.assertTrue(lines, header)
        return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]

    def test_hashes(self):
        for x, expected in self.rows("| x | Mix64(x) |"):
            self.assertEqual(self.rules["mix64"](int(x, 16)), int(expected, 16))
        for table, key, expected in self.rows("| table | key | Mix64(table, key) |"):
            self.assertEqual(self.rules["ring_hash"](int(table), int(key, 16)), int(expected, 16))

    def placement(self, table, k, **schema):
        return lambda key: segment_of(types_pb2.Table(id=table, schema=types_pb2.TableSchema(**schema)), k, key)

    def test_sparse_tables(self):
        for row in self.rows("| table | k | key | segment |"):
            table, k, key, segment = map(int, row)
            self.assertEqual(self.rules["sparse_segment"](table, k, key), segment)
            mine = self.placement(table, k, kind=types_pb2.TABLE_KIND_SPARSE)
            self.assertEqual(mine(key), segment)

    def test_ranged_tables(self):
        for row in self.rows("| table | k | n | dim | rows per block | blocks | segment of key 0 | of key n div 2 | "
                             "of key n − 1 |"):
            table, k, n, dim, per_block, blocks, first, middle, last = map(int, row)
            self.assertEqual(self.rules["rows_per_block"](k, n, dim), per_block)
            self.assertEqual(-(-n // per_block), blocks)
            mine = self.placement(table, k, kind=types_pb2.TABLE_KIND_RANGED, rows=n, dim=dim)
            for key, segment in ((0, first), (n // 2, middle), (n - 1, last)):
                self.assertEqual(self.rules["ranged_segment"](table, k, n, dim, key), segment)
                self.assertEqual(mine(key), segment)

    def test_packed_layouts(self):
        formats = {"parts": "<IIQQ", "seals": "<IIIIQ", "committed": "<IIQ", "certificates": "<IIQQQQQ",
                   "unspoken": "<I", "keys": "<Q", "values": "<f"}
        vectors = self.rows("| field | numbers | bytes |")
        self.assertEqual({field for field, _, _ in vectors}, set(formats))
        for field, numbers, expected in vectors:
            values = [float(n) if field == "values" else int(n) for n in numbers.split(",")]
            self.assertEqual(struct.pack(formats[field], *values).hex(" ", 8), expected, field)


class WireTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = Path(cls.folder.name) / "data"
        cls.up = subprocess.Popen([f"{BIN}/paceline", "up", "--shards", "3", "--port", "0", "--data-dir", cls.data],
                                  stdout=subprocess.PIPE, text=True)
        cls.coordinator = cls.up.stdout.readline().strip().removeprefix("ready coordinator=")

    @classmethod
    def tearDownClass(cls):
        cls.up.terminate()
        assert cls.up.wait(timeout=WAIT) == 0
        cls.up.stdout.close()
        cls.folder.cleanup()

    def setUp(self):
        self.client = FrameClient(self.coordinator, job=self.id())
        self.addCleanup(self.client.close)
        self.table = self.client.open_table("sparse", kind=types_pb2.TABLE_KIND_SPARSE, **ADD)
        self.client.pull(self.table, range(200))  # asks every shard until it has the list of tables with this one

    def key_of_segment(self, segment):
        return next(key for key in range(10**6) if self.client.segment(self.table, key) == segment)

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
        segment = self.client.segment(table, 0)
        stream = self.client.stream("pull", self.client.primary(segment))
        stream.send(shard_pb2.PullRequest(request=1, table=table.id, catalogue_version=self.client.catalogue,
                                          key_form=shard_pb2.KEY_FORM_RANGES,
                                          parts=self.client.part(segment, 1, number=0), keys=struct.pack("<QQ", 6, 3)))
        self.assertEqual(struct.unpack("<6f", stream.next().values), (0, 0, 7, -7, 0, 0))

    def test_duplicate_keys_in_a_part_are_summed(self):
        key = 42
        segment = self.client.segment(self.table, key)
        stream = self.client.stream("push", self.client.primary(segment))
        stream.send(shard_pb2.PushRequest(
            table=self.table.id, line=types_pb2.LINE_ARRIVAL, catalogue_version=self.client.catalogue,
            parts=self.client.part(segment, 3), keys=struct.pack("<3Q", key, key, key),
            values=struct.pack("<6f", 1, 2, 3, 4, 5, 6)))
        self.client.number[segment] += 1
        self.assertEqual(self.client.pull(self.table, [key])[0][key], (9, 12))

    def test_ticks_move_the_min_clock_on_every_shard(self):
        start = self.client.join()
        self.client.push(self.table, start, {key: (1, 1) for key in range(200)})
        self.client.tick(start + 1)
        _, certificates = self.client.pull(self.table, list(range(200)), min_clock=start + 1)
        self.assertTrue(all(c[5] == start + 1 for c in certificates))
        with self.assertRaises(Failed) as refused:
            self.client.pull(self.table, [1], min_clock=start + 2, timeout_ms=100)
        self.assertEqual(refused.exception.code, "DEADLINE")
        self.assertIn(f"(session {self.client.session}) at clock {start + 1}", str(refused.exception))

    def test_a_tick_on_a_new_stream_speaks_only_for_segments_it_names(self):
        start = self.client.join()
        self.client.tick(start + 1)
        self.client.frame_streams.clear()
        shard = self.client.shards()[0]
        stream = self.client.stream("push", shard)
        stream.send(shard_pb2.PushRequest(tick=shard_pb2.Tick(clock=start + 2)))
        unspoken = {s for (s,) in struct.iter_unpack("<I", stream.next().ticks[0].unspoken)}
        self.assertEqual(unspoken, {s for s in range(64) if self.client.primary(s) == shard})

    def test_a_half_closed_stream_is_answered_and_ends(self):
        key = 5
        segment = self.client.segment(self.table, key)
        stream = self.client.stream("push", self.client.primary(segment))
        stream.send(self.client.push_frame(self.table, 0, {key: (1, 1)}, [segment]))
        replies = stream.close()
        self.assertEqual([n for r in replies for _, _, n in struct.iter_unpack("<IIQ", r.committed)], [1])

    # -- each part once, in order --

    def replies_until_committed(self, stream, segment, number):
        """The replies up to the one whose committed mark has reached `number`."""
        replies = []
        while not any(s == segment and n >= number for r in replies
                      for s, _, n in struct.iter_unpack("<IIQ", r.committed)):
            replies.append(stream.next())
        return replies

    def test_a_part_sent_again_is_acknowledged_and_applied_once(self):
        key = self.key_of_segment(3)
        self.client.push(self.table, 0, {key: (1, 1)})
        self.client.number[3] -= 1  # as if the acknowledgement had been lost with its stream
        self.client.frame_streams.clear()
        again = self.client.push_frame(self.table, 0, {key: (1, 1)}, [3])
        self.client.number[3] += 1
        stream = self.client.stream("push", self.client.primary(3))
        stream.send(again)
        self.assertFalse([r for reply in self.replies_until_committed(stream, 3, 1) for r in reply.refusals])
        self.assertEqual(self.client.pull(self.table, [key])[0][key], (1, 1))

    def test_an_empty_part_takes_the_number_of_a_refused_one(self):
        stream = self.client.stream("push", self.client.primary(3))
        bad = self.good_frame()
        bad.values = struct.pack("<2f", float("inf"), 1)
        refusal = self.refused(stream, bad, Refusal.INVALID, "values")
        self.assertEqual((refusal.segment, refusal.number, refusal.line), (3, 1, types_pb2.LINE_ARRIVAL))
        self.client.number[3] = 2
        follows = self.good_frame()
        stream.send(shard_pb2.PushRequest(line=types_pb2.LINE_ARRIVAL, parts=self.client.part(3, 0, number=1)))
        stream.send(follows)
        self.client.number[3] = 3
        self.assertFalse([r for reply in self.replies_until_committed(stream, 3, 2) for r in reply.refusals])
        key = self.key_of_segment(3)
        self.assertEqual(self.client.pull(self.table, [key])[0][key], (1, 1))

    def test_a_gap_names_the_expected_number(self):
        stream = self.client.stream("push", self.client.primary(3))
        late = self.good_frame()
        late.parts = self.client.part(3, 1, number=2)
        self.assertEqual(self.refused(stream, late, Refusal.OUT_OF_ORDER, "before part 1").expected, 1)
        self.expect_alive(stream)

    def test_a_read_waits_for_the_readers_own_part(self):
        key = self.key_of_segment(3)
        pulls = self.client.stream("pull", self.client.primary(3))
        pulls.send(shard_pb2.PullRequest(  # names part 1, which has not been sent
            request=1, table=self.table.id, catalogue_version=self.client.catalogue,
            parts=self.client.part(3, 1, number=1), keys=struct.pack("<Q", key)))
        self.client.push(self.table, 0, {key: (5, 6)})
        reply = pulls.next()
        self.assertEqual(struct.unpack("<2f", reply.values), (5, 6))
        (_, served, _, _, _, _, own), = struct.iter_unpack("<IIQQQQQ", reply.certificates)
        self.assertEqual((served, own), (1, 1))

    def test_a_tick_counts_once_the_parts_it_seals_are_applied(self):
        start = self.client.join()
        key = self.key_of_segment(3)
        shard = self.client.primary(3)
        stream = self.client.stream("push", shard)
        mine = [s for s in range(len(self.client.number)) if self.client.primary(s) == shard]
        seals = b"".join(struct.pack("<IIIIQ", s, 1, 1, 0, 1 if s == 3 else 0) for s in mine)
        stream.send(shard_pb2.PushRequest(tick=shard_pb2.Tick(clock=start + 1, seals=seals)))
        acks = []
        while not acks:
            acks = list(stream.next().ticks)
        self.assertEqual(acks[0].unspoken, b"")
        with self.assertRaises(Failed) as refused:
            self.client.pull(self.table, [key], min_clock=start + 1, timeout_ms=50)
        self.assertEqual(refused.exception.code, "DEADLINE")
        self.client.push(self.table, start, {key: (1, 1)})
        self.assertEqual(self.client.pull(self.table, [key], min_clock=start + 1)[0][key], (1, 1))

    # -- several workers --

    def start_together(self, workers):
        clients = [FrameClient(self.coordinator, job=self.id() + "-group") for _ in range(workers)]
        for client in clients:
            self.addCleanup(client.close)
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            starts = list(pool.map(lambda client: client.join(workers), clients))
        self.assertEqual(len(set(starts)), 1, "they start at one clock")
        return clients, starts[0]

    def test_workers_under_ssp(self):
        staleness, clocks, keys = 2, 6, list(range(60))
        clients, start = self.start_together(3)
        tables = [client.open_table("group", kind=types_pb2.TABLE_KIND_SPARSE, **ADD) for client in clients]

        def work(me):
            client, table = clients[me], tables[me]
            for clock in range(start, start + clocks):
                values = client.read(table, keys, clock, staleness)
                for key in keys:  # everybody adds 1 to each key in each clock
                    least = (clock - start) + 2 * max(0, clock - staleness - start)
                    self.assertTrue(least <= values[key][0] <= 3 * clocks, (me, clock, values[key]))
                client.push(table, clock, {key: (1, me) for key in keys})
                client.tick(clock + 1)
            client.finish()

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(work, me) for me in range(3)]:
                done.result(timeout=60)
        reader = FrameClient(self.coordinator, job=self.id() + "-group")
        self.addCleanup(reader.close)
        table = reader.open_table("group", kind=types_pb2.TABLE_KIND_SPARSE, **ADD)
        values, certificates = reader.pull(table, keys)
        self.assertEqual(set(values.values()), {(3 * clocks, clocks * (0 + 1 + 2))})
        self.assertEqual({self.client.primary(c[0]) for c in certificates}, set(self.client.shards()))

    def test_a_fast_worker_waits_for_the_slow_one_only_within_the_bound(self):
        (fast, slow), start = self.start_together(2)
        table = fast.open_table("group", kind=types_pb2.TABLE_KIND_SPARSE, **ADD)
        slow.catalogue = fast.catalogue
        key = self.key_of_segment(3)
        fast.tick(start + 1)
        with self.assertRaises(Failed) as refused:
            fast.read(table, [key], start + 1, 0, timeout_ms=100)
        self.assertEqual(refused.exception.code, "DEADLINE")
        self.assertIn(f"(session {slow.session}) at clock {start}", str(refused.exception))
        self.assertEqual(fast.read(table, [key], start + 1, 1)[key], (0, 0), "SSP(1) does not wait for it")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            reading = pool.submit(fast.read, table, [key], start + 1, 0)
            slow.push(table, start, {key: (7, 7)})
            slow.tick(start + 1)
            self.assertEqual(reading.result(timeout=WAIT)[key], (7, 7))

    def test_a_finished_worker_holds_nobody_up(self):
        (stays, goes), start = self.start_together(2)
        table = stays.open_table("group", kind=types_pb2.TABLE_KIND_SPARSE, **ADD)
        goes.catalogue = stays.catalogue
        key = self.key_of_segment(3)
        goes.push(table, start, {key: (1, 2)})
        goes.finish()
        stays.tick(start + 1)
        self.assertEqual(stays.read(table, [key], start + 1, 0)[key], (1, 2))

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

    def test_a_frame_that_is_not_a_message(self):
        address = next(s.address for s in self.client.map.shards if s.shard == self.client.primary(3))
        channel = grpc.insecure_channel(address)
        raw = channel.stream_stream("/paceline.v1.Shard/Push", request_serializer=lambda b: b,
                                    response_deserializer=shard_pb2.PushReply.FromString)
        frames = [shard_pb2.PushRequest(hello=self.client.hello()).SerializeToString(), b"\xff\xff\xff",
                  self.good_frame().SerializeToString()]
        replies = list(raw(iter(frames), timeout=WAIT))
        self.assertEqual([r.reason for reply in replies for r in reply.refusals], [Refusal.MALFORMED])
        self.assertEqual([m for reply in replies for m in struct.iter_unpack("<IIQ", reply.committed)], [(3, 1, 1)])

    def test_a_text_that_is_not_utf8_is_refused_and_not_logged(self):
        address = self.client.map.shards[0].address
        raw = grpc.insecure_channel(address).stream_stream(
            "/paceline.v1.Shard/Push", request_serializer=lambda b: b,
            response_deserializer=shard_pb2.PushReply.FromString)
        hello = shard_pb2.PushRequest(hello=self.client.hello(client="stock")).SerializeToString()
        replies = list(raw(iter([hello.replace(b"stock", b"\xff\xfe\xff\xfe\xff")]), timeout=WAIT))
        self.assertEqual([r.reason for reply in replies for r in reply.refusals], [Refusal.MALFORMED])
        logs = "".join(path.read_text() for path in (self.data / "logs").glob("*"))
        self.assertIn("shard serves", logs)
        self.assertNotIn("libprotobuf", logs)

    def test_another_jobs_table(self):
        other = FrameClient(self.coordinator, job=self.id() + "-other")
        self.addCleanup(other.close)
        theirs = other.open_table("theirs", kind=types_pb2.TABLE_KIND_SPARSE, **ADD)
        self.client.catalogue = other.catalogue
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
        other = FrameClient(self.coordinator, job=self.id())
        other.catalogue = self.client.catalogue
        stream = other.stream("push", other.primary(3))
        other.close()
        self.refused(stream, self.good_frame(), Refusal.FENCED, "is not open")

    def test_a_shard_that_does_not_own_a_segment_answers_moved(self):
        wrong = next(s for s in self.client.shards() if s != self.client.primary(3))
        refusal = self.refused(self.client.stream("push", wrong), self.good_frame(), Refusal.MOVED, "not served here")
        self.assertEqual(refusal.map_version, self.client.map.version)
        self.expect_alive(self.client.stream("push", self.client.primary(3)))

    def test_bad_pulls(self):
        shard = self.client.primary(3)
        stream = self.client.stream("pull", shard)

        def pull(**fields):
            request = dict(request=5, table=self.table.id, catalogue_version=self.client.catalogue,
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
        with self.assertRaises(Failed) as error:
            self.client.open_table("wide", kind=types_pb2.TABLE_KIND_SPARSE, dim=1_000_000, rule=ADD["rule"])
        self.assertEqual(error.exception.code, "INVALID_ARGUMENT")
        self.assertIn("dim", str(error.exception))

    def test_another_schema_is_refused_by_field(self):
        with self.assertRaises(Failed) as error:
            self.client.open_table("sparse", kind=types_pb2.TABLE_KIND_SPARSE, dim=3, rule=ADD["rule"])
        self.assertIn("dim", str(error.exception))

    def test_unserved_features_say_so(self):
        """At level 1 Subscribe is a call with one request."""
        channel = grpc.insecure_channel(self.client.map.shards[0].address)
        subscribe = channel.unary_stream("/paceline.v1.Shard/Subscribe")
        hello = shard_pb2.Hello(feature_level=1, job=1, session=1)
        for request in (shard_pb2.SubscribeRequest(), shard_pb2.SubscribeRequest(hello=hello, table=1)):
            with self.assertRaises(grpc.RpcError) as error:
                list(subscribe(request.SerializeToString(), timeout=WAIT))
            self.assertEqual(error.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
            self.assertIn("feature level 2", error.exception.details())

    def test_health_and_no_reflection(self):
        shards = self.client.map.shards
        for address in [self.coordinator] + [s.address for s in shards] + [s.peer_address for s in shards]:
            channel = grpc.insecure_channel(address)
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            self.assertEqual(check(b"", timeout=WAIT), b"\x08\x01", "SERVING")
            # ServerReflectionRequest{list_services: "*"}
            reflect = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
            with self.assertRaises(grpc.RpcError) as error:
                list(reflect(iter([b"\x3a\x01*"]), timeout=WAIT))
            self.assertEqual(error.exception.code(), grpc.StatusCode.UNIMPLEMENTED)


if __name__ == "__main__":
    unittest.main(verbosity=2)
