"""What paper_client.py says and hears, from docs/wire.md and proto/ alone: where keys live, packed fields, coordinators,
streams. § in comments are those of docs/wire.md."""
import itertools
import os
import queue
import random
import struct
import sys
import threading
import time

import grpc

sys.path.insert(0, os.environ["PACELINE_PYTHON"])
from paceline.v1 import coordinator_pb2, coordinator_pb2_grpc, shard_pb2, shard_pb2_grpc, types_pb2  # noqa: E402

LEVEL = 2
PART, SEAL, MARK, CERTIFICATE = (struct.Struct(f"<{s}") for s in ("IIQQ", "IIIIQ", "IIQ", "IIQQQQQ"))  # §8
PART_BYTES = 1 << 18  # a part is made before it is known who will take it, so it stays well below any frame's limit
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.enable_retries", 0)]
M = 2**64 - 1


def mix64(x):
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & M
    x = (x ^ x >> 27) * 0x94d049bb133111eb & M
    return x ^ x >> 31


def segment_of(table, k, key):  # §2
    schema = table.schema
    if schema.kind == types_pb2.TABLE_KIND_SPARSE:
        return mix64(key + mix64(table.id) & M) >> (64 - k)
    block = min(max(schema.rows // (4 << k), -(-256 // schema.dim)), max(1, 16384 // schema.dim))
    return (mix64(table.id) + key // block) % 2**k


def line_of(table):
    return types_pb2.LINE_AGGREGATED if table.schema.aggregated else types_pb2.LINE_ARRIVAL


def pack_keys(table, keys):
    """The form, how many entries, and the entries; runs of a ranged table's keys are ranges."""
    if table.schema.kind == types_pb2.TABLE_KIND_SPARSE:
        return shard_pb2.KEY_FORM_KEYS, len(keys), struct.pack(f"<{len(keys)}Q", *keys)
    ranges = []
    for key in keys:
        if ranges and key == sum(ranges[-1]):
            ranges[-1][1] += 1
        else:
            ranges.append([key, 1])
    return shard_pb2.KEY_FORM_RANGES, len(ranges), b"".join(struct.pack("<QQ", *r) for r in ranges)


def pack_seals(numbers):
    """`numbers`: {(segment, line): number}. Runs of segments with the same number are one seal."""
    runs = []  # [segment, run, line, number]
    for (segment, line), number in sorted(numbers.items(), key=lambda n: (n[0][1], n[0][0])):
        if runs and runs[-1][2:] == [line, number] and segment == sum(runs[-1][:2]):
            runs[-1][1] += 1
        else:
            runs.append([segment, 1, line, number])
    return b"".join(SEAL.pack(segment, run, line, 0, number) for segment, run, line, number in runs)


class Failed(Exception):
    """`code` is the name of a status code or of a refusal's reason."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class Coordinators:
    """Asks the one that leads, and asks again where §1 says so."""

    def __init__(self, addresses):
        self.channels = {}
        self.move(addresses)

    def move(self, addresses):
        self.addresses = itertools.cycle(addresses.split(","))
        self.turn(None)

    def stub(self):
        if self.at not in self.channels:
            self.channels[self.at] = grpc.insecure_channel(self.at, OPTIONS)
        return coordinator_pb2_grpc.CoordinatorStub(self.channels[self.at])

    def turn(self, error):
        """Whom to ask next; whether a coordinator that leads has said this."""
        said = dict(error.trailing_metadata() or ()) if error else {}
        if said.get("paceline-standing") == "leads":
            return True
        self.at = said.get("paceline-leader") or next(self.addresses)
        return False

    def ask(self, method, request, within=60):
        end = time.monotonic() + within
        while True:
            try:
                return getattr(self.stub(), method)(request, timeout=max(0.1, end - time.monotonic()))
            except grpc.RpcError as error:
                again = not self.turn(error) or error.code().name in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
                if not again or time.monotonic() > end:
                    raise Failed(error.code().name, error.details()) from error
            time.sleep(0.05)

    def close(self):
        for channel in self.channels.values():
            channel.close()


class Part:
    def __init__(self, table, clock, form=shard_pb2.KEY_FORM_KEYS, count=0, keys=b"", values=b""):
        self.table, self.clock, self.form, self.count, self.keys, self.values = table, clock, form, count, keys, values
        self.size = PART.size + len(keys) + len(values)


class Line:
    """The parts of one segment and line."""

    def __init__(self):
        self.made = self.sealed = self.committed = 0  # of the life; of clocks that are ended; by the marks
        self.parts = {}  # by number, those that are not committed
        self.attach(None)

    def attach(self, stream, sent=0):
        """What follows `sent` goes over this stream, from its next frame on; answers to earlier ones say nothing."""
        self.stream, self.sent = stream, max(sent, self.committed)
        self.since, self.knew = (stream.frames if stream else 0), self.committed
        self.map_version = self.not_before = 0


class Stream:
    """One Push or Pull stream to one start of a shard."""

    def __init__(self, client, kind, member, info):
        self.kind, self.member, self.welcome, self.broken = kind, member, None, False
        self.frames = self.pushed = self.granted = 0  # the last two in bytes of frames with parts
        self.waiting = {}  # pulls: request → None, then its reply
        self.clock = self.tick = self.ticks = 0  # told last; its number; how many
        self.named = {}  # (segment, line) → (epoch, number)
        self.tick_named, self.tick_knew = set(), {}  # of the last tick: segments; committed marks known at that time
        self.again, self.pause, self.again_map = None, 0, 0  # when to tell it again, or at which newer map
        self.outbox = queue.SimpleQueue()
        self.request = shard_pb2.PushRequest if kind == "Push" else shard_pb2.PullRequest
        self.channel = grpc.insecure_channel(info.address, OPTIONS)
        self.outbox.put(self.request(hello=client.hello_to(member)))
        self.call = getattr(shard_pb2_grpc.ShardStub(self.channel), kind)(iter(self.outbox.get, None))

    def room(self):
        return self.welcome and self.pushed < self.granted

    def send(self, frame):
        self.frames += 1
        if self.kind == "Push" and frame.parts:
            self.pushed += frame.ByteSize()
        self.outbox.put(frame)
