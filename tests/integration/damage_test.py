#!/usr/bin/env python3
"""A file or folder of a stopped cluster is damaged: started again it has the same data, or a refusal names it.

As a test a handful of trials. By hand any number, each on a copy of what a cluster with `--acks durable` has left:

    PACELINE_BIN=… PACELINE_PYTHON=… tests/integration/damage_test.py --trials 200 --wait 11 [--seed 1]
"""
import argparse
import collections
import contextlib
import os
import random
import shutil
import signal
import struct
import sys
import time
import unittest

from persistence_test import ADD, WAIT, Cluster, until
from paceline.v1 import types_pb2
from paper_frames import FrameClient

SHARDS = 2
KEYS = [key * 7919 for key in range(300)]
SLOT = 16 << 10
OPTIONS = argparse.Namespace(trials=8, wait=0, seed=1)


class Scope(contextlib.ExitStack):
    """What a Cluster wants of a test: it ends with the `with`."""
    enterContext = contextlib.ExitStack.enter_context
    addCleanup = contextlib.ExitStack.callback


def marked(folder):
    """By the mark (docs/formats.md): name of a file → so many bytes of it are synced."""
    data = (folder / "SYNCED").read_bytes()
    newest = max((data[:SLOT], data[SLOT:]), key=lambda slot: struct.unpack_from("<Q", slot, 16)[0])
    files, at = {}, 16 + 21
    for _ in range(struct.unpack_from("<I", newest, 33)[0]):
        length = newest[at]
        files[newest[at + 1:at + 1 + length].decode()] = struct.unpack_from("<Q", newest, at + 1 + length)[0]
        at += 13 + length
    return files


def mark_is_complete(folder):
    files = marked(folder)
    return all(files.get(log.name) == log.stat().st_size for log in folder.glob("*.log"))


def kind(path):
    """Files of one kind are exchanged with each other."""
    if path.suffix in (".log", ".sst"):
        return path.suffix
    return path.name.split("-")[0]  # MANIFEST, OPTIONS, CURRENT, IDENTITY, SYNCED, …


class Base:
    """What a cluster has left that pushed, was stopped, pushed more, and was stopped again."""

    def __init__(self, scope, replicas, stop, wait):
        self.replicas, self.stop = replicas, stop
        self.expected = {key: (0.0, 0.0) for key in KEYS}
        cluster = Cluster(scope, shards=SHARDS, replicas=replicas, acks="durable")
        cluster.start_all()
        client = FrameClient(cluster.coordinator, "damage")
        scope.callback(client.leave)
        table = client.open_table("rows", kind=types_pb2.TABLE_KIND_SPARSE, dim=2, **ADD)
        client.pull(table, [0])
        client.join()
        self.work(client, table, range(3))
        cluster.await_well()
        self.end(cluster, "kill" if stop == "clean" else "clean", 0)
        self.old = cluster.folder / "old"
        self.copy(cluster.folder, self.old)
        cluster.start_all()
        client.follow(cluster.coordinator)
        self.work(client, table, range(3, 6))
        cluster.await_well()
        self.end(cluster, stop, wait)
        self.folder, self.starts = cluster.folder, dict(cluster.starts)

    def work(self, client, table, clocks):
        for clock in clocks:
            rows = {key: (float(clock + at % 5), float(at + 1)) for at, key in enumerate(KEYS)}
            client.push(table, clock, rows)
            client.tick(clock + 1)
            for key, row in rows.items():
                self.expected[key] = tuple(a + b for a, b in zip(self.expected[key], row))

    def end(self, cluster, stop, wait):
        """All processes. Those that are killed have said first how far they are synced."""
        time.sleep(wait)  # what the long form promises
        folders = [cluster.folder / name for name in cluster.processes]
        if stop == "clean":
            for name in sorted(cluster.processes, reverse=True):  # shards before the coordinator, one after the other
                cluster.processes[name].send_signal(signal.SIGTERM)
                cluster.processes[name].wait(timeout=WAIT)
        else:
            until("the marks are complete", lambda: all(mark_is_complete(folder) for folder in folders))
        cluster.kill(*cluster.processes)

    @staticmethod
    def copy(source, to):
        for folder in ["coordinator", *(f"shard-{i}" for i in range(SHARDS))]:
            shutil.copytree(source / folder, to / folder)


class Damage:
    """What is done to a folder; `says` tells it, and `names` are the files that a refusal may name."""

    def __init__(self, rng, base, folder):
        self.rng, self.base = rng, base
        folders = [folder / name for name in ("coordinator", *(f"shard-{i}" for i in range(SHARDS)))]
        files = [path for at in folders for path in sorted(at.iterdir())]
        kinds = sorted({kind(path) for path in files} - {"LOCK", "IN_USE"})
        while True:
            wanted = rng.choice([*kinds, "folder"])
            if wanted == "folder":
                self.path = rng.choice(folders)
                shards = [at for at in folders if at.name != "coordinator"]
                self.others = [at for at in shards if at != self.path] if self.path in shards else []
                hows = ["swap_folders", "age_folder"]
            else:
                self.path = rng.choice([path for path in files if kind(path) == wanted])
                self.others = [path for path in files if kind(path) == wanted and path != self.path]
                hows = ["flip", "cut", "empty", "delete", "swap", "age"]
            self.how = rng.choice(hows)
            self.names = {self.path.name}
            detail = getattr(self, self.how)()
            if detail is not None:  # it changes something
                self.says = f"{self.how} {self.path.relative_to(folder)} {detail}".strip()
                return

    def flip(self):
        data = bytearray(self.path.read_bytes())
        if not data:
            return None
        # In the mark only the beginning of each slot is written.
        most = 8 * (min(len(data), 120) if self.path.name == "SYNCED" else len(data))
        bit = self.rng.randrange(most)
        data[bit // 8] ^= 1 << bit % 8
        self.path.write_bytes(data)
        return f"bit {bit} of {8 * len(data)}"

    def cut(self):
        size = self.path.stat().st_size
        if not size:
            return None
        left = self.rng.choice([size - 1, self.rng.randrange(size)])
        os.truncate(self.path, left)
        return f"to {left} of {size}"

    def empty(self):
        size = self.path.stat().st_size
        os.truncate(self.path, 0)
        return f"of {size}" if size else None

    def delete(self):
        self.path.unlink()
        return ""

    def swap(self):
        if not self.others:
            return None
        other = self.rng.choice(self.others)
        mine, its = self.path.read_bytes(), other.read_bytes()
        if mine == its:
            return None
        self.path.write_bytes(its)
        other.write_bytes(mine)
        self.names.add(other.name)
        return f"with {other.parent.name}/{other.name}"

    def age(self):
        """As the file was when the cluster was stopped before; if it was not there, one of its kind."""
        folder = self.base.old / self.path.parent.name
        olds = [folder / self.path.name] if (folder / self.path.name).exists() else [
            path for path in sorted(folder.iterdir()) if kind(path) == kind(self.path)]
        if not olds:
            return None
        old = self.rng.choice(olds)
        if old.read_bytes() == self.path.read_bytes():
            return None
        shutil.copy(old, self.path)
        return f"to the earlier {old.name}"

    def swap_folders(self):
        if not self.others:
            return None
        other = self.rng.choice(self.others)
        aside = self.path.with_suffix(".aside")
        self.path.rename(aside)
        other.rename(self.path)
        aside.rename(other)
        self.names.add(other.name)
        return f"with {other.name}"

    def age_folder(self):
        """As it was when the cluster was stopped before."""
        shutil.rmtree(self.path)
        shutil.copytree(self.base.old / self.path.name, self.path)
        return ""


class Trial(Cluster):
    """A cluster on a copy of what another one left."""

    def __init__(self, scope, base):
        super().__init__(scope, shards=SHARDS, replicas=base.replicas, acks="durable")
        Base.copy(base.folder, self.folder)
        self.ended = dict(base.starts)

    def refused(self):
        """Who has ended; or the coordinator, which stays to say that its store is an older one."""
        if "nobody is served" in self.log_of("coordinator"):
            return ["coordinator"]
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def log_of(self, name):
        return (self.folder / f"{name}.log").read_text()

    def start_again(self):
        port = self.begin_coordinator()
        self.coordinator = until("the coordinator serves or refuses",
                                 lambda: self.refused() or (port.exists() and port.read_text().strip()))
        if self.refused():
            return
        for i in range(self.shards):
            self.start_shard(i)
        until("the cluster is well or somebody refuses", lambda: self.refused() or self.is_well())

    def outcome(self, damage, expected):
        """"same", "refused", or what is wrong."""
        try:
            self.start_again()
        except AssertionError as stuck:
            return f"WRONG: {stuck}: {self.status()['problems'][:3]}"
        if not self.refused():
            client = FrameClient(self.coordinator, "damage")
            self.test.callback(client.leave)
            table = client.open_table("rows", kind=types_pb2.TABLE_KIND_SPARSE, dim=2, **ADD)
            found = client.pull(table, list(expected))[0]
            wrong = sum(found[key] != row for key, row in expected.items())
            return "same" if not wrong else f"WRONG: {wrong} of {len(expected)} rows differ, and nobody says so"
        name = self.refused()[0]
        log = self.log_of(name)
        if self.processes[name].poll() not in (1, None) or not any(file in log for file in damage.names):
            return f"WRONG: {name} ended with {self.processes[name].returncode}: {log[-2000:]}"
        return "refused"


def run(trials, wait, seed, tell):
    """Outcomes by (how, kind of file, replicas, stop), and what went wrong."""
    rng = random.Random(seed)
    outcomes, wrong = collections.Counter(), []
    settings = [(replicas, stop) for stop in ("kill", "clean") for replicas in (0, 1)]
    for at, (replicas, stop) in enumerate(settings):
        with Scope() as scope:
            base = Base(scope, replicas, stop, wait)
            for trial in range(at, trials, len(settings)):
                with Scope() as inner:
                    cluster = Trial(inner, base)
                    damage = Damage(rng, base, cluster.folder)
                    found = cluster.outcome(damage, base.expected)
                line = f"trial {trial} replicas={replicas} stop={stop} {damage.says}: {found}"
                tell(line)
                outcomes[found.split(":")[0]] += 1
                if found.startswith("WRONG"):
                    wrong.append(line)
    return outcomes, wrong


class DamageTest(unittest.TestCase):
    def test_synced_data_survives_or_the_damaged_file_is_named(self):
        def tell(line):
            print(line, flush=True)
        outcomes, wrong = run(OPTIONS.trials, OPTIONS.wait, OPTIONS.seed, tell)
        print(dict(outcomes), flush=True)
        self.assertEqual(wrong, [])
        self.assertGreater(outcomes["refused"], 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=OPTIONS.trials)
    parser.add_argument("--wait", type=float, default=OPTIONS.wait,
                        help="seconds after the last push, before all are stopped")
    parser.add_argument("--seed", type=int, default=OPTIONS.seed)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
