"""The client of paper_client.py for tests that say frames of their own making: it waits for each step, and lends its
session and its numbers."""
import queue
import struct
import time

import grpc
from paper_client import Client
from paper_wire import OPTIONS, PART, SEAL, CERTIFICATE, Failed, segment_of
from paceline.v1 import coordinator_pb2, coordinator_pb2_grpc, shard_pb2, shard_pb2_grpc, types_pb2

WAIT = 60  # seconds a step may take


def pause(refusal):
    """What an UNAVAILABLE refusal asks for before the next try (docs/wire.md §7)."""
    time.sleep(refusal.retry_after_ms / 1000)


class FrameStream:
    """One bidirectional stream: requests by send(), replies by next()."""

    def __init__(self, method, hello):
        self._requests = queue.Queue()
        self._replies = method(iter(self._requests.get, None), timeout=2 * WAIT)
        self.rows = []
        self.send(hello)
        first = self.next()
        self.welcome, self.refusals = first.welcome, list(first.refusals)  # a closed session's come at once

    def send(self, request):
        self._requests.put(request)

    def next(self):
        reply = next(self._replies)
        if getattr(reply, "read_refusals", ()) or getattr(reply, "certificates", b""):
            self.rows.append(reply)  # a PushPullReply with rows: may carry marks as well
        return reply

    def close(self):
        self._requests.put(None)
        return list(self._replies)


class Numbers:
    """The next number of each segment's arrival line. Set it for a part that a frame of the test's own has taken."""

    def __init__(self, client):
        self.client = client

    def __len__(self):
        return len(self.client.map.segments)

    def __getitem__(self, segment):
        with self.client.lock:
            return self.client.lines[segment, types_pb2.LINE_ARRIVAL].made + 1

    def __setitem__(self, segment, number):
        with self.client.lock:
            line = self.client.lines[segment, types_pb2.LINE_ARRIVAL]
            line.made = line.sent = line.committed = number - 1


class FrameClient(Client):
    def __init__(self, coordinator, job):
        super().__init__(coordinator, job)
        self.session, self.job, self.token = self.opened.session, self.opened.job, self.opened.secret
        self.api = coordinator_pb2_grpc.CoordinatorStub(grpc.insecure_channel(coordinator, OPTIONS))
        self.number = Numbers(self)
        self.frame_streams = {}

    # -- the steps of a client, each to its end --

    def open_table(self, name, **schema):
        return super().open_table(name, types_pb2.TableSchema(**schema))

    def push(self, table, clock, rows):
        """Returns once all is committed; fails if a part is refused."""
        assert clock == self.clock, (clock, self.clock)
        refused = len(self.errors)
        super().push(table, rows.items())
        self.flush(WAIT)
        if len(self.errors) > refused:
            raise Failed("INVALID", self.errors[-1].message)

    def tick(self, clock):
        """Returns once every primary knows."""
        assert clock == self.clock + 1, (clock, self.clock)
        super().tick()
        self.told(WAIT)

    def pull(self, table, keys, min_clock=0, timeout_ms=1000 * WAIT):
        """Values by key, and the certificates."""
        return super().pull(table, keys, min_clock, timeout_ms / 1000), self.certificates

    def read(self, table, keys, clock, staleness, **options):
        """As a worker at `clock` under SSP(staleness)."""
        return self.pull(table, keys, max(0, clock - staleness), **options)[0]

    def follow(self, coordinator=None):
        """Takes the newest map, maybe from a coordinator at a new address."""
        if coordinator:
            self.coordinators.move(coordinator)
            self.api = coordinator_pb2_grpc.CoordinatorStub(grpc.insecure_channel(coordinator, OPTIONS))
        newest = next(self.api.WatchMap(coordinator_pb2.WatchMapRequest(), timeout=WAIT))
        with self.lock:
            self.map = max(self.map, newest, key=lambda m: m.version)
            self.frame_streams = {}
            self.lock.notify_all()

    # -- frames --

    def hello(self, **changes):
        fields = dict(feature_level=2, job=self.job, session=self.session, token=self.token, client="frames")
        fields.update(changes)
        return shard_pb2.Hello(**fields)

    def stream(self, kind, shard, **hello):
        """The test's own stream of a kind to a shard; with changes to its Hello, another one each time."""
        if (kind, shard) in self.frame_streams and not hello:
            return self.frame_streams[kind, shard]
        address = next(s.address for s in self.map.shards if s.shard == shard)
        stub = shard_pb2_grpc.ShardStub(grpc.insecure_channel(address, OPTIONS))
        method, request = {"push": (stub.Push, shard_pb2.PushRequest), "pull": (stub.Pull, shard_pb2.PullRequest),
                           "push_pull": (stub.PushPull, shard_pb2.PushPullRequest)}[kind]
        stream = FrameStream(method, request(hello=self.hello(**hello)))
        if not hello:
            self.frame_streams[kind, shard] = stream
        return stream

    def primary(self, segment):
        return self.map.segments[segment].primary.shard

    def shards(self):
        return [s.shard for s in self.map.shards]

    def segment(self, table, key):
        return segment_of(table, self.map.ring_bits, key)

    def by_segment(self, table, keys):
        """{segment: the positions of its keys}"""
        groups = {}
        for position, key in enumerate(keys):
            groups.setdefault(self.segment(table, key), []).append(position)
        return groups

    def part(self, segment, count, number=None, epoch=None):
        number = self.number[segment] if number is None else number
        epoch = self.map.segments[segment].epoch if epoch is None else epoch
        return PART.pack(segment, count, epoch, number)

    def push_frame(self, table, clock, rows, segments):
        """The frame of the given segments' rows. rows: key → values. Numbers are those due; they are not taken."""
        keys = list(rows)
        groups = self.by_segment(table, keys)
        order = [keys[position] for segment in segments for position in groups[segment]]
        return shard_pb2.PushRequest(
            table=table.id, clock=clock, catalogue_version=self.catalogue, line=types_pb2.LINE_ARRIVAL,
            parts=b"".join(self.part(segment, len(groups[segment])) for segment in segments),
            keys=struct.pack(f"<{len(order)}Q", *order),
            values=b"".join(struct.pack(f"<{table.schema.dim}f", *rows[key]) for key in order))

    def push_pull_frame(self, table, clock, rows, segments, **read):
        """As push_frame; the rows are to come back as `read` says: request, min_clock, reader_clock_plus_one."""
        frame = shard_pb2.PushPullRequest(want_reply=True, timeout_ms=10000, **read)
        frame.MergeFromString(self.push_frame(table, clock, rows, segments).SerializeToString())
        return frame

    def rows_of(self, stream):
        """The oldest rows that have come back on a PushPull stream."""
        while not stream.rows:
            stream.next()
        return stream.rows.pop(0)

    def push_pull(self, table, clock, rows):
        """Pushes, and returns the rows as they are then, by key, and the certificates."""
        values, certificates = {}, []
        groups, dim = self.by_segment(table, list(rows)), table.schema.dim
        for shard in self.shards():
            mine = sorted(s for s in groups if self.primary(s) == shard)
            while mine:
                stream = self.stream("push_pull", shard)
                stream.send(self.push_pull_frame(table, clock, rows, mine, request=3))
                reply = self.rows_of(stream)
                if not reply.read_refusals:
                    break
                if reply.read_refusals[0].reason != shard_pb2.Refusal.UNAVAILABLE:
                    raise Failed("refused", reply.read_refusals[0].message)
                pause(reply.read_refusals[0])
            for segment in mine:
                self.number[segment] += 1
            certificates += list(CERTIFICATE.iter_unpack(reply.certificates)) if mine else []
            for i, key in enumerate(list(rows)[p] for s in mine for p in groups[s]):
                values[key] = struct.unpack_from(f"<{dim}f", reply.values, 4 * dim * i)
        return values, certificates

    def tick_by_hand(self, clock, kind):
        """The tick on the test's own streams of a kind; returns the segments that it did not speak for."""
        unspoken = []
        for shard in self.shards():
            seals = b"".join(SEAL.pack(s, 1, 1, 0, self.number[s] - 1) for s in range(len(self.number)) if self.primary(s) == shard)
            stream = self.stream(kind, shard)
            request = shard_pb2.PushPullRequest if kind == "push_pull" else shard_pb2.PushRequest
            stream.send(request(tick=shard_pb2.Tick(clock=clock, seals=seals)))
            acks = []
            while not acks:
                acks = [ack for ack in stream.next().ticks if ack.clock == clock]
            unspoken += [s for (s,) in struct.iter_unpack("<I", acks[0].unspoken) if self.primary(s) == shard]
        return unspoken
