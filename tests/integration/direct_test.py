#!/usr/bin/env python3
"""Streams over TCP without gRPC: exact counts, whoever is killed or stopped, and gRPC where an end wants that.
With PACELINE_DIRECT_STREAMS=0 the same over gRPC alone."""
import os
import unittest

import carrier_case
from waiting import until

DIRECT = os.environ.get("PACELINE_DIRECT_STREAMS") != "0"


class DirectTest(carrier_case.KillsAndPauses, carrier_case.CarrierCase):
    def copies_are_made(self):
        return self.metric('paceline_shard_streams{kind="replicate"}') > 0

    def check_carried(self, result, direct=DIRECT):
        self.assertEqual(result["shared_memory"], 0)
        self.assertGreaterEqual(result["direct" if direct else "grpc"], 4)
        self.assertEqual(result["grpc" if direct else "direct"], 0)

    def test_counts_are_exact(self):
        self.start_cluster(2, 0)
        self.start_worker("worker", 2)
        (self.assertGreater if DIRECT else self.assertEqual)(self.metric("paceline_shard_direct_streams "), 0)
        result = self.result("worker")
        self.check_counts(result)
        self.check_carried(result)
        until("the streams are gone", lambda: self.metric("paceline_shard_direct_streams ") == 0)

    def test_copies_get_their_records(self):
        self.start_cluster(2, 1)
        until("copies are made", self.copies_are_made)
        (self.assertGreater if DIRECT else self.assertEqual)(self.metric("paceline_shard_direct_streams "), 0)
        self.start_worker("worker", 2)
        self.check_counts(self.result("worker"))
        self.assertGreater(self.metric('paceline_shard_replicate_records_total{direction="received"}'), 0)

    def test_shards_that_take_grpc_only_are_asked_over_it(self):
        self.start_cluster(2, 1, "--direct-streams", "0")
        self.start_worker("worker", 2)
        result = self.result("worker")
        self.check_counts(result)
        self.assertGreaterEqual(result["grpc"], 4)
        self.assertEqual(self.metric("paceline_shard_direct_streams_total "), 0)

    def test_a_client_may_want_grpc(self):
        self.start_cluster(2, 0)
        self.start_worker("worker", 2, environment={"PACELINE_DIRECT_STREAMS": "0"})
        result = self.result("worker")
        self.check_counts(result)
        self.check_carried(result, direct=False)


if __name__ == "__main__":
    unittest.main(verbosity=2)
