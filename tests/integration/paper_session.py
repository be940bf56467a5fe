"""A session of a Paceline cluster, with its streams and the threads that look after it; see paper_client.py.

One lock guards everything. The caller's thread makes parts and ticks; a pump sends them, again and elsewhere where that
must be; one thread a stream takes the answers.
"""
import collections
import random
import threading
import time

import grpc
from paper_wire import LEVEL, Coordinators, Failed, Stream
from paceline.v1 import coordinator_pb2, shard_pb2, types_pb2  # found by paper_wire


class Session:
    def __init__(self, coordinators, job, name="paper", nonce=None):
        self.coordinators, self.name = Coordinators(coordinators), name
        self.lock = threading.Condition(threading.RLock())
        self.streams, self.not_before = {}, {}  # (kind, shard, incarnation) → stream; → when to try again
        self.failure, self.ended, self.clock = None, False, 0
        self.opened = self.coordinators.ask("OpenSession", coordinator_pb2.OpenSessionRequest(
            feature_level=LEVEL, job=job, client=name, nonce=nonce or random.SystemRandom().randrange(1, 2**64)))
        self.map, self.catalogue = self.opened.map, self.opened.catalogue.version
        for run in (self.pump, self.watch, self.keep_alive):
            threading.Thread(target=run, daemon=True).start()

    def ask(self, method, within=60, **fields):
        request = getattr(coordinator_pb2, f"{method}Request")(session=self.opened.session, token=self.opened.secret)
        for name, value in fields.items():
            getattr(request, name).CopyFrom(value) if hasattr(value, "CopyFrom") else setattr(request, name, value)
        return self.coordinators.ask(method, request, within)

    def close(self, reason="done"):
        if not self.ended:
            self.ask("CloseSession", reason=reason)
            self.leave()

    def leave(self):
        """Ends threads and streams. Says nothing: the session ends when it has been silent for long enough."""
        with self.lock:
            self.ended = True
            self.lock.notify_all()
            streams = list(self.streams.values())
        for stream in streams:
            stream.outbox.put(None)
            stream.call.cancel()
        self.coordinators.close()

    # -- waiting --

    def check(self):
        if self.failure:
            raise self.failure

    def wait(self, holds, within):
        with self.lock:
            if not self.lock.wait_for(lambda: self.failure or holds(), max(0, within)):
                raise Failed("DEADLINE", f"not within {within:.0f} s")
            self.check()

    def fail(self, code, message):
        with self.lock:
            self.failure = self.failure or Failed(code, message)
            self.lock.notify_all()

    # -- who is who --

    def hello_to(self, member):
        return shard_pb2.Hello(feature_level=LEVEL, job=self.opened.job, session=self.opened.session,
                               token=self.opened.secret, client=self.name, cluster=self.map.cluster,
                               target=types_pb2.Member(shard=member[0], incarnation=member[1]))

    def primaries(self):
        """{(shard, incarnation): its segments}. What an earlier start had, the newest one is asked for."""
        newest, found = {s.shard: s.incarnation for s in self.map.shards}, collections.defaultdict(list)
        for segment, config in enumerate(self.map.segments):
            found[config.primary.shard, newest.get(config.primary.shard, 0)].append(segment)
        return found

    def is_primary(self, stream, segment):
        return self.map.segments[segment].primary.shard == stream.member[0]

    def stream_to(self, kind, member):
        """The stream, if it is welcome by now."""
        at = (kind, *member)
        stream = self.streams.get(at)
        if not stream and time.monotonic() >= self.not_before.get(at, 0):
            info = next((s for s in self.map.shards if (s.shard, s.incarnation) == member), None)
            if info:
                stream = self.streams[at] = Stream(self, kind, member, info)
                threading.Thread(target=self.hear, args=(stream,), daemon=True).start()
        return stream if stream and stream.welcome else None

    # -- threads --

    def watch(self):
        while not self.ended:
            try:
                request = coordinator_pb2.WatchMapRequest(known_version=self.map.version)
                for newer in self.coordinators.stub().WatchMap(request):
                    with self.lock:
                        self.map = max(self.map, newer, key=lambda m: m.version)
                        self.lock.notify_all()
            except (grpc.RpcError, ValueError) as error:
                if not self.ended and isinstance(error, grpc.RpcError):
                    self.coordinators.turn(error)
            time.sleep(0.05)

    def keep_alive(self):
        while not self.ended and not self.failure:
            try:
                self.ask("KeepAlive", 5, clock=self.clock)
            except Failed as failed:
                if failed.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):  # else it goes on asking
                    self.fail(failed.code, str(failed))
            except ValueError:  # closed
                return
            with self.lock:
                self.lock.wait_for(lambda: self.ended, self.opened.keep_alive_ms / 1000)

    def pump(self):
        with self.lock:
            while not self.ended and not self.failure:
                for member, segments in self.primaries().items():
                    self.send(member, segments)
                self.lock.wait(0.02)

    def hear(self, stream):
        why = "it ended"
        try:
            for reply in stream.call:
                with self.lock:
                    if reply.HasField("welcome"):
                        self.welcome(stream, reply.welcome)
                    (self.take_push if stream.kind == "Push" else self.take_pull)(stream, reply)
                    self.lock.notify_all()
        except grpc.RpcError as error:
            why = f"{error.code().name}: {error.details()}"
        with self.lock:
            stream.broken = why
            self.drop(stream)
            self.lock.notify_all()
        stream.outbox.put(None)
        stream.channel.close()

    def drop(self, stream):
        """Goes on without it, on another one, a little later."""
        at = (stream.kind, *stream.member)
        if self.streams.get(at) is stream:
            del self.streams[at]
            self.not_before[at] = time.monotonic() + 0.05
        stream.call.cancel()

    def welcome(self, stream, welcome):
        stream.welcome = welcome
        if (welcome.shard, welcome.incarnation) != stream.member or welcome.cluster not in (0, self.map.cluster):
            self.drop(stream)
