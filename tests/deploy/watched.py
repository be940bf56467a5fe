"""Clusters of real processes that a real Prometheus scrapes."""

import json
import os
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

from charttools import CHART, WAIT

BIN = os.environ["PACELINE_BIN"]
RULES = CHART / "alerts/paceline.yaml"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def plain(expr, cluster, window):
    """A dashboard's query, with Grafana's variables as they are in a test."""
    return expr.replace("$__rate_interval", window).replace("$cluster", cluster).replace("$job", ".*")


class Cluster:
    """Processes in the folder FOLDER/NAME; all end with `stack`. Prometheus finds them by `write_targets`.

    `coordinator_flags` may name the store and the port, by default in the folder and a free one. With `disks` each shard has a folder of its own,
    `self.folder / name`."""

    def __init__(self, stack, folder, name, shards=3, replicas=1, disks=True, coordinator_flags=(), shard_flags=()):
        self.stack, self.name, self.disks, self.shard_flags = stack, name, disks, shard_flags
        self.targets_file = Path(folder) / f"targets-{name}.json"
        self.folder = Path(folder) / name
        self.folder.joinpath("snapshots").mkdir(parents=True)
        self.targets = {}
        store = () if "--store" in coordinator_flags else ("--data-dir", f"{self.folder}/data")
        listen = () if "--listen" in coordinator_flags else ("--listen", "127.0.0.1:0")
        self.coordinator = self.start("coordinator", "paceline-coordinator", *listen, "--shards", str(shards), "--replicas",
                                      str(replicas), *store, *coordinator_flags)
        self.leader = self.last
        self.shards = {f"shard-{i}": self.shard(f"shard-{i}") for i in range(shards)}

    def spawn(self, log, *command):
        path = command[0] if command[0] == "etcd" else f"{BIN}/{command[0]}"
        with open(self.folder / f"{log}.log", "a") as file:
            process = subprocess.Popen([path, *map(str, command[1:])], stdout=file, stderr=file)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def start(self, name, program, *flags, same_page=False):
        """Its address; the process is `self.last`. With `same_page` its metrics are where they were at its last start."""
        port_file = self.folder / f"{name}.port"
        metrics = self.targets[name] if same_page else f"127.0.0.1:{free_port()}"
        port_file.unlink(missing_ok=True)
        process = self.spawn(name, program, *flags, "--port-file", port_file, "--metrics-listen", metrics,
                             "--metrics-cluster", self.name, "--snapshot-dir", self.folder / "snapshots")
        self.targets[name] = metrics
        end = time.monotonic() + WAIT
        while not port_file.exists() or not port_file.read_text().strip():
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError((self.folder / f"{name}.log").read_text()[-2000:])
            time.sleep(0.02)
        self.last = process
        return port_file.read_text().strip()

    def shard(self, name):
        disk = ("--data-dir", self.folder / name) if self.disks else ()
        self.start(name, "paceline-shard", "--coordinator", self.coordinator, "--name", name, "--threads", "1", *disk,
                   *self.shard_flags)
        return self.last

    def paceline(self, *arguments):
        return subprocess.run([f"{BIN}/paceline", *map(str, arguments), "--coordinator", self.coordinator], capture_output=True,
                              text=True, check=True, timeout=WAIT).stdout

    def status(self):
        return json.loads(self.paceline("status", "--json"))

    def whole(self):
        status = self.status()
        return (int(status.get("map_version", 0)) > 0 and int(status.get("segments_under_replicated", 0)) == 0
                and all(shard.get("alive") for shard in status["shards"]))

    def counter(self, job, *flags):
        """A worker that counts."""
        return self.spawn(job, "paceline-count", "--coordinator", self.coordinator, "--job", job, *flags)

    def trainer(self, job, index, data):
        """One of two workers that start together, and train until they are killed."""
        return self.spawn(f"{job}-{index}", "sparse_lr", "--coordinator", self.coordinator, "--job", job, "--workers", 2, "--index",
                          index, "--train", data / "train.libsvm", "--test", data / "test.libsvm", "--epochs", 1_000_000)

    def write_targets(self):
        self.targets_file.write_text(json.dumps([{"targets": [address]} for address in self.targets.values()]))


class Prometheus:
    """Scrapes all clusters of the folder."""

    def __init__(self, stack, folder, rules, scrape):
        config = Path(folder) / "prometheus.yml"
        config.write_text(
            f"global: {{scrape_interval: {scrape}, scrape_timeout: {scrape}, evaluation_interval: 1s}}\n"
            f"rule_files: ['{rules}']\n"
            "scrape_configs:\n  - job_name: paceline\n    file_sd_configs:\n"
            f"      - {{files: ['{folder}/targets-*.json'], refresh_interval: 1s}}\n")
        self.address = f"127.0.0.1:{free_port()}"
        with open(Path(folder) / "prometheus.log", "w") as log:
            process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb",
                                        f"--web.listen-address={self.address}"], stdout=log, stderr=log)
        stack.callback(process.wait)
        stack.callback(process.kill)
        end = time.monotonic() + WAIT
        while not self.is_ready():
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError((Path(folder) / "prometheus.log").read_text()[-2000:])
            time.sleep(0.05)

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=20) as reply:
                return reply.status == 200
        except OSError:
            return False

    def get(self, path, **parameters):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=20) as reply:
            return json.load(reply)["data"]

    def now(self, expr):
        """The series of a query, as it is now."""
        return self.get("query", query=expr)["result"]

    def values(self, expr, start, end):
        """All samples of all series of a query over a time, its end among them."""
        result = self.get("query_range", query=expr, start=start, end=end + 0.25, step="0.25")["result"]
        return [float(value) for series in result for _, value in series["values"]]
