"""A client of stock grpcio and generated messages, written from docs/wire.md alone: none of our C++."""
import queue
import secrets
import struct
import time

import grpc
from paceline.v1 import coordinator_pb2, coordinator_pb2_grpc, shard_pb2, shard_pb2_grpc, types_pb2

M = 2**64 - 1
WAIT = 60  # seconds a step may take


def mix64(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M
    x = (x ^ x >> 27) * 0x94D049BB133111EB & M
    return x ^ x >> 31


def pause(refusal):
    """What an UNAVAILABLE refusal asks for before the next try (docs/wire.md §7)."""
    time.sleep(refusal.retry_after_ms / 1000)


class Placement:
    """Where the keys of one table live (docs/wire.md §2)."""

    def __init__(self, table, ring_bits):
        self.table, self.k = table, ring_bits
        if table.schema.kind == types_pb2.TABLE_KIND_RANGED:
            n, dim = table.schema.rows, table.schema.dim
            self.rows_per_block = min(max(n // (4 << self.k), -(-256 // dim)), max(1, 16384 // dim))

    def segment(self, key):
        if self.table.schema.kind == types_pb2.TABLE_KIND_RANGED:
            return (mix64(self.table.id) + key // self.rows_per_block) % 2**self.k
        return mix64(key + mix64(self.table.id) & M) >> (64 - self.k)


class Stream:
    """One bidirectional stream: requests by send(), replies by next()."""

    def __init__(self, method, hello, seconds):
        self._requests = queue.Queue()
        self._replies = method(iter(self._requests.get, None), timeout=seconds)
        self.rows = []
        self.send(hello)
        first = self.next()
        self.welcome, self.refusals = first.welcome, list(first.refusals)  # a closed session's come at once

    def send(self, request):
        self._requests.put(request)

    def next(self):
        reply = next(self._replies)
        if getattr(reply, "certificates", b"") or getattr(reply, "read_refusals", ()):
            self.rows.append(reply)  # a PushPullReply with rows: may carry marks as well
        return reply

    def close(self):
        self._requests.put(None)
        return list(self._replies)


class StockClient:
    """One session and its streams. `number` is the next of each segment's arrival line."""

    stream_seconds = 120  # that a stream lives
    ticks_told = 0  # frames with a tick

    def __init__(self, coordinator, job):
        self.api = coordinator_pb2_grpc.CoordinatorStub(grpc.insecure_channel(coordinator))
        opened = self.api.OpenSession(coordinator_pb2.OpenSessionRequest(
            feature_level=2, job=job, client="stock", nonce=secrets.randbelow(M) + 1, timeout_ms=10000), timeout=WAIT)
        self.session, self.job, self.map = opened.session, opened.job, opened.map
        self.token = opened.secret
        self.number = [1] * len(self.map.segments)
        self.streams = {}

    def open_table(self, name, **schema):
        reply = self.api.OpenTable(coordinator_pb2.OpenTableRequest(
            session=self.session, token=self.token, name=name, schema=types_pb2.TableSchema(**schema), create=True), timeout=WAIT)
        self.catalogue_version = reply.catalogue_version
        return reply.table

    def join(self, workers=1):
        return self.api.JoinJob(coordinator_pb2.JoinJobRequest(
            session=self.session, token=self.token, workers=workers, timeout_ms=10000), timeout=WAIT).start_clock

    def hello(self, **changes):
        fields = dict(feature_level=2, job=self.job, session=self.session, token=self.token, client="stock")
        fields.update(changes)
        return shard_pb2.Hello(**fields)

    def stream(self, kind, shard, **hello):
        """The open stream of a kind to a shard; with changes to its Hello, a new one of its own."""
        if (kind, shard) in self.streams and not hello:
            return self.streams[kind, shard]
        address = next(s.address for s in self.map.shards if s.shard == shard)
        stub = shard_pb2_grpc.ShardStub(grpc.insecure_channel(address))
        method, request = {"push": (stub.Push, shard_pb2.PushRequest), "pull": (stub.Pull, shard_pb2.PullRequest),
                           "push_pull": (stub.PushPull, shard_pb2.PushPullRequest)}[kind]
        stream = Stream(method, request(hello=self.hello(**hello)), self.stream_seconds)
        if not hello:
            self.streams[kind, shard] = stream
        return stream

    def primary(self, segment):
        return self.map.segments[segment].primary.shard

    def shards(self):
        return [s.shard for s in self.map.shards]

    def by_segment(self, table, keys):
        placement = Placement(table, self.map.ring_bits)
        groups = {}
        for position, key in enumerate(keys):
            groups.setdefault(placement.segment(key), []).append(position)
        return groups

    def part(self, segment, count, number=None, epoch=None):
        number = self.number[segment] if number is None else number
        epoch = self.map.segments[segment].epoch if epoch is None else epoch
        return struct.pack("<IIQQ", segment, count, epoch, number)

    def push_frame(self, table, clock, rows, segments):
        """The frame of the given segments' rows. rows: key → values. Numbers are those due; they are not taken."""
        keys = list(rows)
        groups = self.by_segment(table, keys)
        parts = keybytes = values = b""
        for segment in segments:
            positions = groups[segment]
            parts += self.part(segment, len(positions))
            for position in positions:
                keybytes += struct.pack("<Q", keys[position])
                values += struct.pack(f"<{table.schema.dim}f", *rows[keys[position]])
        return shard_pb2.PushRequest(table=table.id, clock=clock, catalogue_version=self.catalogue_version,
                                     line=types_pb2.LINE_ARRIVAL, parts=parts, keys=keybytes, values=values)

    def push(self, table, clock, rows):
        """Pushes and waits for the committed marks of every part; raises on a refusal."""
        self.push_due(table, clock, rows, set(self.by_segment(table, list(rows))))

    def push_due(self, table, clock, rows, due):
        """As push, of the rows of the segments `due`, which loses each whose part is committed."""
        for shard in self.shards():
            mine = sorted(s for s in due if self.primary(s) == shard)
            if not mine:
                continue
            stream = self.stream("push", shard)
            stream.send(self.push_frame(table, clock, rows, mine))
            while not due.isdisjoint(mine):
                reply = stream.next()
                for segment, _, number in struct.iter_unpack("<IIQ", reply.committed):
                    if segment in due and self.number[segment] <= number:
                        due.remove(segment)
                        self.number[segment] += 1
                again = [r.segment for r in reply.refusals if r.reason == shard_pb2.Refusal.UNAVAILABLE]
                for refusal in reply.refusals:
                    if refusal.reason != shard_pb2.Refusal.UNAVAILABLE:
                        raise Refused(refusal)
                if again:
                    pause(reply.refusals[0])
                    stream.send(self.push_frame(table, clock, rows, again))

    def push_pull_frame(self, table, clock, rows, segments, **read):
        """As push_frame; the rows are to come back as `read` says: request, min_clock, reader_clock_plus_one."""
        push = self.push_frame(table, clock, rows, segments)
        return shard_pb2.PushPullRequest(
            table=push.table, clock=push.clock, catalogue_version=push.catalogue_version, line=push.line,
            parts=push.parts, keys=push.keys, values=push.values, want_reply=True, timeout_ms=10000, **read)

    def rows_of(self, stream):
        """The oldest rows that have come back on a PushPull stream."""
        while not stream.rows:
            stream.next()
        return stream.rows.pop(0)

    def push_pull(self, table, clock, rows):
        """Pushes, and returns the rows as they are then, by key, and the certificates."""
        values, certificates = {}, []
        groups = self.by_segment(table, list(rows))
        for shard in self.shards():
            mine = sorted(s for s in groups if self.primary(s) == shard)
            if not mine:
                continue
            stream = self.stream("push_pull", shard)
            while True:
                stream.send(self.push_pull_frame(table, clock, rows, mine, request=3))
                reply = self.rows_of(stream)
                if not reply.read_refusals or reply.read_refusals[0].reason != shard_pb2.Refusal.UNAVAILABLE:
                    break
                pause(reply.read_refusals[0])
            if reply.read_refusals:
                raise Refused(reply.read_refusals[0])
            for segment in mine:
                self.number[segment] += 1
            certificates += list(struct.iter_unpack("<IIQQQQQ", reply.certificates))
            order = [list(rows)[p] for s in mine for p in groups[s]]
            dim = table.schema.dim
            for i, key in enumerate(order):
                values[key] = struct.unpack_from(f"<{dim}f", reply.values, 4 * dim * i)
        return values, certificates

    def tick(self, clock, kind="push"):
        """Seals every segment at what was pushed, at its primary; returns those of them not spoken for."""
        unspoken = []
        for shard in self.shards():
            seals = b"".join(struct.pack("<IIIIQ", s, 1, 1, 0, n - 1) for s, n in enumerate(self.number)
                             if self.primary(s) == shard)
            stream = self.stream(kind, shard)
            request = shard_pb2.PushPullRequest if kind == "push_pull" else shard_pb2.PushRequest
            stream.send(request(tick=shard_pb2.Tick(clock=clock, seals=seals)))
            self.ticks_told += 1
            while True:
                reply = stream.next()
                acks = [ack for ack in reply.ticks if ack.clock == clock]
                if acks:
                    asked = [s for (s,) in struct.iter_unpack("<I", acks[0].unspoken)]
                    unspoken += [s for s in asked if self.primary(s) == shard]
                    break
        return unspoken

    def pull(self, table, keys, min_clock=0, timeout_ms=10000):
        """Values by key, and the certificates; raises on a refusal."""
        values, certificates = {}, []
        groups = self.by_segment(table, keys)
        for shard in self.shards():
            mine = sorted(s for s in groups if self.primary(s) == shard)
            if not mine:
                continue
            order = [keys[p] for s in mine for p in groups[s]]
            stream = self.stream("pull", shard)
            request = shard_pb2.PullRequest(
                request=7, table=table.id, catalogue_version=self.catalogue_version, min_clock=min_clock,
                timeout_ms=timeout_ms,
                parts=b"".join(self.part(s, len(groups[s]), number=self.number[s] - 1) for s in mine),
                keys=struct.pack(f"<{len(order)}Q", *order))
            stream.send(request)
            reply = stream.next()
            while reply.refusals and reply.refusals[0].reason == shard_pb2.Refusal.UNAVAILABLE:
                pause(reply.refusals[0])
                stream.send(request)
                reply = stream.next()
            if reply.refusals:
                raise Refused(reply.refusals[0])
            certificates += list(struct.iter_unpack("<IIQQQQQ", reply.certificates))
            dim = table.schema.dim
            for i, key in enumerate(order):
                values[key] = struct.unpack_from(f"<{dim}f", reply.values, 4 * dim * i)
        return values, certificates

    def read(self, table, keys, clock, staleness, **options):
        """Pulls as a worker at `clock` under SSP(staleness), checking each certificate; returns the values."""
        min_clock = max(0, clock - staleness)
        values, certificates = self.pull(table, keys, min_clock=min_clock, **options)
        for segment, served, _, _, _, certified, own in certificates:
            assert served == 1 and certified >= min_clock and own >= self.number[segment] - 1, certificates
        return values

    def finish(self):
        """The worker's last tick: seals every segment it pushed to."""
        seals = b"".join(struct.pack("<IIIIQ", s, 1, 1, 0, n - 1) for s, n in enumerate(self.number) if n > 1)
        self.api.FinishWorker(coordinator_pb2.FinishWorkerRequest(session=self.session, token=self.token, seals=seals,
                                                                  timeout_ms=10000), timeout=WAIT)

    def close(self):
        self.api.CloseSession(coordinator_pb2.CloseSessionRequest(
            session=self.session, token=self.token, reason="done"), timeout=WAIT)


class Refused(Exception):
    def __init__(self, refusal):
        super().__init__(refusal.message)
        self.refusal = refusal


class RoutedClient(StockClient):
    """Goes on when segments move: follows the map, sends again what was not committed, says its tick again."""

    stream_seconds = 5  # a shard that is no longer primary may owe an answer: then the map and the next stream tell
    clock = 0  # its last tick

    def shards(self):
        """Those that have something: one that has ended may be known for ever."""
        return sorted({segment.primary.shard for segment in self.map.segments})

    def follow(self, coordinator=None, version=0):
        """Takes the newest map, of that version at least; streams are opened anew."""
        if coordinator:
            self.api = coordinator_pb2_grpc.CoordinatorStub(grpc.insecure_channel(coordinator))
        self.streams = {}
        for self.map in self.api.WatchMap(coordinator_pb2.WatchMapRequest(), timeout=WAIT):
            if self.map.version >= version:
                return

    def until_routed(self, attempt):
        """What `attempt` returns once no segment is elsewhere and all that was ticked is known."""
        end = time.monotonic() + WAIT
        while True:
            try:
                return attempt()
            except Refused as refused:
                reason, version = refused.refusal.reason, refused.refusal.map_version
                if time.monotonic() > end or reason not in (shard_pb2.Refusal.MOVED, shard_pb2.Refusal.DEADLINE):
                    raise
            except grpc.RpcError:
                reason, version = None, 0
                if time.monotonic() > end:
                    raise
            self.follow(version=version)
            if reason == shard_pb2.Refusal.DEADLINE and self.clock:
                self.tick(self.clock)  # a primary that is new has not heard it

    def push(self, table, clock, rows):
        due = set(self.by_segment(table, list(rows)))
        self.until_routed(lambda: self.push_due(table, clock, rows, due))

    def pull(self, table, keys, min_clock=0, timeout_ms=1000):
        return self.until_routed(lambda: super(RoutedClient, self).pull(table, keys, min_clock, timeout_ms))

    def await_newer_map(self, seconds):
        """Takes a map that is newer than ours, if one comes so soon. False: none did."""
        try:
            for self.map in self.api.WatchMap(coordinator_pb2.WatchMapRequest(known_version=self.map.version),
                                              timeout=seconds):
                self.streams = {}
                return True
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
        return False

    def tick(self, clock, kind="push"):
        """Tells all that the newest map gives to each shard, until they have heard it (docs/wire.md §5)."""
        self.clock = clock
        pause, end = 0.02, time.monotonic() + WAIT
        while unspoken := self.until_routed(lambda: super(RoutedClient, self).tick(clock, kind)):
            # They were named: they are not what our map says. The same tick now would be answered the same.
            assert time.monotonic() < end, f"nobody took the tick for segments {unspoken}"
            if not self.await_newer_map(pause):
                pause = min(1, 2 * pause)
                self.streams = {}  # a new stream names all, as `anew` does
        return []
