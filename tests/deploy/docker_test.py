#!/usr/bin/env python3
"""The images: docker/Dockerfile is built, with the programs of this build, and run: a cluster in containers, a job that counts in it,
health checks, a hand-over at a planned stop. Then docker/compose.yaml, with the other two images.

Takes a Docker daemon, and the image debian:bookworm-slim, which it pulls if it is not there; skipped with the reason otherwise.
Set PACELINE_DOCKER_COMPILE=1 to compile in the container as well, which takes as long as a build does.
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from charttools import ROOT, WAIT, needs, run, until
from chart_test import COMPOSE

BIN = os.environ["PACELINE_BIN"]
BASE = "debian:bookworm-slim"
TAG = f"test-{os.getpid()}"


def docker(*arguments, check=True, timeout=WAIT, **how):
    done = subprocess.run(["docker", *map(str, arguments)], capture_output=True, text=True, timeout=timeout, **how)
    if check and done.returncode != 0:
        raise AssertionError(f"docker {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def missing():
    """What the test lacks; empty: nothing."""
    try:
        if run("docker", "info").returncode != 0:
            return "Docker daemon that answers"
    except OSError:
        return "docker"
    if run("docker", "image", "inspect", BASE).returncode != 0 and run("docker", "pull", "-q", BASE).returncode != 0:
        return f"image {BASE}, and none to pull"
    return ""


MISSING = missing()


@needs(not MISSING, MISSING)
class DockerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # By the builder that needs no plugin. The host's network: in some places containers have no other way to Debian's packages.
        cls.environment = {**os.environ, "DOCKER_BUILDKIT": os.environ.get("DOCKER_BUILDKIT", "0"),
                           "PACELINE_BUILD_NETWORK": os.environ.get("PACELINE_BUILD_NETWORK", "host")}
        cls.build("paceline", *([] if os.environ.get("PACELINE_DOCKER_COMPILE") == "1" else ["--binaries", BIN]))

    @classmethod
    def build(cls, *arguments):
        done = subprocess.run([ROOT / "docker/build", "--tag", TAG, *arguments], capture_output=True, text=True, env=cls.environment,
                              timeout=7200)
        if done.returncode != 0:
            raise AssertionError(done.stdout[-3000:] + done.stderr[-3000:])
        images = [argument for argument in arguments if argument.startswith("paceline")]
        cls.addClassCleanup(lambda: docker("rmi", "--force", *(f"{image}:{TAG}" for image in images), check=False))

    def start(self, name, *command, flags=()):
        full = f"{TAG}-{name}"
        docker("run", "--detach", "--name", full, "--network", TAG, "--network-alias", name, "--read-only", "--cap-drop=ALL",
               *flags, f"paceline:{TAG}", *command)
        self.addCleanup(docker, "rm", "--force", "--volumes", full, check=False)
        return full

    def healthy(self, container):
        return json.loads(docker("inspect", container))[0]["State"]["Health"]["Status"] == "healthy"

    def count(self, network, coordinators, job):
        said = docker("run", "--rm", "--network", network, "--read-only", f"paceline:{TAG}", "paceline-count", "--coordinator",
                      coordinators, "--job", job, "--rows", 2000, "--clocks", 50)
        self.assertIn("ok, all 2000 rows hold", said)

    def test_a_cluster_of_containers(self):
        docker("network", "create", TAG)
        self.addCleanup(docker, "network", "rm", TAG, check=False)
        coordinator = self.start("coordinator", "paceline-coordinator", "--listen=0.0.0.0:7070", "--shards=3", "--replicas=1",
                                 "--data-dir=/var/lib/paceline/coordinator")
        until("the coordinator is healthy", lambda: self.healthy(coordinator))
        shards = [self.start(f"shard-{i}", "sh", "-c",
                             'exec paceline-shard --coordinator=coordinator:7070 --listen=0.0.0.0:7071 --peer-listen=0.0.0.0:7072 '
                             '--advertise="$(hostname -i):7071" --data-dir=/var/lib/paceline/shard --name="$NAME"',
                             flags=("--env", f"NAME=shard-{i}")) for i in range(3)]
        for shard in shards:
            until(f"{shard} is healthy", lambda shard=shard: self.healthy(shard))
        until("the cluster is well", lambda: "No problems" in docker("exec", coordinator, "paceline", "status", check=False))
        self.count(TAG, "coordinator:7070", "first")
        user = docker("exec", shards[0], "id", "-u")
        self.assertEqual(user, "10001")
        self.assertNotEqual(run("docker", "exec", shards[0], "sh", "-c", "command -v gcc || command -v cc").returncode, 0)
        # As the hook of a pod before it stops.
        docker("exec", "--env", "POD_NAME=shard-1", "--env", "PACELINE_COORDINATOR=coordinator:7070", shards[1],
               "/usr/local/lib/paceline/hand-over", 60)
        self.assertIn("hand-over: ", docker("logs", shards[1]))
        docker("stop", "--time", 30, shards[1])
        self.assertEqual(json.loads(docker("inspect", shards[1]))[0]["State"]["ExitCode"], 0)
        self.count(TAG, "coordinator:7070", "second")
        status = json.loads(docker("exec", coordinator, "paceline", "status", "--json"))
        self.assertEqual(int(status.get("takeovers", 0)), 0, "it was handed over")

    def config(self, compose, project):
        """The file with no ports of this machine, which others may have."""
        import yaml
        done = run(*compose, "-p", project, "-f", ROOT / "docker/compose.yaml", "config", env={**os.environ, "PACELINE_TAG": TAG})
        self.assertEqual(done.returncode, 0, done.stderr)
        config = yaml.safe_load(done.stdout)
        for service in config["services"].values():
            service.pop("ports", None)
            service.pop("build", None)
        return yaml.safe_dump(config)

    @needs(COMPOSE, "docker-compose or docker compose")
    def test_compose(self):
        self.build("paceline-etcd", "paceline-prometheus")
        for compose in COMPOSE:
            project = f"{TAG}-{compose[-1]}"
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "compose.yaml"
                file.write_text(self.config(compose, project))
                command = [*compose, "-f", file, "-p", project]
                try:
                    done = run(*command, "up", "-d")
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    ids = run(*command, "ps", "-q").stdout.split()
                    self.assertEqual(len(ids), 7)
                    for container in ids:
                        until(f"{container} is healthy", lambda container=container: self.healthy(container))
                    self.count(f"{project}_default", "coordinator-0:7070,coordinator-1:7070", f"count-{compose[-1]}")
                finally:
                    run(*command, "down", "--volumes")


if __name__ == "__main__":
    unittest.main(verbosity=2)
