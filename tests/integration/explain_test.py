#!/usr/bin/env python3
"""`paceline explain` names what costs a job its time: a slow worker, a slow link, a shard with too much work, a hot key, a
bound that is too tight. Each is put into a cluster of real processes; and workers' accounts add up to the time that passed."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from waiting import until

BIN = os.environ["PACELINE_BIN"]
WORKER = os.environ["EXPLAIN_WORKER"]
WAIT = 60  # seconds for events that should come soon
WORKERS = 3


class SlowLink:
    """Passes on what comes to its own address, each piece after a while."""

    def __init__(self, test, to_file, delay):
        self.to_file, self.delay = to_file, delay
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        test.addCleanup(self.listener.close)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                host, port = self.to_file.read_text().strip().rsplit(":", 1)
                server = socket.create_connection((host, int(port)))
                for one in client, server:
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.pump, args=(client, server), daemon=True).start()
                threading.Thread(target=self.pump, args=(server, client), daemon=True).start()

    def pump(self, source, sink):
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                time.sleep(self.delay)  # the link is slow: this is the fault, nobody waits for an event
                sink.sendall(piece)
        for one in source, sink:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()


class Cluster:
    """A coordinator, and two shards with one executor each."""

    def __init__(self, test, slow_link_to=None):
        self.test = test
        self.folder = Path(test.enterContext(tempfile.TemporaryDirectory()))
        self.processes = {}
        test.addCleanup(self.end)
        port = self.folder / "port"
        self.start("coordinator", f"{BIN}/paceline-coordinator", "--data-dir", self.folder / "coordinator", "--shards", 2,
                   "--listen", "127.0.0.1:0", "--port-file", port)
        self.coordinator = until("the coordinator serves", lambda: port.exists() and port.read_text().strip())
        for name in "shard-0", "shard-1":
            own = self.folder / f"{name}.port"
            link = SlowLink(test, own, 0.015) if name == slow_link_to else None
            advertise = ["--advertise", link.address] if link else []
            self.start(name, f"{BIN}/paceline-shard", "--coordinator", self.coordinator, "--name", name, "--threads", 1,
                       "--listen", "127.0.0.1:0", "--port-file", own, *advertise)
        until("the cluster begins", lambda: int(self.status()["map_version"]) > 0)

    def start(self, name, *command):
        log = self.test.enterContext(open(self.folder / f"{name}.log", "w+"))
        self.processes[name] = subprocess.Popen(
            [str(word) for word in command], stdout=log, stderr=log,
            env={**os.environ, "PACELINE_COORDINATOR": getattr(self, "coordinator", "")})

    def train(self, staleness, compute_ms, sometimes_ms=0):
        """`compute_ms`: of each worker."""
        for rank in range(WORKERS):
            self.start(f"worker-{rank}", WORKER, "train", rank, WORKERS, staleness, compute_ms[rank], sometimes_ms)

    def paceline(self, *arguments):
        return subprocess.run([f"{BIN}/paceline", *arguments, "--coordinator", self.coordinator], capture_output=True,
                              text=True, timeout=WAIT, check=True).stdout

    def status(self):
        return json.loads(self.paceline("status", "--json"))

    def explain(self, *options):
        """Once each worker has told of some seconds."""
        def explained():
            found = json.loads(self.paceline("explain", "train", "--json", *options))
            done = [worker for worker in found["workers"] if worker["seconds"] > 3]
            return found if len(done) == WORKERS else None
        found = until("each worker has told of its time", explained)
        print(json.dumps(found["findings"], indent=1), json.dumps(found["total"]))
        return found

    def accounts(self):
        """What the workers say of themselves at their end."""
        workers = [self.processes[f"worker-{rank}"] for rank in range(WORKERS)]
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker in workers:
            self.test.assertEqual(worker.wait(WAIT), 0)
        return [json.loads((self.folder / f"worker-{rank}.log").read_text().splitlines()[-1]) for rank in range(WORKERS)]

    def end(self):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()


class ExplainTest(unittest.TestCase):
    def check_sums(self, found):
        for of in [*found["workers"], found["total"]]:
            self.assertAlmostEqual(of["compute"] + sum(of["blocked"].values()), of["seconds"], 3)
            self.assertTrue(all(seconds >= 0 for seconds in [*of["blocked"].values(), *of["overlapped"].values()]))

    def check_accounts(self, cluster):
        for account in cluster.accounts():
            print(account)
            self.assertAlmostEqual(account["compute"] + account["blocked"], account["all"], 6)
            self.assertLessEqual(account["least"], account["all"])
            self.assertLessEqual(account["all"], account["most"])
            self.assertLess(account["most"] - account["least"], 0.5 * account["most"])  # or that says little

    def first(self, found):
        self.check_sums(found)
        self.assertTrue(found["findings"], found)
        return found["findings"][0]["kind"], found["findings"][0]["who"]

    def test_a_slow_worker(self):
        cluster = Cluster(self)
        cluster.train(staleness=2, compute_ms=[3, 3, 60])
        found = cluster.explain()
        self.assertEqual(self.first(found), ("slow_worker", "worker 2"))
        self.assertEqual(found["straggler"]["name"], "worker 2")
        self.assertGreater(found["workers"][2]["compute"], 0.8 * found["workers"][2]["seconds"])
        for worker in found["workers"][:2]:
            self.assertGreater(worker["blocked"]["staleness"], 0.6 * worker["seconds"])
        text = cluster.paceline("explain", "train")
        self.assertRegex(text, r"Straggler: worker 2\n")
        self.assertRegex(text, r"  - slow_worker, worker 2: ")
        # Of a while only: the numbers are smaller, the answer is the same.
        lately = json.loads(cluster.paceline("explain", "train", "--json", "--for", "3"))
        self.assertLess(lately["total"]["seconds"], 3 * WORKERS + 3)
        self.assertEqual(self.first(lately), ("slow_worker", "worker 2"))
        self.check_accounts(cluster)

    def test_a_slow_link(self):
        cluster = Cluster(self, slow_link_to="shard-1")
        cluster.train(staleness=8, compute_ms=[10, 10, 10])
        found = cluster.explain()
        self.assertEqual(self.first(found), ("slow_link", "shard-1"))
        self.assertGreater(found["total"]["blocked"]["network"], 0.5 * found["total"]["seconds"])
        self.check_accounts(cluster)

    def overload(self, rows):
        """Another job asks much of a shard: of `rows` rows. What that costs the one that trains, and the shard's name."""
        cluster = Cluster(self)
        cluster.start("load", WORKER, "--load", "other", rows)

        def busy():
            names = [shard["info"]["name"] for shard in cluster.status()["shards"]
                     if shard.get("load", {}).get("busy_permille", 0) > 800]
            return names[0] if names else None
        name = until("a shard is busy", busy)
        cluster.train(staleness=8, compute_ms=[10, 10, 10])
        found = cluster.explain()
        self.assertEqual(self.first(found), ("overloaded_shard", name))
        self.assertEqual(found["hot_shard"]["name"], name)
        return cluster, found

    def test_a_shard_with_too_much_work(self):
        _, found = self.overload(rows=16)
        self.assertNotIn("hot_key", [finding["kind"] for finding in found["findings"]])

    def test_a_hot_key(self):
        cluster, _ = self.overload(rows=1)

        def named():
            found = cluster.explain("--for", "3")["findings"]
            return ("hot_key", "key 0 of table busy") in [(finding["kind"], finding["who"]) for finding in found]
        until("the hot key is named", named)  # of a moment: a busy machine serves fewer rows in some

    def test_a_bound_that_is_too_tight(self):
        cluster = Cluster(self)
        cluster.train(staleness=0, compute_ms=[5, 5, 5], sometimes_ms=60)
        found = cluster.explain()
        self.assertEqual(self.first(found), ("tight_bound", "table rows"))
        self.assertIn("try ssp:2", found["findings"][0]["text"])
        self.assertIsNone(found["straggler"])
        self.check_accounts(cluster)

    def test_a_bound_that_follows_grows_until_the_turns_even_out(self):
        cluster = Cluster(self)
        cluster.train(staleness="auto:64", compute_ms=[5, 5, 5], sometimes_ms=200)  # 8 clocks do not even it out

        def grown():
            bounds = json.loads(cluster.paceline("explain", "train", "--json"))["bounds"]
            return bounds if bounds and bounds[0]["bound"] > 8 else None
        bounds = until("the bound has grown", grown)
        self.assertEqual((bounds[0]["table"], bounds[0]["most"]), ("rows", 64))
        self.assertLessEqual(bounds[0]["bound"], 64)
        self.assertIn("it follows the waiting", cluster.paceline("status"))
        self.check_accounts(cluster)

    def test_what_cannot_be_explained(self):
        cluster = Cluster(self)
        done = subprocess.run([f"{BIN}/paceline", "explain", "none", "--coordinator", cluster.coordinator],
                              capture_output=True, text=True, timeout=WAIT)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("job 'none' does not exist", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
