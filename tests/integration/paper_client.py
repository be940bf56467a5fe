"""A client of a Paceline cluster from docs/wire.md and proto/ alone: stock grpcio, generated messages, paper_session.py
and paper_wire.py. § in comments are those of docs/wire.md."""
import collections
import struct
import time

from paper_session import Session
from paper_wire import CERTIFICATE, MARK, PART, PART_BYTES, Failed, Line, Part, line_of, pack_keys, pack_seals
from paper_wire import segment_of
from paceline.v1 import shard_pb2  # found by paper_wire


class Client(Session):
    """A session. `join` makes it a worker; without that it is a reader without a clock."""

    def __init__(self, coordinators, job, name="paper", nonce=None):
        self.lines = collections.defaultdict(Line)  # (segment, line)
        self.certified = {}  # segment → (min clock, own)
        self.worker = False
        self.start = self.requests = self.ticks = 0
        self.errors = []  # parts refused INVALID: their numbers were taken by empty ones
        self.certificates, self.read_refusal = [], None  # of the last pull
        super().__init__(coordinators, job, name, nonce)

    # -- what the program says --

    def open_table(self, name, schema=None):
        reply = self.ask("OpenTable", name=name, create=schema is not None, **({"schema": schema} if schema else {}))
        self.catalogue = max(self.catalogue, reply.catalogue_version)
        return reply.table

    def join(self, workers=1, within=60):
        reply = self.ask("JoinJob", within, workers=workers, timeout_ms=10000)
        with self.lock:
            self.clock = self.start = reply.start_clock
            self.rank, self.worker = reply.rank, True
        return self.start

    def push(self, table, rows):
        """`rows`: (key, values) pairs."""
        by_segment = collections.defaultdict(list)
        for key, values in rows:
            by_segment[segment_of(table, self.map.ring_bits, key)].append((key, values))
        most = max(1, PART_BYTES // (4 * table.schema.dim + 16))
        with self.lock:
            self.check()
            for segment, rows in by_segment.items():
                line = self.lines[segment, line_of(table)]
                for i in range(0, len(rows), most):
                    form, count, keys = pack_keys(table, [key for key, _ in rows[i:i + most]])
                    values = b"".join(struct.pack(f"<{len(v)}f", *v) for _, v in rows[i:i + most])
                    line.made += 1
                    line.parts[line.made] = Part(table.id, self.clock, form, count, keys, values)
            self.lock.notify_all()

    def tick(self):
        with self.lock:
            self.check()
            self.clock += 1
            for line in self.lines.values():
                line.sealed = line.made
            self.lock.notify_all()

    def flush(self, within=60):
        """Returns once everything that was pushed is committed."""
        self.wait(lambda: all(line.committed == line.made for line in self.lines.values()), within)

    def told(self, within=60):
        """Returns once the last tick is told to whoever is to hear it."""
        self.wait(lambda: all((s := self.streams.get(("Push", *m))) and s.clock == self.clock and s.tick_told
                              for m in self.primaries()), within)

    def pull(self, table, keys, min_clock=0, within=60):
        """{key: values}, as of `min_clock` or later and with all that this client has pushed to tables of line 1."""
        end, rows, todo = time.monotonic() + within, {}, collections.defaultdict(list)
        self.certificates, self.read_refusal = [], None
        for key in dict.fromkeys(keys):
            todo[segment_of(table, self.map.ring_bits, key)].append(key)
        while todo:
            with self.lock:
                self.check()
                if time.monotonic() > end:
                    raise self.late(within)
                asked = self.ask_rows(table, todo, min_clock, end)
                self.wait(lambda: all(s.broken or s.waiting[r] for s, r, *_ in asked), end + 5 - time.monotonic())
                pause = 0 if asked else 0.02
                for stream, request, pieces, knew in asked:
                    if reply := stream.waiting.pop(request):
                        pause = max(pause, self.take_rows(table, todo, pieces, knew, min_clock, reply, rows))
                if todo:
                    version = self.map.version
                    self.lock.wait_for(lambda: self.failure or self.map.version > version, pause)
        self.check()
        return rows

    def late(self, within):
        last = self.read_refusal
        return Failed(last.Reason.Name(last.reason), last.message) if last else Failed("DEADLINE", f"{within} s are over")

    def finish(self, within=60):
        """The worker's last tick."""
        with self.lock:
            self.worker = False
            seals = pack_seals({at: line.made for at, line in self.lines.items()})
        self.ask("FinishWorker", within, clock=self.clock, seals=seals, timeout_ms=10000)

    # -- parts (§3, §4) --

    def send(self, member, segments):
        """Whatever is due to one shard, which the map says is the primary of these segments."""
        ticked = self.worker and self.clock > self.start
        # What was sent on a stream that broke since is due again.
        due = any(line.committed < line.made for at, line in self.lines.items() if at[0] in segments)
        if (ticked or due or ("Push", *member) in self.streams) and (stream := self.stream_to("Push", member)):
            self.send_parts(stream, segments)
            if ticked:
                self.send_tick(stream, segments)

    def send_parts(self, stream, segments):
        now, due = time.monotonic(), []
        for at, line in self.lines.items():
            if at[0] in segments:
                if line.stream is not stream:
                    line.attach(stream)
                if line.sent < line.made and now >= line.not_before and self.map.version >= line.map_version:
                    due.append((*at, line))
        while due := [d for d in due if d[2].sent < d[2].made]:
            chosen, size, most = [], 256, stream.welcome.frame_bytes_max
            for segment, number, line in due:
                part = line.parts[line.sent + 1]
                head = (part.table, part.clock, number, part.form)
                if not chosen or head == chosen[0][0] and size + part.size <= most:
                    chosen.append((head, segment, line, part))
                    size += part.size
            if not stream.room():
                return
            (table, clock, number, form), parts = chosen[0][0], b""
            for _, segment, line, part in chosen:
                line.sent += 1
                parts += PART.pack(segment, part.count, self.map.segments[segment].epoch, line.sent)
            stream.send(shard_pb2.PushRequest(
                table=table, clock=clock, line=number, key_form=form, catalogue_version=self.catalogue, parts=parts,
                keys=b"".join(c[3].keys for c in chosen), values=b"".join(c[3].values for c in chosen)))

    def take_push(self, stream, reply):
        stream.granted = max(stream.granted, reply.granted)
        for segment, number, committed in MARK.iter_unpack(reply.committed):
            line = self.lines[segment, number]
            for taken in range(line.committed + 1, committed + 1):
                line.parts.pop(taken, None)
            line.committed = max(line.committed, committed)
            line.sent = max(line.sent, line.committed)
        for refusal in reply.refusals:
            self.take_refusal(stream, refusal)
        for ack in reply.ticks:
            self.take_ack(stream, ack)

    def fails_for(self, refusal):
        """Whether there is no going on after it."""
        if refusal.reason in (refusal.FENCED, refusal.DATA_LOSS, refusal.MALFORMED, refusal.UNIMPLEMENTED):
            self.fail(refusal.Reason.Name(refusal.reason), refusal.message)
            return True
        return False

    def take_refusal(self, stream, refusal):  # §7
        if self.fails_for(refusal):
            return
        if refusal.frame == 0:  # of the Hello
            return self.drop(stream)
        later = time.monotonic() + max(0.01, refusal.retry_after_ms / 1000)
        if refusal.number == 0:  # of a tick
            stream.again, stream.again_map = later, self.map.version
            return
        line = self.lines[refusal.segment, refusal.line]
        if line.stream is not stream or refusal.frame <= line.since:
            return  # what it refuses is sent again already
        if refusal.reason == refusal.INVALID:
            self.errors.append(refusal)
            line.parts[refusal.number] = Part(0, line.parts[refusal.number].clock)
            return line.attach(stream, refusal.number - 1)
        if 0 < refusal.expected <= line.knew:
            return self.fail("DATA_LOSS", f"segment {refusal.segment} asks for {refusal.expected}, which was committed")
        line.attach(stream, refusal.expected - 1)
        line.not_before = later
        if refusal.reason == refusal.MOVED:
            line.map_version = refusal.map_version

    # -- ticks (§5) --

    def send_tick(self, stream, segments):
        epochs = {segment: self.map.segments[segment].epoch for segment in segments}
        numbers = {(s, n): self.lines[s, n].sealed if (s, n) in self.lines else 0 for s in segments for n in (1, 2)}
        anew = any(segment not in epochs for segment, _ in stream.named)
        if stream.again is not None:
            anew |= time.monotonic() >= stream.again or self.map.version > stream.again_map
        named = {} if anew else stream.named
        changed = {s for (s, n), number in numbers.items() if named.get((s, n)) != (epochs[s], number)}
        news = {at: number for at, number in numbers.items() if at[0] in changed}
        if stream.clock == self.clock and not anew and not news or not stream.welcome:
            return
        stream.named = named | {at: (epochs[at[0]], number) for at, number in news.items()}
        stream.tick_named = changed
        stream.tick_knew = {at: self.lines[at].committed for at in numbers if at in self.lines}
        stream.clock, stream.tick, stream.tick_told, stream.again = self.clock, stream.tick + 1, False, None
        self.ticks += 1
        stream.send(shard_pb2.PushRequest(tick=shard_pb2.Tick(
            clock=self.clock, seals=pack_seals(news), anew=anew, number=stream.tick)))

    def take_ack(self, stream, ack):
        if ack.number != stream.tick:
            return
        for segment, number, here in MARK.iter_unpack(ack.here):
            if here < stream.tick_knew.get((segment, number), 0) and self.is_primary(stream, segment):
                self.fail("DATA_LOSS", f"segment {segment} has {here} parts of more that were committed")
        unspoken = {s for s, in struct.iter_unpack("<I", ack.unspoken) if self.is_primary(stream, s)}
        stream.tick_told = not unspoken
        stream.pause = min(1, max(0.02, 2 * stream.pause)) if unspoken & stream.tick_named else 0
        if stream.pause:
            stream.again, stream.again_map = time.monotonic() + stream.pause, self.map.version
        for at in [at for at in stream.named if at[0] in unspoken - stream.tick_named]:
            del stream.named[at]  # so the next tick, at once, names it

    # -- pulls (§6) --

    def ask_rows(self, table, todo, min_clock, end):
        """Asks each shard for what the map says it has: [(stream, request, pieces, what was known before)]."""
        asked = []
        for member, segments in self.primaries().items():
            left = [(s, list(todo[s])) for s in segments if todo.get(s)]
            stream = self.stream_to("Pull", member) if left else None
            while stream and left:
                room, pieces, rest = max(1, stream.welcome.frame_bytes_max // (4 * table.schema.dim + 64)), [], []
                for segment, keys in left:
                    pieces += [(segment, keys[:room])] if room else []
                    rest += [(segment, keys[room:])] if len(keys) > room else []
                    room -= min(room, len(keys))
                left = rest
                asked.append(self.ask_pieces(stream, table, pieces, min_clock, end))
        return asked

    def ask_pieces(self, stream, table, pieces, min_clock, end):
        own = {s: self.lines[s, 1].made if (s, 1) in self.lines else 0 for s, _ in pieces}
        knew = {s: (*self.certified.get(s, (0, 0)), self.lines[s, 1].committed) for s, _ in pieces}
        packed = [(segment, *pack_keys(table, keys)) for segment, keys in pieces]
        self.requests += 1
        stream.waiting[self.requests] = None
        stream.send(shard_pb2.PullRequest(
            request=self.requests, table=table.id, catalogue_version=self.catalogue, min_clock=min_clock,
            reader_clock_plus_one=self.clock + 1 if self.worker else 0, key_form=packed[0][1],
            timeout_ms=max(1, min(2000, int(1000 * (end - time.monotonic())))),
            parts=b"".join(PART.pack(segment, count, self.map.segments[segment].epoch,
                                     0 if table.schema.aggregated else own[segment])
                           for segment, _, count, _ in packed), keys=b"".join(p[3] for p in packed)))
        return stream, self.requests, pieces, knew

    def take_pull(self, stream, reply):
        if reply.request in stream.waiting:
            stream.waiting[reply.request] = reply
        elif any(not self.fails_for(refusal) for refusal in reply.refusals):  # of the Hello
            self.drop(stream)

    def take_rows(self, table, todo, pieces, knew, min_clock, reply, rows):
        """Moves what was served from `todo` to `rows`; how long to wait before asking for the rest."""
        refusals, pause, values = {r.segment: r for r in reply.refusals}, 0, memoryview(reply.values).cast("f")
        for i, (segment, keys) in enumerate(pieces):
            certificate = CERTIFICATE.unpack_from(reply.certificates, 48 * i) if reply.certificates else (segment, 0)
            if not certificate[1]:
                refusal = refusals[segment] if reply.certificates else reply.refusals[0]
                pause = max(pause, self.read_refused(refusal, knew[segment]))
                continue
            least, own = certificate[5:]
            if least < max(min_clock, knew[segment][0]) or own < max(knew[segment][1:]):
                self.fail("DATA_LOSS", f"segment {segment}: min clock {least}, own {own}, knew {knew[segment]}")
            self.certificates.append(certificate)
            self.certified[segment] = tuple(map(max, self.certified.get(segment, (0, 0)), (least, own)))
            for key in keys:
                rows[key], values = tuple(values[:table.schema.dim]), values[table.schema.dim:]
            todo[segment] = todo[segment][len(keys):] if todo[segment][:len(keys)] == keys else [
                key for key in todo[segment] if key not in rows]
            if not todo[segment]:
                del todo[segment]
        return pause

    def read_refused(self, refusal, knew):
        self.read_refusal = refusal
        if self.fails_for(refusal) or refusal.reason == refusal.INVALID:
            raise self.failure or Failed("INVALID", refusal.message)
        if refusal.reason == refusal.DEADLINE and 0 < refusal.expected <= knew[2]:
            self.fail("DATA_LOSS", refusal.message)
        return 1 if refusal.map_version > self.map.version else max(0.01, refusal.retry_after_ms / 1000)
