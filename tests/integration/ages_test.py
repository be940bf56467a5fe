#!/usr/bin/env python3
"""Folders and stores that go back in time, two processes of one name, and shards that are removed."""
import json
import shutil
import subprocess
import unittest

import persistence_test as persistence
from persistence_test import BIN, WAIT, Cluster, until


class AgesTest(unittest.TestCase):
    client = persistence.PersistenceTest.client
    push_some = persistence.PersistenceTest.push_some
    check = persistence.PersistenceTest.check
    start_work = persistence.PersistenceTest.start_work
    work = persistence.PersistenceTest.work

    def log(self, cluster, name):
        return (cluster.folder / f"{name}.log").read_text()

    def swap(self, cluster, name, other):
        """The folder `name` becomes `other`; what it was is `name`.newest."""
        (cluster.folder / name).rename(cluster.folder / f"{name}.newest")
        shutil.copytree(cluster.folder / other, cluster.folder / name)

    def swap_back(self, cluster, name):
        shutil.rmtree(cluster.folder / name)
        (cluster.folder / f"{name}.newest").rename(cluster.folder / name)

    def paceline(self, cluster, *arguments):
        return subprocess.run([f"{BIN}/paceline", *arguments, "--coordinator", cluster.coordinator],
                              capture_output=True, text=True, timeout=WAIT)

    def test_an_older_folder_is_refused_and_the_newest_continues(self):
        cluster = Cluster(self, shards=1)
        client, table = self.start_work(cluster)
        expected = {}
        self.work(client, table, expected, range(2))
        cluster.await_written()
        cluster.kill("shard-0")
        shutil.copytree(cluster.folder / "shard-0", cluster.folder / "old")
        cluster.start_shard(0)
        cluster.await_well()
        client.follow(cluster.coordinator)
        self.work(client, table, expected, range(2, 4))
        cluster.await_written()
        cluster.kill("shard-0")
        self.swap(cluster, "shard-0", "old")
        cluster.start_shard(0)
        self.assertEqual(cluster.processes["shard-0"].wait(timeout=WAIT), 1)
        self.assertRegex(self.log(cluster, "shard-0"), "older copy.*bring the newest folder back")
        self.swap_back(cluster, "shard-0")
        cluster.start_shard(0)
        cluster.await_well()
        client.follow(cluster.coordinator)
        self.check(client, table, expected, 4)

    def test_a_refused_client_ends_no_other(self):
        cluster = Cluster(self, shards=2)
        client, table = self.start_work(cluster)
        expected = {}
        self.work(client, table, expected, range(2))
        cluster.await_written()
        cluster.kill("shard-0")
        shutil.copytree(cluster.folder / "shard-0", cluster.folder / "foreign")
        cluster.start_shard(0)
        cluster.await_well()
        before = dict(cluster.starts)
        for more, why in (([], "lives, and only one may"),
                          (["--data-dir", cluster.folder / "foreign"], "it has the data of shard-0")):
            cluster.start("second", f"{BIN}/paceline-shard", "--coordinator", cluster.coordinator, "--name", "shard-1",
                          *more)
            self.assertEqual(cluster.processes["second"].wait(timeout=WAIT), 1)
            self.assertIn(why, self.log(cluster, "second"))
        cluster.await_well()
        self.assertEqual(cluster.starts, before)
        client.follow(cluster.coordinator)
        self.check(client, table, expected, 2)

    def test_an_older_store_does_not_serve_until_the_newest_is_back(self):
        cluster = Cluster(self, shards=1)
        client, table = self.start_work(cluster)
        expected = {}
        self.work(client, table, expected, range(2))
        cluster.await_written()
        cluster.kill("shard-0", "coordinator")
        shutil.copytree(cluster.folder / "coordinator", cluster.folder / "old")
        cluster.start_all()
        client.follow(cluster.coordinator)
        self.work(client, table, expected, range(2, 4))
        cluster.await_written()
        cluster.kill("shard-0", "coordinator")
        self.swap(cluster, "coordinator", "old")
        cluster.start_coordinator()
        cluster.start_shard(0)
        until("the store is found to be older",
              lambda: "older than its cluster" in " ".join(cluster.status()["problems"]))
        self.assertIsNone(cluster.processes["shard-0"].poll(), "nobody ends for that")
        cluster.kill("shard-0", "coordinator")
        self.swap_back(cluster, "coordinator")
        cluster.start_all()
        client.follow(cluster.coordinator)
        self.check(client, table, expected, 4)

    def test_a_shard_is_removed_and_joins_as_a_new_one(self):
        cluster = Cluster(self, shards=1)
        client, table = self.start_work(cluster)
        expected = {}
        self.work(client, table, expected, range(1))
        stray = ("stray", f"{BIN}/paceline-shard", "--coordinator", cluster.coordinator, "--name", "stray",
                 "--data-dir", cluster.folder / "stray")

        def numbers():
            shards = json.loads(self.paceline(cluster, "shard", "list", "--json").stdout)
            return {shard["info"]["name"]: shard["info"].get("shard", 0) for shard in shards if shard.get("alive")}

        cluster.start(*stray)
        until("it has joined", lambda: numbers() == {"shard-0": 0, "stray": 1})
        removed = self.paceline(cluster, "shard", "remove", "stray")
        self.assertEqual(removed.returncode, 0, removed)
        self.assertIn("its folder is marked as emptied", removed.stdout)
        self.assertEqual(cluster.processes["stray"].wait(timeout=WAIT), 1)
        self.assertEqual(numbers(), {"shard-0": 0})
        refused = self.paceline(cluster, "shard", "remove", "shard-0")
        self.assertEqual(refused.returncode, 1, refused)
        self.assertIn("shard-0", refused.stderr)
        cluster.start(*stray)
        until("it has joined anew", lambda: numbers() == {"shard-0": 0, "stray": 2})
        client.follow(cluster.coordinator)
        self.check(client, table, expected, 1)
        cluster.kill("stray")


if __name__ == "__main__":
    unittest.main(verbosity=2)
