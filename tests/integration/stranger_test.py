#!/usr/bin/env python3
"""A stranger on the network, with a stock client: it takes nothing away from those who were there before."""
import os
import queue
import subprocess
import sys
import unittest
import urllib.request

import grpc

sys.path.insert(0, os.environ["PACELINE_PYTHON"])
from paceline.v1 import (control_pb2, control_pb2_grpc, coordinator_pb2, replication_pb2,  # noqa: E402
                         replication_pb2_grpc, shard_pb2, types_pb2)
from persistence_test import ADD, Cluster, until  # noqa: E402
from paper_frames import FrameClient  # noqa: E402

BIN = os.environ["PACELINE_BIN"]
WAIT = 60  # seconds a step may take
SHARDS = 3
ROWS = {key * 7919: (1.0, float(key % 7)) for key in range(200)}


class Replicate:
    """A Replicate stream of somebody who says to be `sender`."""

    def __init__(self, address, cluster, sender, target):
        self.requests = queue.Queue()
        stub = replication_pb2_grpc.ReplicationStub(grpc.insecure_channel(address))
        self.replies = stub.Replicate(iter(self.requests.get, None), timeout=WAIT)
        self.requests.put(replication_pb2.ReplicateRequest(hello=replication_pb2.ReplicateHello(
            feature_level=2, cluster=cluster, target=target, **{"from": sender})))

    def send(self, **request):
        self.requests.put(replication_pb2.ReplicateRequest(**request))

    def close(self):
        self.requests.put(None)


def member(info):
    return types_pb2.Member(shard=info.shard, incarnation=info.incarnation)


class StrangerTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(self, SHARDS, replicas=1, acks="durable")
        self.cluster.start_all()
        self.victim = FrameClient(self.cluster.coordinator, "victim")
        self.addCleanup(self.victim.leave)
        self.table = self.victim.open_table("rows", kind=types_pb2.TABLE_KIND_SPARSE, dim=2, **ADD)
        self.start = self.victim.join()
        self.victim.push(self.table, self.start, ROWS)
        self.shards = list(self.victim.map.shards)

    def rows(self, client):
        return client.pull(self.table, list(ROWS))[0]

    def error(self, call):
        with self.assertRaises(grpc.RpcError) as error:
            call()
        return error.exception.code()

    def attack(self, address, shard):
        """Frames of a far epoch, as the primary of each segment would send them: an empty image, and beacons."""
        sender = member(self.shards[(shard.shard + 1) % SHARDS])
        stream = Replicate(address, self.victim.map.cluster, sender, member(shard))
        segments = range(len(self.victim.map.segments))
        image = [replication_pb2.ReplicateRequest.Segment(
            segment=s, epoch=10**6, transfer=10**9, image_complete=True, image=replication_pb2.SegmentImage(
                segment=s, ring_bits=self.victim.map.ring_bits, lsn=10**6, epoch=10**6)) for s in segments]
        beacons = [replication_pb2.Beacon(segment=s, epoch=10**6, number=1, lease_us=60_000_000) for s in segments]
        stream.send(beacons=beacons, segments=image)
        return stream

    def test_a_far_epoch_erases_nothing(self):
        for shard in self.shards:
            stream = self.attack(shard.peer_address, shard)
            # Of what the shard is primary of itself it knows better. Its answer says that the others were heard too.
            own = [s for s, config in enumerate(self.victim.map.segments) if config.primary.shard == shard.shard]
            stream.send(segments=[replication_pb2.ReplicateRequest.Segment(
                segment=s, epoch=self.victim.map.segments[s].epoch, transfer=10**9 + 1) for s in own])
            acks, beacons = [], []
            while len(acks) < len(own):
                reply = next(stream.replies)
                acks += reply.acks
                beacons += reply.beacons
            stream.close()
            self.assertEqual({ack.state for ack in acks}, {replication_pb2.ReplicateReply.FENCED})
            self.assertEqual({ack.transfer for ack in acks}, {10**9 + 1}, "an unnamed primary is not answered")
            self.assertEqual(beacons, [], "nor lent anything")
        self.assertEqual(self.rows(self.victim), ROWS)
        self.victim.push(self.table, self.start, ROWS)
        doubled = {key: tuple(2 * v for v in values) for key, values in ROWS.items()}
        self.assertEqual(self.rows(self.victim), doubled)
        self.cluster.kill(*(f"shard-{i}" for i in range(SHARDS)))
        for i in range(SHARDS):
            self.cluster.start_shard(i)
        self.cluster.await_well()
        self.victim.follow()
        self.assertEqual(self.rows(self.victim), doubled, "it is on the disks, too")

    def test_client_addresses_serve_no_peers(self):
        for shard in self.shards:
            stream = self.attack(shard.address, shard)
            self.assertEqual(self.error(lambda: next(stream.replies)), grpc.StatusCode.PERMISSION_DENIED)
            control = control_pb2_grpc.ShardControlStub(grpc.insecure_channel(shard.address))
            self.assertEqual(self.error(lambda: control.Install(control_pb2.InstallRequest(), timeout=WAIT)),
                             grpc.StatusCode.PERMISSION_DENIED)
            self.assertEqual(self.error(lambda: control.Fence(control_pb2.FenceRequest(), timeout=WAIT)),
                             grpc.StatusCode.PERMISSION_DENIED)
        self.assertEqual(self.rows(self.victim), ROWS)

    def test_a_session_cannot_be_used_without_its_secret(self):
        self.assertEqual(len(self.victim.token), 32)
        segment = next(iter(self.victim.by_segment(self.table, [7919])))
        frame = self.victim.push_frame(self.table, self.start, {7919: (1000.0, 1000.0)}, [segment])
        for token in ["", "0" * 32, self.victim.token[:-1]]:
            for kind in ["push", "pull", "push_pull"]:
                stream = self.victim.stream(kind, self.victim.primary(segment), token=token)
                self.assertEqual(stream.welcome, shard_pb2.Welcome(), "it is not greeted")
            stream = self.victim.stream("push", self.victim.primary(segment), token=token)
            stream.send(frame)
            self.assertEqual(stream.next().refusals[0].reason, shard_pb2.Refusal.MALFORMED)
        api, session = self.victim.api, self.victim.session
        for call, request in [(api.KeepAlive, coordinator_pb2.KeepAliveRequest),
                              (api.JoinJob, coordinator_pb2.JoinJobRequest),
                              (api.FinishWorker, coordinator_pb2.FinishWorkerRequest),
                              (api.CloseSession, coordinator_pb2.CloseSessionRequest),
                              (api.OpenTable, coordinator_pb2.OpenTableRequest),
                              (api.DropTable, coordinator_pb2.DropTableRequest),
                              (api.ChangeRule, coordinator_pb2.ChangeRuleRequest)]:
            self.assertEqual(self.error(lambda: call(request(session=session, token="0" * 32), timeout=WAIT)),
                             grpc.StatusCode.PERMISSION_DENIED, request)
        self.victim.push(self.table, self.start, {7919: (1.0, 1.0)})
        self.assertEqual(self.rows(self.victim)[7919], (2.0, 2.0), "the victim's part, once, and nobody else's")

    def test_the_secret_is_never_shown(self):
        pages = [subprocess.run([f"{BIN}/paceline", "status", *json, "--coordinator", self.cluster.coordinator],
                                capture_output=True, text=True, timeout=WAIT, check=True).stdout
                 for json in ([], ["--json"])]
        logs = "".join(p.read_text() for p in self.cluster.folder.glob("*.log"))
        addresses = [s["metrics_address"] for s in self.cluster.status()["shards"]]
        addresses.append(until("the coordinator's page", lambda: logs.split("metrics=")[1].split()[0]))
        pages += [urllib.request.urlopen(f"http://{a}/metrics", timeout=WAIT).read().decode() for a in addresses]
        for page in [logs, *pages]:
            self.assertTrue(page)
            self.assertNotIn(self.victim.token, page)


if __name__ == "__main__":
    unittest.main(verbosity=2)
