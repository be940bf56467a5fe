#!/usr/bin/env python3
"""Segments move by load: keys that are asked for by Zipf's law are spread over three shards, `paceline top` shows it, and a job that
counts meanwhile is exact. Without copies, and with one."""
import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from waiting import until

BIN = os.environ["PACELINE_BIN"]
WAIT = 180  # seconds for events that should come soon


class LoadTest(unittest.TestCase):
    def start(self, name, program, *arguments):
        log = self.enterContext(open(self.folder / f"{name}.log", "a"))
        process = subprocess.Popen([f"{BIN}/{program}", *map(str, arguments)], stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_cluster(self, replicas, *flags):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        port = self.folder / "port"
        self.start("coordinator", "paceline-coordinator", "--data-dir", self.folder / "store", "--shards", 3, "--replicas",
                   replicas, "--listen", "127.0.0.1:0", "--port-file", port, *flags)
        self.coordinator = until("the coordinator serves", lambda: port.exists() and port.read_text().strip())
        for i in range(3):
            self.start(f"shard-{i}", "paceline-shard", "--coordinator", self.coordinator, "--name", f"shard-{i}",
                       "--threads", 1, "--listen", "127.0.0.1:0")
        until("the cluster begins", lambda: int(self.top().get("map_version", 0)) > 0)

    def paceline(self, *arguments):
        return subprocess.run([f"{BIN}/paceline", *arguments, "--coordinator", self.coordinator], capture_output=True,
                              text=True, timeout=WAIT, check=True).stdout

    def top(self):
        return json.loads(self.paceline("top", "--once", "--json"))

    def peak(self):
        """Of the shards' loads, the largest in means of all; 0: no load is known of some shard."""
        loads = [shard.get("load") for shard in self.top()["shards"]]
        if not all(loads):
            return 0
        rows = [int(load["pushed_per_s"]) + int(load["read_per_s"]) for load in loads]
        return max(rows) * len(rows) / max(1, sum(rows))

    def hottest_key(self):
        """Its table and its number."""
        top = self.top()
        tables = {table["id"]: table["name"] for table in top["tables"]}
        keys = [key for shard in top["shards"] for one in shard["load"]["segments"] for key in one["keys"]]
        hottest = max(keys, key=lambda key: int(key["rows_per_s"]))
        return tables[hottest["table"]], int(hottest["key"])

    def moves_by_load(self, replicas):
        self.start_cluster(replicas, "--balance-load")
        # The first table: where its hot keys are is known, and they are not even.
        self.start("skew", "paceline-bench", "skew", "--seconds", 3600, "--coordinator", self.coordinator)
        until("the shards are uneven", lambda: self.peak() > 1.25)
        counting = self.start("count", "paceline-count", "--coordinator", self.coordinator, "--job", "count", "--rows",
                              20_000, "--clocks", 1_000_000, "--pause", 0.1)
        until("segments have moved by load", lambda: int(self.top()["load"]["moved"]) > 0)
        until("the shards are even", lambda: 0 < self.peak() < 1.25)
        top = self.top()
        # By the shards' own order: the hottest segment of a shard first; and its keys by table.
        for shard in top["shards"]:
            rows = [int(one["pushed_per_s"]) + int(one["read_per_s"]) for one in shard["load"]["segments"]]
            self.assertEqual(rows, sorted(rows, reverse=True))
        until("Zipf's first is the hottest key", lambda: self.hottest_key() == ("skew", 0))
        text = self.paceline("top", "--once")
        self.assertIn("segments were moved by load", text)
        self.assertIn("skew/0: ", text)
        self.assertIn("Load: ", self.paceline("status"))
        counting.send_signal(signal.SIGUSR1)
        self.assertEqual(counting.wait(WAIT), 0, (self.folder / "count.log").read_text())
        self.assertIn("ok, all 20000 rows hold", (self.folder / "count.log").read_text())

    def test_without_copies(self):
        self.moves_by_load(0)

    def test_with_one_copy(self):
        self.moves_by_load(1)

    def test_without_the_flag_nothing_moves_and_top_shows_the_load(self):
        self.start_cluster(0)
        self.start("skew", "paceline-bench", "skew", "--seconds", 3600, "--coordinator", self.coordinator)
        until("the load is known", lambda: self.peak() > 1)
        load = self.top()["load"]
        self.assertFalse(load["balances"])
        self.assertEqual(int(load["moved"]), 0)
        self.assertIn("segments do not move by load", self.paceline("top", "--once"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
