#!/usr/bin/env python3
"""What strangers can do to a shard and a coordinator: connections without end, streams without end, forged texts."""
import contextlib
import os
import re
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

import grpc
from google.protobuf import message_factory, symbol_database

sys.path.insert(0, os.environ["PACELINE_PYTHON"])
from paceline.v1 import control_pb2, coordinator_pb2  # noqa: E402
from waiting import until  # noqa: E402

BIN = os.environ["PACELINE_BIN"]
WAIT = 120  # seconds for events that should come soon
DESCRIPTORS = 128
MEMORY_MAX = float(os.environ["PACELINE_MEMORY_MAX"])  # bytes


def paceline(*arguments):
    """Exit code and what was said."""
    done = subprocess.run([f"{BIN}/paceline", *arguments], capture_output=True, text=True, timeout=WAIT, check=False)
    return done.returncode, done.stdout + done.stderr


def serves(address, service=""):
    return paceline("health", address, *(["--service", service] if service else []))[0] == 0


def metric(page, name):
    text = urllib.request.urlopen(f"http://{page}/metrics", timeout=WAIT).read().decode()
    return sum(float(value) for value in re.findall(rf"^{re.escape(name)} (\S+)$", text, re.M))


def connect(address):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=WAIT)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)


def begin(stream, path):
    """A call's headers, as plain as they can be."""
    text = lambda t: bytes([len(t)]) + t.encode()  # noqa: E731
    return frame(1, 4, stream, b"\x83\x86" + b"\x04" + text(path) + b"\x01" + text("a") +
                 b"\x0f\x10" + text("application/grpc") + b"\x00" + text("te") + text("trailers"))


class LimitsTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.coordinator, self.coordinator_page = self.start(
            "coordinator", "--data-dir", self.folder / "store", "--shards", "1", "--metrics-listen", "127.0.0.1:0")
        self.shard, self.shard_page = self.start("shard", "--coordinator", self.coordinator, "--name", "shard-0")
        self.peers = re.search(r"peer_address=(\S+)", self.log("shard"))[1]
        until("the cluster is well", lambda: "No problems" in self.status())

    def start(self, what, *arguments):
        port = self.folder / f"{what}.port"
        log = self.enterContext(open(self.folder / f"{what}.log", "w"))
        process = subprocess.Popen(
            [f"{BIN}/paceline-{what}", "--listen", "127.0.0.1:0", "--port-file", port, *arguments],
            stdout=log, stderr=log,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS // 2, DESCRIPTORS)))
        self.addCleanup(process.wait, timeout=WAIT)
        self.addCleanup(process.terminate)
        setattr(self, what + "_process", process)
        address = until(f"the {what} serves", lambda: port.exists() and port.read_text().strip())
        page = until("its page is named", lambda: re.search(r"metrics=(\S+)", self.log(what)))[1]
        return address, page

    def log(self, what):
        return (self.folder / f"{what}.log").read_text()

    def status(self):
        return paceline("status", "--coordinator", self.coordinator)[1]

    def check_descriptors(self, what, address, page):
        self.assertEqual(metric(page, "process_max_fds"), DESCRIPTORS, "it takes all that it may have")
        refused = f'paceline_{what}_connections_total{{result="refused"}}'
        status = grpc.insecure_channel(self.coordinator)  # connected before: these go on
        ask = status.unary_unary("/paceline.v1.Coordinator/Status",
                                 response_deserializer=coordinator_pb2.StatusReply.FromString)
        ask(b"", timeout=WAIT)
        idle = []
        with contextlib.ExitStack() as open_ones:
            while len(idle) < DESCRIPTORS and metric(page, refused) < 1:
                idle.append(open_ones.enter_context(connect(address)))
            until("connections are refused", lambda: metric(page, refused) >= 1)
            name = "shard-0" if what == "shard" else "this coordinator"
            until("the status says so", lambda: any(
                problem.startswith(name) and "refuses connections" in problem for problem in ask(b"", timeout=WAIT).problems))
            self.assertFalse(serves(address, "connections"))
            self.assertIn("connections are refused", self.log(what))
        until("it takes connections again", lambda: serves(address))
        until("it says so", lambda: serves(address, "connections"))
        until("nothing is wrong", lambda: "No problems" in self.status())
        self.assertIn("connections are taken again", self.log(what))

    def test_descriptors_of_a_shard_run_out_and_come_back(self):
        self.check_descriptors("shard", self.shard, self.shard_page)

    def test_descriptors_of_a_coordinator_run_out_and_come_back(self):
        self.check_descriptors("coordinator", self.coordinator, self.coordinator_page)

    def test_a_client_that_resets_streams_endlessly_is_cut(self):
        reset = frame(3, 0, 0, b"\0\0\0\x08")
        with connect(self.shard) as attacker:
            attacker.sendall(PREFACE)
            with self.assertRaises(OSError):
                for stream in range(1, 2_000_000, 2):
                    attacker.sendall(begin(stream, "/paceline.v1.Shard/Pull") +
                                     reset[:5] + struct.pack(">I", stream) + reset[9:])
        self.assertIn("it begins too many streams", self.log("shard"))
        until("it answers others", lambda: serves(self.shard))
        self.assertEqual(self.shard_process.poll(), None)
        self.assertLess(metric(self.shard_page, "process_resident_memory_bytes"), MEMORY_MAX)

    def test_streams_of_a_connection_are_bounded(self):
        """Whatever its client makes of what it is told (it does not even acknowledge the settings)."""
        with connect(self.shard) as attacker:
            attacker.sendall(PREFACE + b"".join(begin(stream, "/paceline.v1.Shard/Pull") for stream in range(1, 1601, 2)))
            until("they are open", lambda: metric(self.shard_page, 'paceline_shard_streams{kind="pull"}') == 512)
        until("they have ended", lambda: metric(self.shard_page, 'paceline_shard_streams{kind="pull"}') == 0)

    def test_every_text_of_every_call_is_checked(self):
        calls = 0
        for module, service, address in ((coordinator_pb2, "Coordinator", self.coordinator),
                                         (control_pb2, "ShardControl", self.peers)):
            channel = self.enterContext(grpc.insecure_channel(address))
            for method in module.DESCRIPTOR.services_by_name[service].methods:
                # WatchMap has no text; the other two are of level 1, and not served.
                if method.name in ("WatchMap", "ChangeSession", "ChangeJob"):
                    continue
                call = channel.unary_unary(f"/paceline.v1.{service}/{method.name}",
                                           request_serializer=lambda request: request.SerializeToString())
                for field in method.input_type.fields:
                    if field.type != field.TYPE_STRING:
                        continue
                    for forged in ("a\nshard-0: well", "\x1b[2J", "\u202e"):
                        request = message_factory.MessageFactory(
                            symbol_database.Default().pool).GetPrototype(method.input_type)(**{field.name: forged})
                        with self.subTest(f"{method.name}.{field.name}"), self.assertRaises(grpc.RpcError) as error:
                            call(request, timeout=WAIT)
                        self.assertEqual(error.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
                        self.assertIn(field.name, error.exception.details())
                        self.assertNotIn(forged, error.exception.details())
                        calls += 1
        self.assertGreater(calls, 60)
        for what in ("coordinator", "shard"):
            for line in self.log(what).splitlines():
                self.assertRegex(line, r"^\d{4}-\d\d-\d\dT[0-9:.]+Z [a-z]+ ")
        self.assertNotIn("\x1b", self.status())


if __name__ == "__main__":
    unittest.main()
