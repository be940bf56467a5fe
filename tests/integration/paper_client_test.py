#!/usr/bin/env python3
"""docs/wire.md is the whole contract: a client that was written from it and proto/ alone, over real shards with replicas,
while primaries are handed over and killed, has exact sums, is told each error by its name, and does not loop."""
import queue
import signal
import struct
import subprocess
import threading
import time
import unittest

import grpc
from paper_client import Client
from paper_wire import MARK, OPTIONS, PART, Failed, pack_seals, segment_of
from paceline.v1 import coordinator_pb2, shard_pb2, shard_pb2_grpc, types_pb2
from persistence_test import ADD, BIN, WAIT, Cluster, until

SPARSE = types_pb2.TableSchema(kind=types_pb2.TABLE_KIND_SPARSE, dim=2, **ADD)
DENSE = types_pb2.TableSchema(kind=types_pb2.TABLE_KIND_RANGED, dim=3, rows=2000, **ADD)
BSP = types_pb2.TableSchema(kind=types_pb2.TABLE_KIND_SPARSE, dim=2, aggregated=True, **ADD)
BSP_DENSE = types_pb2.TableSchema(kind=types_pb2.TABLE_KIND_RANGED, dim=3, rows=2000, aggregated=True, **ADD)
KEYS = [key * 0x9e3779b97f4a7c15 % 2**64 for key in range(40)]


class Bare:
    """A stream, frame by frame."""

    def __init__(self, test, client, segment, kind="Push", hello=True, **changes):
        config = client.map.segments[segment].primary
        member = (config.shard, config.incarnation)
        channel = grpc.insecure_channel(next(s.address for s in client.map.shards if s.shard == config.shard), OPTIONS)
        self.outbox, self.frame = queue.SimpleQueue(), getattr(shard_pb2, f"{kind}Request")
        self.call = getattr(shard_pb2_grpc.ShardStub(channel), kind)(iter(self.outbox.get, None), timeout=WAIT)
        self.hello = client.hello_to(member)
        for name, value in changes.items():
            setattr(self.hello, name, value)
        test.addCleanup(channel.close)
        test.addCleanup(self.outbox.put, None)
        test.addCleanup(self.call.cancel)
        if hello:
            self.say(hello=self.hello)

    def say(self, **fields):
        self.outbox.put(self.frame(**fields))

    def until(self, wanted):
        """The first thing that `wanted` finds in a reply."""
        for reply in self.call:
            if found := wanted(reply):
                return found
        raise AssertionError("the stream ended")

    def refusal(self):
        refusal = self.until(lambda reply: reply.refusals)[0]
        return refusal.Reason.Name(refusal.reason)


class PaperClientTest(unittest.TestCase):
    def cluster(self, shards=3, replicas=1):
        cluster = Cluster(self, shards=shards, replicas=replicas, keep=False)
        cluster.start_all()
        return cluster

    def client(self, cluster, job="job", **options):
        client = Client(cluster.coordinator, job, **options)
        self.addCleanup(client.leave)
        return client

    def assert_fails(self, code, what, *arguments, **fields):
        with self.assertRaises(Failed) as caught:
            what(*arguments, **fields)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return str(caught.exception)

    # -- training, while the cluster changes --

    def worker(self, client, clocks, tables, at_clock):
        """Every clock adds rank + 1 to everything. Reads are exact under BSP, and within their bound under SSP(2)."""
        client.join(workers=2)
        total = lambda rows: {row[0] for row in rows.values()}  # noqa: E731
        for clock in range(clocks):
            at_clock(client, clock)
            for table in (tables["bsp"], tables["ssp"]):
                client.push(table, [(key, [client.rank + 1] * 2) for key in KEYS])
            for table in (tables["bsp_dense"], tables["ssp_dense"]):
                client.push(table, [(row, [client.rank + 1] * 3) for row in range(0, 2000, 1 + clock % 2)])
            client.tick()
            self.assertEqual(total(client.pull(tables["bsp"], KEYS, clock + 1, WAIT)), {3 * (clock + 1)})
            seen = total(client.pull(tables["ssp"], KEYS, max(0, clock - 1), WAIT))
            mine, other = client.rank + 1, 2 - client.rank
            self.assertLessEqual(mine * (clock + 1) + other * max(0, clock - 1), min(seen))
            self.assertLessEqual(max(seen), mine * (clock + 1) + other * (clock + 2))
        client.finish(WAIT)

    def train(self, cluster, clocks, at_clock):
        reader = self.client(cluster)
        schemas = {"bsp": BSP, "ssp": SPARSE, "bsp_dense": BSP_DENSE, "ssp_dense": DENSE}
        tables = {name: reader.open_table(name, schema) for name, schema in schemas.items()}
        workers = [self.client(cluster, name=f"worker-{i}") for i in range(2)]
        failed = []

        def run(client):
            try:
                self.worker(client, clocks, {name: client.open_table(name) for name in tables}, at_clock)
            except (Failed, AssertionError) as failure:
                failed.append(failure)
                client.fail("CANCELLED", "the test failed")

        threads = [threading.Thread(target=run, args=(client,)) for client in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        evens = clocks + 1 >> 1  # clocks that pushed to every row; the others pushed to even ones
        rows = {row: (3 * (clocks if row % 2 == 0 else evens),) * 3 for row in range(2000)}
        for name, wanted in (("bsp", dict.fromkeys(KEYS, (3 * clocks,) * 2)), ("bsp_dense", rows)):
            self.assertEqual(reader.pull(tables[name], wanted, clocks), wanted)
            self.assertEqual(reader.pull(tables[name.replace("bsp", "ssp")], wanted, clocks), wanted)
        for client in workers:
            self.assertEqual(client.errors, [])
            client.close()
        return workers

    def test_a_calm_cluster_needs_few_ticks(self):
        workers = self.train(self.cluster(), 30, lambda client, clock: None)
        for client in workers:
            self.assertLessEqual(client.ticks, 30 * 3 + 6)  # one a shard and clock

    def test_streams_break_primaries_move_and_die(self):
        cluster = self.cluster()

        def at_clock(client, clock):
            if clock % 5 == 4:
                for stream in list(client.streams.values()):
                    stream.call.cancel()
            if client.rank == 0 and clock == 8:
                subprocess.run([f"{BIN}/paceline", "handover", "shard-0", "--coordinator", cluster.coordinator],
                               check=True, capture_output=True, timeout=WAIT)
            if client.rank == 0 and clock == 16:
                cluster.kill("shard-1")

        workers = self.train(cluster, 40, at_clock)
        for client in workers:
            print(f"{client.name}: {client.ticks} ticks")
            self.assertLessEqual(client.ticks, 2 * 40 * 3)

    # -- each rule by itself --

    def test_a_read_waits_for_the_slowest(self):
        cluster = self.cluster(shards=1, replicas=0)
        workers = [self.client(cluster, name=f"worker-{i}") for i in range(2)]
        table = workers[0].open_table("t", SPARSE)
        joins = [threading.Thread(target=client.join, args=(2,)) for client in workers]
        for thread in joins:
            thread.start()
        for thread in joins:
            thread.join()
        workers[0].push(table, [(1, [1, 1])])
        for _ in range(3):
            workers[0].tick()
        workers[0].told()
        self.assertEqual(workers[0].pull(table, [1]), {1: (1, 1)})
        self.assert_fails("DEADLINE", workers[0].pull, table, [1], min_clock=1, within=0.5)
        bare = Bare(self, workers[0], 0, "Pull")
        segment = segment_of(table, workers[0].map.ring_bits, 1)
        bare.say(request=1, table=table.id, min_clock=1, timeout_ms=50, keys=struct.pack("<Q", 1),
                 parts=PART.pack(segment, 1, workers[0].map.segments[segment].epoch, 0))
        refusal = bare.until(lambda reply: reply.refusals)[0]
        self.assertEqual((refusal.reason, refusal.segment), (refusal.DEADLINE, segment))
        self.assertIn(f"session {workers[1].opened.session}) at clock 0", refusal.message)
        workers[1].tick()
        self.assertEqual(workers[0].pull(table, [1], min_clock=1), {1: (1, 1)})

    def test_repeated_parts_count_once(self):
        cluster = self.cluster(shards=2)
        client = self.client(cluster)
        table = client.open_table("t", SPARSE)
        for i in range(50):
            client.push(table, [(key, [1, i]) for key in KEYS])
            if i % 3 == 0:
                for stream in list(client.streams.values()):
                    stream.call.cancel()
        client.flush()
        self.assertEqual(client.pull(table, KEYS), dict.fromkeys(KEYS, (50, 49 * 25)))
        # By hand: the same number on another stream is acknowledged again, and a gap names the number that is due.
        other = self.client(cluster)
        segment = segment_of(table, client.map.ring_bits, 7)
        epoch = other.map.segments[segment].epoch
        part = dict(table=table.id, line=types_pb2.LINE_ARRIVAL, catalogue_version=client.catalogue,
                    keys=struct.pack("<Q", 7), values=struct.pack("<2f", 1, 1))
        for _ in range(2):
            bare = Bare(self, other, segment)
            bare.say(parts=PART.pack(segment, 1, epoch, 1), **part)
            self.assertEqual(bare.until(lambda reply: reply.committed), MARK.pack(segment, 1, 1))
        bare.say(parts=PART.pack(segment, 1, epoch, 3), **part)
        refusal = bare.until(lambda reply: reply.refusals)[0]
        self.assertEqual((refusal.reason, refusal.frame, refusal.number, refusal.expected),
                         (refusal.OUT_OF_ORDER, 2, 3, 2))
        self.assertEqual(client.pull(table, [7]), {7: (1, 1)})

    def test_answers_to_a_tick(self):
        cluster = self.cluster(shards=1, replicas=0)
        client = self.client(cluster)
        table = client.open_table("t", SPARSE)
        client.join()
        segments = range(len(client.map.segments))
        bare = Bare(self, client, 0)

        def tick(number, numbers, clock=1, **fields):
            bare.say(tick=shard_pb2.Tick(clock=clock, number=number, seals=pack_seals(numbers), **fields))
            ack = bare.until(lambda reply: reply.ticks)[0]
            self.assertEqual((ack.clock, ack.number), (clock, number))
            return [s for s, in struct.iter_unpack("<I", ack.unspoken)], list(MARK.iter_unpack(ack.here))

        self.assertEqual(tick(11, {}), (list(segments), []))
        none = {(segment, line): 0 for segment in segments for line in (1, 2)}
        told = none | {(3, 1): 1}
        self.assertEqual(tick(12, {at: n for at, n in told.items() if at[0] < 6}), ([6, 7], [(3, 1, 0)]))
        self.assertEqual(tick(13, {at: n for at, n in told.items() if at[0] >= 6}), ([], [(3, 1, 0)]))
        self.assert_fails("DEADLINE", client.pull, table, KEYS, min_clock=1, within=0.3)  # its part is not there
        bare.say(table=table.id, line=1, catalogue_version=client.catalogue,
                 parts=PART.pack(3, 0, client.map.segments[3].epoch, 1))
        self.assertEqual(client.pull(table, KEYS, min_clock=1), dict.fromkeys(KEYS, (0, 0)))
        self.assertEqual(tick(14, {}, clock=2), ([], []))
        self.assertEqual(tick(15, {}, clock=2, anew=True), (list(segments), []))

    def test_a_refused_tick_is_not_repeated_in_a_loop(self):
        """A shard that is not yet, or no longer, what the map says would answer like this, here for a while."""
        client = self.client(self.cluster(shards=1, replicas=0))
        client.join()
        take_ack, took, began = client.take_ack, [], time.monotonic()

        def refuse(stream, ack):
            took.append(time.monotonic() - began)
            ack.unspoken = struct.pack("<I", 3)
            take_ack(stream, ack)

        client.take_ack = refuse
        client.tick()
        until("it was told six times", lambda: len(took) >= 6)
        self.assertGreaterEqual(took[5], 0.02 + 0.04 + 0.08 + 0.16 + 0.32)
        client.take_ack = take_ack
        client.told()
        self.assertLessEqual(client.ticks, len(took) + 1)

    def test_committed_parts_that_a_tick_does_not_find_are_lost(self):
        """What the answer of a shard with older rows would be, here made by hand."""
        client = self.client(self.cluster(shards=1, replicas=0))
        table = client.open_table("t", SPARSE)
        client.join()
        client.push(table, [(1, [1, 1])])
        client.flush()
        client.tick()
        client.told()
        segment, stream = segment_of(table, client.map.ring_bits, 1), next(iter(client.streams.values()))
        here = MARK.pack(segment, 1, 0)
        with client.lock:
            client.take_ack(stream, shard_pb2.TickAck(clock=1, number=stream.tick - 1, here=here))
            client.take_ack(stream, shard_pb2.TickAck(clock=1, number=stream.tick, here=MARK.pack(segment, 1, 1)))
            self.assertIsNone(client.failure)
            client.take_ack(stream, shard_pb2.TickAck(clock=1, number=stream.tick, here=here))
        self.assert_fails("DATA_LOSS", client.tick)

    def test_lost_data_is_reported(self):
        cluster = self.cluster(shards=2, replicas=0)
        clients = [self.client(cluster) for _ in range(3)]
        table = clients[0].open_table("t", SPARSE)
        clients[0].push(table, [(key, [1, 1]) for key in KEYS])
        clients[0].flush()
        cluster.kill("shard-1")
        cluster.start_shard(1)
        clients[1].push(table, [(key, [1, 1]) for key in KEYS])
        self.assert_fails("DATA_LOSS", clients[1].flush, WAIT)
        self.assert_fails("DATA_LOSS", clients[2].pull, table, KEYS, within=WAIT)
        self.assert_fails("DATA_LOSS", clients[0].pull, table, KEYS, within=WAIT)

    def test_a_client_sends_no_more_than_it_was_granted(self):
        cluster = self.cluster(shards=1, replicas=0)
        client = self.client(cluster)
        wide = types_pb2.TableSchema(kind=types_pb2.TABLE_KIND_SPARSE, dim=1024, **ADD)
        table = client.open_table("wide", wide)
        client.push(table, [(0, [1] * 1024)])
        client.flush()
        stream = next(iter(client.streams.values()))
        granted, most = stream.granted, stream.welcome.frame_bytes_max
        self.assertGreater(granted, stream.welcome.window_bytes, "it grows once it pushes")
        rows = (granted + 2 * most) // 4096
        cluster.processes["shard-0"].send_signal(signal.SIGSTOP)
        client.push(table, [(key, [1] * 1024) for key in range(rows)])
        until("the grant is used up", lambda: stream.pushed >= granted)
        self.assertLess(stream.pushed, granted + most)
        self.assertLess(sum(line.sent for line in client.lines.values()), sum(line.made for line in client.lines.values()))
        cluster.processes["shard-0"].send_signal(signal.SIGCONT)
        client.flush(WAIT)
        self.assertIs(stream.broken, False)
        self.assertEqual({row[0] for row in client.pull(table, range(1, rows)).values()}, {1})

    def test_sessions_need_their_secret(self):
        cluster = self.cluster(shards=1, replicas=0)
        client, other = self.client(cluster), self.client(cluster, "another")
        table = client.open_table("t", SPARSE)
        for token in ("", "f" * 32, other.opened.secret):
            self.assertEqual(Bare(self, client, 0, token=token).refusal(), "FENCED")
            self.assertEqual(Bare(self, client, 0, "Pull", token=token).refusal(), "FENCED")
            self.assert_fails("PERMISSION_DENIED", client.ask, "KeepAlive", token=token)
            self.assert_fails("PERMISSION_DENIED", client.ask, "OpenTable", name="t", token=token)
        # A Hello is alone in its frame, or nothing of the frame is taken; another one may follow.
        segment = segment_of(table, client.map.ring_bits, 7)
        frame = dict(table=table.id, line=1, catalogue_version=client.catalogue, keys=struct.pack("<Q", 7),
                     parts=PART.pack(segment, 1, client.map.segments[segment].epoch, 1), values=struct.pack("<2f", 1, 1))
        bare = Bare(self, client, segment, hello=False)
        bare.say(hello=bare.hello, **frame)
        self.assertEqual(bare.refusal(), "MALFORMED")
        bare.say(hello=bare.hello)
        self.assertTrue(bare.until(lambda reply: reply.HasField("welcome")))
        self.assertEqual(client.pull(table, [7]), {7: (0, 0)})
        bare.say(**frame)
        self.assertEqual(bare.until(lambda reply: reply.committed), MARK.pack(segment, 1, 1))
        # Another cluster, another shard, an earlier start.
        self.assertEqual(Bare(self, client, 0, cluster=client.map.cluster ^ 1).refusal(), "UNAVAILABLE")
        bare = Bare(self, client, 0, hello=False)
        bare.hello.target.shard += 1
        bare.say(hello=bare.hello)
        self.assertEqual(bare.refusal(), "UNAVAILABLE")
        # A closed session hears of it at once, on every stream.
        client.ask("CloseSession", reason="done")
        for kind in ("Push", "Pull"):
            bare = Bare(self, client, 0, kind)
            refusal = bare.until(lambda reply: reply.refusals)[0]
            self.assertEqual((refusal.reason, refusal.segment, refusal.number), (refusal.FENCED, 0, 0))
        self.assert_fails("FAILED_PRECONDITION", client.ask, "OpenTable", name="t")
        client.ask("CloseSession", reason="done")  # may be repeated

    def test_a_refused_part_is_replaced_by_an_empty_one(self):
        client = self.client(self.cluster(shards=1, replicas=0))
        table = client.open_table("t", SPARSE)
        for value in (1, float("nan"), 1):
            client.push(table, [(7, [value, 0])])
        client.flush()
        self.assertEqual([refusal.number for refusal in client.errors], [2])
        self.assertEqual(client.pull(table, [7]), {7: (2, 0)})
        gone = client.open_table("gone", SPARSE)
        client.ask("DropTable", table=gone.id)
        client.push(gone, [(key, [1, 1]) for key in KEYS])
        client.push(table, [(key, [1, 1]) for key in [7, *KEYS]])
        client.flush()
        self.assertEqual({refusal.reason for refusal in client.errors}, {shard_pb2.Refusal.INVALID})
        self.assert_fails("INVALID", client.pull, gone, [7])
        self.assertEqual(client.pull(table, [7, *KEYS]), {7: (3, 1)} | dict.fromkeys(KEYS, (1, 1)))

    def test_answers_of_a_coordinator(self):
        cluster = self.cluster(shards=1, replicas=0)
        client, other = self.client(cluster, nonce=77), self.client(cluster, "another")
        again = self.client(cluster, nonce=77)
        self.assertEqual((again.opened.session, again.opened.secret), (client.opened.session, client.opened.secret))
        self.assertTrue(client.opened.created_job)
        self.assert_fails("INVALID_ARGUMENT", Client, cluster.coordinator, "another", nonce=77)
        self.assert_fails("INVALID_ARGUMENT", Client, cluster.coordinator, "a job", nonce=78)
        table = client.open_table("t", SPARSE)
        self.assertIn("dim", self.assert_fails("ALREADY_EXISTS", client.open_table, "t", types_pb2.TableSchema(
            kind=types_pb2.TABLE_KIND_SPARSE, dim=9, **ADD)))
        self.assert_fails("NOT_FOUND", client.open_table, "none")
        self.assert_fails("NOT_FOUND", other.open_table, "t")
        self.assert_fails("PERMISSION_DENIED", other.ask, "DropTable", table=table.id)
        self.assert_fails("INVALID_ARGUMENT", client.open_table, "t t", SPARSE)
        self.assert_fails("FAILED_PRECONDITION", client.ask, "FinishWorker", clock=0)
        self.assert_fails("DEADLINE_EXCEEDED", client.ask, "JoinJob", 0.3, workers=2, timeout_ms=100)
        joining = threading.Thread(target=client.ask, args=("JoinJob",),
                                   kwargs=dict(workers=2, rank_plus_one=1, timeout_ms=60000))
        joining.start()
        third = self.client(cluster)

        def stated(**wish):
            with self.assertRaises(Failed) as caught:
                third.ask("JoinJob", 0.1, timeout_ms=50, **wish)
            return caught.exception.code

        until("the first one waits", lambda: stated(workers=3) == "INVALID_ARGUMENT")
        self.assertEqual(stated(workers=2, rank_plus_one=1), "ALREADY_EXISTS")
        third.join(2)
        joining.join()
        self.assertEqual(third.rank, 1)
        # A worker that replaces one of a group does not wait for the others.
        third.finish()
        self.client(cluster).join(2)
        other.join()
        other.finish()
        self.assert_fails("FAILED_PRECONDITION", other.ask, "JoinJob", workers=1)
        deletes = coordinator_pb2.DeleteJobRequest(job="another")
        self.assert_fails("FAILED_PRECONDITION", client.coordinators.ask, "DeleteJob", deletes)

    def test_a_start_clock_that_was_passed_is_refused(self):
        cluster = self.cluster(shards=1, replicas=0)
        worker = self.client(cluster)
        worker.join()
        for _ in range(100):  # until one joins before the shard has told the coordinator of the clocks
            for _ in range(20):
                worker.tick()
            worker.told()
            late = self.client(cluster)
            try:
                late.join()
                late.finish()
            except Failed as failed:
                self.assertEqual(failed.code, "ABORTED", failed)
                self.assert_fails("ABORTED", late.ask, "KeepAlive")
                break
        else:
            self.fail("nobody was late")
        while True:
            try:
                again = self.client(cluster)
                again.join()
                break
            except Failed as failed:
                self.assertEqual(failed.code, "ABORTED", failed)
        self.assertGreaterEqual(again.start, worker.clock)


if __name__ == "__main__":
    unittest.main()
