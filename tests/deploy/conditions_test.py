#!/usr/bin/env python3
"""What goes wrong is seen: each of thirteen conditions, injected into a real cluster that a real Prometheus scrapes, is on the first
screen (a number of the dashboard Overview that is not green) within 30 s, and fires its alert and no other. Several clusters are
watched side by side, each with another condition, and one is well: it shows nothing, and nothing is said of it.

The first screen is as Grafana shows it. The alerts are the chart's, with all their times a twentieth: 5 minutes are 15 s.
Ends with 77, skipped, without Prometheus; conditions whose tool is missing are named and left out.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import watched
from charttools import CHART, ROOT, WAIT, until
from watched import RULES

FASTER = 20
SEEN_WITHIN = 30  # seconds
HOLD = 45  # after the last alert has come: as long as 15 minutes of the chart's times
WINDOW = "4s"


def faster(rules):
    def shorter(match):
        return f"{match[1]}{int(match[2]) * {'m': 60, 'h': 3600}[match[3]] // FASTER}s"
    rules, changed = re.subn(r"(\[|for: )(\d+)([mh])\b", shorter, rules)
    assert changed > 30, changed
    return rules


def stats():
    """The first screen's numbers: title → query and steps, as (from, color)."""
    panels = json.loads((CHART / "dashboards/overview.json").read_text())["panels"]
    return {panel["title"]: (panel["targets"][0]["expr"], [(step["value"], step["color"]) for step in
                                                           panel["fieldConfig"]["defaults"]["thresholds"]["steps"]])
            for panel in panels if panel["type"] == "stat"}


def root():
    return os.geteuid() == 0


class Sick:
    """A cluster and what happens to it. Healthy until `begin`; then the number `panel` and the alert `alert` tell."""

    panel, alert, needs, options, rows = "", "", None, {}, 2000
    pause = 0.05  # of the worker, seconds
    signs = ("orange", "red")  # of which the number shows one; None: there is no number

    def __init__(self, test, stack, folder):
        self.test, self.stack = test, stack
        self.cluster = watched.Cluster(stack, folder, type(self).__name__, **self.prepared(Path(folder)))
        until(f"{self.name} is whole", self.cluster.whole)
        self.job()
        self.cluster.write_targets()

    @property
    def name(self):
        return self.cluster.name

    def prepared(self, _folder):
        return {"coordinator_flags": ("--ring-bits", "4"), **self.options}

    def job(self):
        self.worker = self.cluster.counter("count", "--rows", self.rows, "--clocks", 8_000_000, "--pause", self.pause)
        until(f"{self.name}: the job counts", lambda: self.min_clock() > 2)

    def min_clock(self):
        return min((int(job.get("min_clock", 0)) for job in self.cluster.status()["jobs"]), default=0)

    def trains(self):
        """Two workers, of which each waits for the other at its bound."""
        data = self.cluster.folder / "data-set"
        subprocess.run([sys.executable, ROOT / "examples/sparse_lr/make_data.py", data], check=True)
        workers = [self.cluster.trainer("train", index, data) for index in (0, 1)]
        until(f"{self.name}: the job trains", lambda: self.min_clock() > 5)
        return workers

    def begin(self):
        pass


class Well(Sick):
    pass


class DeadShard(Sick):
    panel, alert = "Shards silent", "PacelineShardDown"

    def begin(self):
        self.cluster.shards["shard-1"].kill()


class SlowWorker(Sick):
    panel, alert = "Workers behind", "PacelineSlowWorker"

    def job(self):
        self.workers = self.trains()

    def begin(self):
        """It gets a little of the time, in slices too short for it to come up to the other."""
        ended = threading.Event()

        def slow():
            while not ended.wait(0.005):
                self.workers[1].send_signal(signal.SIGSTOP)
                ended.wait(0.4)
                self.workers[1].send_signal(signal.SIGCONT)

        thread = threading.Thread(target=slow)
        thread.start()
        self.stack.callback(thread.join)
        self.stack.callback(ended.set)


class StuckJob(Sick):
    panel, alert = "Workers behind", "PacelineJobStuck"
    options = {"coordinator_flags": ("--ring-bits", "4", "--session-timeout", "10m")}

    def job(self):
        self.workers = self.trains()

    def begin(self):
        self.workers[1].send_signal(signal.SIGSTOP)


class SilentClient(Sick):
    panel, alert = "Clients evicted", "PacelineEvictions"
    options = {"coordinator_flags": ("--ring-bits", "4", "--session-timeout", "3s")}

    def begin(self):
        self.worker.kill()


class HotKey(Sick):
    panel, alert = "Keys too hot", "PacelineHotKey"
    options = {"shards": 2, "replicas": 0}
    rows = 10  # most of what is asked for must be the one key

    def begin(self):
        for index in range(4):
            self.cluster.spawn(f"hot-{index}", "paceline-count", "--coordinator", self.cluster.coordinator, "--job", "hot", "--rows", 1,
                               "--clocks", 16_000_000, "--workers", 4, "--index", index)


class FullDisk(Sick):
    panel, alert = "Disks in trouble", "PacelineDiskTrouble"
    needs = (root, "root, who may mount a small disk")
    rows, pause = 100_000, 0.02  # RocksDB takes room for its log ahead, which is to be used up first

    def prepared(self, folder):
        self.disk = folder / type(self).__name__ / "shard-1"
        self.disk.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "small-disk", self.disk], check=True)
        self.stack.callback(lambda: subprocess.run(["umount", "--lazy", self.disk], check=True))
        return super().prepared(folder)

    def begin(self):
        with contextlib.suppress(OSError), open(self.disk / "others-data", "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))


class MemoryRefused(Sick):
    panel, alert = "Memory taken", "PacelineOverBudget"
    options = {"shard_flags": ("--memory-budget", "4MiB")}

    def begin(self):
        self.cluster.counter("greedy", "--rows", 3_000_000, "--clocks", 1, "--timeout", 600)


class RowsLost(Sick):
    panel, alert = "Rows lost", "PacelineDataLost"
    options = {"replicas": 0, "disks": False}

    def job(self):
        """One that has ended: its workers would be told of the loss."""
        worker = self.cluster.counter("count", "--rows", 2000, "--clocks", 5)
        self.test.assertEqual(worker.wait(WAIT), 0)

    def begin(self):
        for shard in self.cluster.shards.values():
            shard.kill()
            shard.wait()
        for name in list(self.cluster.shards):
            self.cluster.shards[name] = self.cluster.shard(name)
        self.cluster.write_targets()


class MissingCopies(Sick):
    """More copies are wanted than there are shards for."""

    panel, alert = "Copies missing", "PacelineUnderReplicated"

    def prepared(self, folder):
        self.address = f"127.0.0.1:{watched.free_port()}"
        return super().prepared(folder) | {"coordinator_flags": ("--ring-bits", "4", "--listen", self.address)}

    def begin(self):
        self.cluster.leader.terminate()
        self.cluster.leader.wait()
        self.cluster.start("coordinator", "paceline-coordinator", "--listen", self.address, "--shards", "3", "--replicas", "3",
                           "--data-dir", self.cluster.folder / "data", "--ring-bits", "4", same_page=True)


class CutCoordinator(Sick):
    panel, alert = "Problems", "PacelineCoordinatorDown"
    signs = (None,)

    def begin(self):
        self.cluster.leader.send_signal(signal.SIGSTOP)


class StoreAway(Sick):
    panel, alert = "Problems", "PacelineNoLeader"
    signs = ("red", None)
    needs = (lambda: shutil.which("etcd"), "etcd; Debian's package etcd-server has it")

    def prepared(self, folder):
        client, peer = (f"http://127.0.0.1:{watched.free_port()}" for _ in range(2))
        with open(folder / "etcd.log", "w") as log:
            self.etcd = subprocess.Popen(["etcd", "--name=test", f"--data-dir={folder}/etcd", f"--listen-client-urls={client}",
                                          f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
                                          f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=test={peer}"],
                                         stdout=log, stderr=log)
        self.stack.callback(self.etcd.wait)
        self.stack.callback(self.etcd.kill)
        store = "etcd://" + client.removeprefix("http://")
        return {"coordinator_flags": ("--ring-bits", "4", "--store", store, "--leader-lease", "2s")}

    def begin(self):
        self.etcd.kill()


class SnapshotsFail(Sick):
    """Their directory is away."""

    panel, alert = "Snapshots failed", "PacelineSnapshotFailing"

    def job(self):
        super().job()
        self.cluster.paceline("snapshot", "schedule", "count", "--every", "2s", "--keep", 2)
        until("a snapshot", lambda: len(json.loads(self.cluster.paceline("snapshot", "list", "--json"))["snapshots"]) > 1)

    def begin(self):
        snapshots = self.cluster.folder / "snapshots"
        snapshots.rename(self.cluster.folder / "snapshots-away")
        snapshots.write_text("no directory\n")


class OldSnapshot(Sick):
    """One that is wanted more often than the job's clocks allow."""

    panel, alert = "Oldest snapshot", "PacelineSnapshotOld"

    def begin(self):
        self.cluster.counter("slow", "--rows", 100, "--clocks", 1000, "--pause", 8)
        until("the job is there", lambda: "slow" in [job["name"] for job in self.cluster.status()["jobs"]])
        self.cluster.paceline("snapshot", "schedule", "slow", "--every", "2s")


class ConditionsTest(unittest.TestCase):
    def color(self, cluster, title):
        """As the number is shown; None: there is none, and Grafana shows the panel's word instead."""
        expr, steps = stats()[title]
        series = self.prometheus.now(watched.plain(expr, cluster, WINDOW))
        if not series:
            return None
        value = float(series[0]["value"][1])
        return [color for least, color in steps if least is None or value >= least][-1]

    def is_green(self, cluster):
        """Of the alerts that fire no number is judged where some are true of the machine."""
        titles = set(stats()) - ({"Alerts firing"} if self.of_the_machine else set())
        return all(self.color(cluster, title) in ("green", None) for title in titles)

    def firing(self, since):
        """All that fired since then, as (cluster, alert), but for what is true of the machine without any condition."""
        found = self.prometheus.get("query_range", query='ALERTS{alertstate="firing"}', start=since, end=time.time(), step="1")
        firing = {(one["metric"]["paceline_cluster"], one["metric"]["alertname"]) for one in found["result"]}
        return {(cluster, alert) for cluster, alert in firing if alert not in self.of_the_machine}

    def true_of(self, folder):
        """The alerts that any cluster here may give: where this machine's disk is filling, its shards are right to say so."""
        disk = shutil.disk_usage(folder)
        if disk.free > 0.15 * disk.total:
            return set()
        print(f"left out: PacelineDiskFilling, as {disk.free / disk.total:.0%} of this machine's disk are free")
        return {"PacelineDiskFilling"}

    def inject(self, kinds):
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            self.of_the_machine = self.true_of(folder)
            rules = Path(folder) / "rules.yaml"
            rules.write_text(faster(RULES.read_text()))
            self.prometheus = watched.Prometheus(stack, folder, rules, "1s")
            sick = []
            for kind in kinds:
                if kind.needs and not kind.needs[0]():
                    print(f"left out: {kind.__name__}, for want of {kind.needs[1]}")
                    continue
                sick.append(kind(self, stack, folder))
            well = Well(self, stack, folder)
            for one in [*sick, well]:
                until(f"the first screen of {one.name} is green, with its series",
                      lambda one=one: self.color(one.name, "Problems") == "green" and self.is_green(one.name))
            began = time.time()
            self.assertEqual(self.firing(began - 2), set())
            for one in sick:
                at = time.monotonic()
                one.begin()
                shown = "green"
                while shown not in one.signs:
                    self.assertLess(time.monotonic() - at, SEEN_WITHIN, f"{one.name}: '{one.panel}' shows nothing")
                    time.sleep(0.1)
                    shown = self.color(one.name, one.panel)
                print(f"{one.name}: '{one.panel}' is {shown or 'without a value'} after {time.monotonic() - at:.1f} s")
            wanted = {(one.name, one.alert) for one in sick}
            until(f"alerts: {wanted}", lambda: self.firing(began) >= wanted)
            # Nothing more comes of it for a while.
            time.sleep(HOLD)
            self.assertEqual(self.firing(began), wanted)
            self.assertTrue(self.is_green(well.name), {title: self.color(well.name, title) for title in stats()})

    def test_of_shards(self):
        self.inject([DeadShard, FullDisk, MemoryRefused, RowsLost])

    def test_of_workers(self):
        self.inject([SlowWorker, StuckJob, SilentClient, HotKey])

    def test_of_the_coordinator(self):
        self.inject([MissingCopies, CutCoordinator, StoreAway, SnapshotsFail, OldSnapshot])


if __name__ == "__main__":
    if shutil.which("prometheus") is None:
        print("skipped: no `prometheus`; Debian's package of that name has it")
        sys.exit(77)
    unittest.main(verbosity=2)
