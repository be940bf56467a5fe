#!/usr/bin/env python3
"""Snapshots of jobs that train: taken, restored onto other clusters, exported, damaged."""
import json
import os
import re
import signal
import statistics
import struct
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

import numpy as np
from waiting import NOT_YET, until

BIN = os.environ["PACELINE_BIN"]
PACELINE = f"{BIN}/paceline"
WORKER = os.environ["SNAPSHOT_WORKER"]
WAIT = 120  # seconds for events that should come soon
UNTIL = 40  # the clock to which jobs train; finishing ends that clock too
KEYS = [k * 0x9e3779b97f4a7c15 % 2**64 for k in range(120)]


class Cluster:
    """A coordinator and shards, each a process of ours, with a directory of snapshots that others share."""

    def __init__(self, test, snapshots, shards, replicas=0, ring_bits=3, session_timeout="10s"):
        self.test = test
        self.folder = Path(test.enterContext(tempfile.TemporaryDirectory()))
        self.processes = {}
        self.keep = ["--snapshot-dir", str(snapshots)] if snapshots else []
        test.addCleanup(self.end)
        port = self.folder / "port"
        self.start("coordinator", "paceline-coordinator", "--data-dir", self.folder / "coordinator", "--shards",
                   str(shards), "--replicas", str(replicas), "--ring-bits", str(ring_bits), "--listen",
                   "127.0.0.1:0", "--port-file", port, "--session-timeout", session_timeout, *self.keep)
        test.until("the coordinator serves", lambda: port.exists() and port.read_text().strip())
        self.coordinator = port.read_text().strip()
        for i in range(shards):
            self.start_shard(f"shard-{i}")
        test.until("the cluster is up", self.well)

    def start_shard(self, name):
        self.start(name, "paceline-shard", "--coordinator", self.coordinator, "--name", name, "--threads", "2", *self.keep)

    def start(self, name, program, *arguments):
        log = self.test.enterContext(open(self.folder / f"{name}.log", "a"))
        self.processes[name] = subprocess.Popen([f"{BIN}/{program}", *map(str, arguments)], stdout=log, stderr=log)

    def well(self):
        status = json.loads(self.cli("status", "--json"))
        return int(status["map_version"]) > 0 and int(status["segments_under_replicated"]) == 0

    def end(self):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()

    def cli(self, *arguments, code=0):
        done = subprocess.run([PACELINE, *arguments, "--coordinator", self.coordinator], capture_output=True,
                              text=True, timeout=WAIT)
        self.test.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def create(self, *arguments):
        return json.loads(self.cli("snapshot", "create", *arguments, "--json"))

    def begin(self, job, until=UNTIL, pause_ms=0, model="bsp"):
        process = subprocess.Popen([WORKER, job, "2", str(until), str(pause_ms), model], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, "PACELINE_COORDINATOR": self.coordinator})
        self.test.addCleanup(end, process)
        return process

    def train(self, job, **how):
        """Where the job started, and its values in the end."""
        return self.test.result(self.begin(job, **how))


def end(process):
    process.kill()
    process.communicate()


def await_clock(process, clock):
    while int(re.fullmatch(r"clock (\d+)\n", process.stdout.readline())[1]) < clock:
        pass


class SnapshotsTest(unittest.TestCase):
    def setUp(self):
        self.snapshots = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def until(self, what, holds):
        return until(what, holds, not_yet=(AssertionError, *NOT_YET))  # the program may refuse at first

    def result(self, process):
        out, err = process.communicate(timeout=WAIT)
        self.assertEqual(process.returncode, 0, err)
        return json.loads(out.splitlines()[-1])

    def manifest(self, snapshot):
        return json.loads((self.snapshots / snapshot / "manifest.json").read_text())

    def same_values(self, one, other):
        for table in ("dense", "sparse", "still"):
            self.assertEqual(one[table], other[table], table)

    def test_a_bulk_synchronous_job_continues_bit_by_bit_on_any_cluster(self):
        whole = Cluster(self, None, 1).train("whole")
        self.assertEqual(whole["start"], 0)
        taken = {}
        for taken_on in (1, 2, 3, 5):
            first = Cluster(self, self.snapshots, taken_on)
            training = first.begin("ctr", pause_ms=200)
            await_clock(training, 5)
            taken[taken_on] = info = first.create("ctr")
            training.send_signal(signal.SIGUSR1)
            self.assertTrue(info["exact"])
            self.assertTrue(5 < int(info["clock"]) < UNTIL, info["clock"])
            self.same_values(self.result(training), whole)  # a snapshot disturbs nobody
            first.end()
        for restored_on in (1, 2, 3, 5):
            second = Cluster(self, self.snapshots, restored_on, ring_bits=4)
            for taken_on, info in taken.items():
                second.cli("snapshot", "restore", info["name"], "--job", f"again-{taken_on}")
            training = {taken_on: second.begin(f"again-{taken_on}") for taken_on in taken}
            for taken_on, info in taken.items():
                with self.subTest(taken_on=taken_on, restored_on=restored_on):
                    resumed = self.result(training[taken_on])
                    self.assertEqual(resumed["start"], int(info["clock"]))
                    self.same_values(resumed, whole)
            second.end()

    def test_the_loss_of_restored_rows_is_named_and_the_job_is_marked(self):
        first = Cluster(self, self.snapshots, 1)
        first.train("ctr", until=5)
        info = first.create("ctr")
        self.assertEqual(info["data_lost"], "")
        first.end()
        second = Cluster(self, self.snapshots, 2)
        second.cli("snapshot", "restore", info["name"], "--job", "again")
        second.processes["shard-0"].kill()  # before anybody has opened a session
        second.processes["shard-0"].wait()
        second.start_shard("shard-0")
        self.until("the loss is named", lambda: "acknowledged data of segments" in second.cli("status"))
        second.cli("recover", "--accept-loss", "shard-0")
        job = json.loads(second.cli("status", "--json"))["jobs"][0]
        self.assertIn("began empty", job["data_lost"])
        self.assertIn("LACKS DATA: since map version", second.cli("job", "list"))
        again = second.create("again")
        self.assertEqual(again["data_lost"], job["data_lost"])
        self.assertEqual(self.manifest(again["name"])["data_lost"], job["data_lost"])
        file = self.snapshots / "out.npz"
        done = subprocess.run([PACELINE, "snapshot", "export", again["name"], file, "--snapshot-dir", self.snapshots],
                              capture_output=True, text=True, timeout=WAIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("began empty", done.stderr)
        self.assertIn("began empty", zipfile.ZipFile(file).comment.decode())

    def test_a_job_is_set_back(self):
        cluster = Cluster(self, self.snapshots, 2, session_timeout="4s")
        before = cluster.train("ctr", until=10)
        info = cluster.create("ctr")  # without active workers
        self.assertEqual((int(info["clock"]), info["exact"]), (11, True))
        after = cluster.train("ctr", until=20)
        self.assertNotEqual(before["dense"], after["dense"])
        self.assertIn("--replace", cluster.cli("snapshot", "restore", info["name"], code=1))
        training = cluster.begin("ctr", until=10_000, pause_ms=10)
        await_clock(training, 22)
        self.assertIn("has an open session", cluster.cli("snapshot", "restore", info["name"], "--replace", code=1))
        training.kill()
        self.until("its sessions are evicted", lambda: "ctr" in cluster.cli("snapshot", "restore", info["name"],
                                                                            "--replace"))
        again = cluster.train("ctr", until=20)
        self.assertEqual(again["start"], 11)
        self.same_values(again, after)
        self.until("the old one is gone", lambda: [job["name"] for job in json.loads(
            cluster.cli("job", "list", "--json"))] == ["ctr"])

    def test_lists_deletes_and_refuses(self):
        cluster = Cluster(self, self.snapshots, 2)
        cluster.train("ctr", until=3)
        cluster.train("news", until=4)
        names = [cluster.create(job)["name"] for job in ("ctr", "ctr", "news")]
        listed = json.loads(cluster.cli("snapshot", "list", "--json"))
        self.assertEqual(sorted(s["name"] for s in listed["snapshots"]), sorted(names))
        self.assertRegex(cluster.cli("snapshot", "list", "news"), rf"{names[2]} of job 'news': clock 5, exact")
        cluster.cli("snapshot", "delete", names[0])
        self.assertFalse((self.snapshots / names[0]).exists())
        self.assertNotIn(names[0], cluster.cli("snapshot", "list"))
        for arguments, words in ((("delete", names[0]), "does not exist"), (("delete", "../x"), "is not a valid name"),
                                 (("restore", names[0]), "does not exist"), (("create", "nobody"), "does not exist"),
                                 (("restore", names[1]), "job 'ctr' exists")):
            self.assertIn(words, cluster.cli("snapshot", *arguments, code=1), arguments)
        nowhere = Cluster(self, None, 1)
        nowhere.train("ctr", until=2)
        for arguments in (("create", "ctr"), ("list",), ("delete", names[1]), ("restore", names[1])):
            self.assertIn("--snapshot-dir", nowhere.cli("snapshot", *arguments, code=1))

    def test_a_damaged_file_is_named_and_the_new_job_is_removed(self):
        cluster = Cluster(self, self.snapshots, 2)
        cluster.train("ctr", until=3)
        name = cluster.create("ctr")["name"]
        file = max(self.manifest(name)["files"], key=lambda f: int(f["rows"]))["name"]
        path = self.snapshots / name / file
        bytes_of = path.read_bytes()
        path.write_bytes(bytes_of[:-100] + bytes([bytes_of[-100] ^ 1]) + bytes_of[-99:])
        self.assertIn(f"{name}/{file}: a wrong checksum", cluster.cli("snapshot", "restore", name, "--job", "b", code=1))
        self.until("nothing is left of it", lambda: [job["name"] for job in json.loads(
            cluster.cli("job", "list", "--json"))] == ["ctr"])
        export = self.export(name, "x.npz", code=1)
        self.assertIn(f"{name}/{file}: a wrong checksum", export)
        path.unlink()
        self.assertIn(f"{name}/{file}", cluster.cli("snapshot", "restore", name, "--job", "b", code=1))
        path.write_bytes(bytes_of)
        cluster.cli("snapshot", "restore", name, "--job", "b")

    def test_a_shard_is_killed_while_a_snapshot_is_taken(self):
        whole = Cluster(self, None, 1).train("whole")
        cluster = Cluster(self, self.snapshots, 3, replicas=1)
        training = cluster.begin("ctr", pause_ms=200)
        await_clock(training, 3)
        creating = subprocess.Popen([PACELINE, "snapshot", "create", "ctr", "--json", "--coordinator",
                                     cluster.coordinator], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(end, creating)
        self.until("the first files are there", lambda: list(self.snapshots.glob("*/segment-*")))
        cluster.processes["shard-1"].kill()
        out, err = creating.communicate(timeout=WAIT)
        training.send_signal(signal.SIGUSR1)
        self.assertEqual(creating.returncode, 0, err)
        info = json.loads(out)
        self.same_values(self.result(training), whole)
        second = Cluster(self, self.snapshots, 2)
        second.cli("snapshot", "restore", info["name"])
        resumed = second.train("ctr")
        self.assertEqual(resumed["start"], int(info["clock"]))
        self.same_values(resumed, whole)

    def test_snapshots_of_stale_synchronous_jobs_state_their_content(self):
        cluster = Cluster(self, self.snapshots, 2)
        training = cluster.begin("ctr", until=2000, pause_ms=20, model="ssp")
        await_clock(training, 5)
        manifests = [self.manifest(cluster.create("ctr")["name"]) for _ in range(3)]
        exact = self.manifest(cluster.create("ctr", "--exact")["name"])
        self.assertTrue(exact["exact"])
        for file in exact["files"]:
            self.assertEqual((file["clock"], file["exact"], file["workers"]), (exact["clock"], True, []))
        for manifest in manifests:
            for file in manifest["files"]:
                self.assertEqual(file["clock"], manifest["clock"])
                # Of workers that may be in with later clocks it says at which they are.
                for worker in file["workers"]:
                    self.assertGreaterEqual(int(worker["clock"]), int(manifest["clock"]))
                self.assertEqual(len(file["workers"]), 0 if file["exact"] else 2)
        training.send_signal(signal.SIGUSR1)
        self.result(training)
        self.assertEqual(cluster.create("ctr", "--now")["exact"], True)
        self.assertLess(int(exact["clock"]), 2000)

    def test_a_killed_job_continues_from_its_last_snapshot(self):
        """Stale synchronous: it ends as well as runs do that were not interrupted."""
        cluster = Cluster(self, self.snapshots, 2)
        losses = [cluster.train(f"whole-{i}", until=160, model="fit")["loss"] for i in range(5)]
        training = cluster.begin("ctr", until=10_000, pause_ms=200, model="fit")
        await_clock(training, 10)
        cluster.cli("snapshot", "schedule", "ctr", "--every-clocks", "10", "--keep", "2")
        taken = lambda: json.loads(cluster.cli("snapshot", "list", "ctr", "--json"))["snapshots"]
        self.until("one is taken late enough", lambda: any(int(s["clock"]) >= 30 for s in taken()))
        training.kill()
        self.assertIn("every 10 clocks, the last 2 are kept", cluster.cli("snapshot", "list"))
        cluster.cli("snapshot", "schedule", "ctr", "--off")
        last = max(taken(), key=lambda s: int(s["clock"]))
        self.assertLess(int(last["clock"]), 160, "it is to go on from before the end")
        cluster.cli("snapshot", "restore", last["name"], "--job", "again")
        self.assertLess(cluster.train("again", until=0, model="fit")["loss"], 0.05, "no row is as at the beginning")
        resumed = cluster.train("again", until=160, model="fit")
        self.assertEqual(resumed["start"], int(last["clock"]))
        # Runs differ by who was faster, by 1 % of their loss (the standard deviation of 60); five clocks less make 12 %.
        self.assertLess(abs(resumed["loss"] / statistics.median(losses) - 1), 0.08, losses)
        self.assertLess(max(losses), 0.05, "they have learnt something: it begins at 5.8")

    def export(self, snapshot, name, *arguments, code=0):
        done = subprocess.run([PACELINE, "snapshot", "export", snapshot, str(self.snapshots.parent / name),
                               "--snapshot-dir", str(self.snapshots), *arguments], capture_output=True, text=True,
                              timeout=WAIT)
        self.assertEqual(done.returncode, code, done.stderr)
        self.addCleanup((self.snapshots.parent / name).unlink, missing_ok=True)
        return done.stderr if code else self.snapshots.parent / name

    def refuses_what_it_cannot_name_or_would_replace(self, name, path):
        for other in ("model.pt", "model", "npz"):
            self.assertIn(".npz", self.export(name, other, code=1))
            self.assertFalse((self.snapshots.parent / other).exists())
        before = path.read_bytes()
        path.write_bytes(b"somebody's")
        self.assertIn("--force", self.export(name, path.name, code=1))
        self.assertEqual(path.read_bytes(), b"somebody's")
        self.export(name, path.name, "--force")
        self.assertEqual(path.read_bytes(), before)
        self.assertEqual([p.name for p in path.parent.glob(f"{path.name}*")], [path.name], "nothing is left over")

    def test_other_programs_read_exports(self):
        cluster = Cluster(self, self.snapshots, 2)
        values = cluster.train("ctr", until=6)
        name = cluster.cli("snapshot", "create", "ctr").removesuffix("\n")
        self.assertRegex(name, r"^ctr-[0-9a-f-]+$", "nothing but the name")
        of = f"{os.getpid()}"
        arrays = dict(np.load(self.export(name, f"{of}.npz")))
        path = self.export(name, f"{of}.safetensors")
        data = path.read_bytes()
        length, = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + length])
        self.assertEqual(header.pop("__metadata__"), {"job": "ctr", "snapshot": name, "clock": "7"})
        types = {"F32": np.dtype("<f4"), "U64": np.dtype("<u8")}
        tensors = {}
        for tensor, entry in header.items():
            begin, end = entry["data_offsets"]
            tensors[tensor] = np.frombuffer(data[8 + length + begin:8 + length + end],
                                            types[entry["dtype"]]).reshape(entry["shape"])
        self.assertEqual(8 + length + max(entry["data_offsets"][1] for entry in header.values()), len(data))
        for read in (arrays, tensors):
            self.assertEqual(sorted(read), ["dense", "sparse.keys", "sparse.values", "still"])
            np.testing.assert_array_equal(read["dense"], np.float32(values["dense"]).reshape(500, 3))
            np.testing.assert_array_equal(read["still"], np.float32(values["still"]).reshape(5000, 1))
            self.assertEqual(read["sparse.values"].shape, (len(read["sparse.keys"]), 1))
            rows = dict(zip(read["sparse.keys"].tolist(), read["sparse.values"][:, 0].tolist()))
            self.assertEqual(rows, dict(zip(KEYS, np.float32(values["sparse"]).tolist())))
        slots = self.export(name, f"{of}-2.safetensors", "--slots").read_bytes()
        header = json.loads(slots[8:8 + struct.unpack_from("<Q", slots)[0]])
        self.assertEqual(header["dense.slots"]["shape"], [500, 2, 3])
        names = {tensor: words for tensor, words in header["__metadata__"].items() if tensor.endswith(".slots")}
        self.assertEqual(names, {"dense.slots": "n,step", "sparse.slots": "n,z"})
        only = dict(np.load(self.export(name, f"{of}-1.npz", "--table", "dense")))
        self.assertEqual(list(only), ["dense"])
        self.refuses_what_it_cannot_name_or_would_replace(name, path)
        self.imported_goes_on(cluster, name)
        self.assertIn("no table 'nothing'", self.export(name, f"{of}-2.npz", "--table", "nothing", code=1))

    def import_(self, path, *arguments, code=0):
        done = subprocess.run([PACELINE, "snapshot", "import", str(path), "--snapshot-dir", str(self.snapshots), "--json",
                               *arguments], capture_output=True, text=True, timeout=WAIT)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else json.loads(done.stdout)["name"]

    def imported_goes_on(self, cluster, name):
        """With its slots, an exported model goes on as the snapshot it is from, bit by bit."""
        cluster.cli("snapshot", "restore", name, "--job", "restored")
        whole = cluster.train("restored", until=20)
        schema = ("--schema", str(self.snapshots / name / "manifest.json"), "--clock", self.manifest(name)["clock"])
        for suffix in ("npz", "safetensors"):
            path = self.export(name, f"{os.getpid()}-model.{suffix}", "--slots")
            again = self.import_(path, "--job", f"again-{suffix}", *schema)
            cluster.cli("snapshot", "restore", again)
            resumed = cluster.train(f"again-{suffix}", until=20)
            self.assertEqual(resumed["start"], whole["start"])
            self.same_values(resumed, whole)

    def test_models_of_other_programs_become_jobs(self):
        cluster = Cluster(self, self.snapshots, 2)
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        random = np.random.default_rng(5)
        model = {"dense": random.standard_normal((500, 3)).astype("<f4"),
                 "still": random.standard_normal(5000).astype("<f4"),
                 "sparse.keys": np.array(KEYS, dtype="<u8"),
                 "sparse.values": random.standard_normal(len(KEYS)).astype("<f4")}
        np.savez(folder / "a.npz", **model)
        np.savez_compressed(folder / "b.npz", **model)
        header, data = {}, b""
        for tensor, array in model.items():
            header[tensor] = {"dtype": {"<f4": "F32", "<u8": "U64"}[array.dtype.str], "shape": array.shape,
                              "data_offsets": [len(data), len(data) + array.nbytes]}
            data += array.tobytes()
        text = json.dumps(header).encode()
        (folder / "c.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        cluster.train("ctr", until=2)
        schema = ("--schema", str(self.snapshots / cluster.create("ctr")["name"] / "manifest.json"), "--clock", "7")
        for file in ("a.npz", "b.npz", "c.safetensors"):
            cluster.cli("snapshot", "restore", self.import_(folder / file, "--job", file[0], *schema))
            values = self.result(cluster.begin(file[0], until=0))
            for table in ("dense", "still"):
                np.testing.assert_array_equal(np.float32(values[table]), model[table].reshape(-1))
            np.testing.assert_array_equal(np.float32(values["sparse"]), model["sparse.values"])
            self.assertEqual(cluster.train(file[0], until=9)["start"], 7)
        left = len(list(self.snapshots.iterdir()))
        (folder / "no name.npz").write_bytes((folder / "a.npz").read_bytes())
        self.assertIn("it is the file's name, choose one with --job", self.import_(folder / "no name.npz", code=1))
        for file in ("a.npz", "b.npz", "c.safetensors"):
            whole = (folder / file).read_bytes()
            bad = folder / f"bad-{file}"
            bad.write_bytes(whole[:-5])
            self.assertIn(f"bad-{file}: ", self.import_(bad, code=1))
            if file != "c.safetensors":  # which has no checksums
                bad.write_bytes(whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:])
                self.assertIn(f"bad-{file}: ", self.import_(bad, code=1))
        self.assertEqual(len(list(self.snapshots.iterdir())), left, "nothing is left of them")


if __name__ == "__main__":
    unittest.main(verbosity=2)
