#!/usr/bin/env python3
"""The Helm chart: lint, its refusals, and what it renders, against Kubernetes' own schemas in strict mode.

Each part runs where its tool is: helm, helm-unittest, promtool, kubernetes-validate; scripts/setup-deploy gets them. What is
not there is named, and its tests are skipped; with $PACELINE_REQUIRE_TOOLS=1 they fail.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/paceline"
PRESETS = [None, *sorted((CHART / "presets").glob("*.yaml"))]
KUBERNETES = "1.33"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
TOOLS = Path(os.environ.get("PACELINE_TOOLS") or CACHE / "paceline/tools")  # of scripts/setup-deploy
PATH = f"{os.environ['PATH']}{os.pathsep}{TOOLS / 'bin'}"
sys.path.insert(0, str(TOOLS / "python"))  # before an older jsonschema of the system
HELM = os.environ.get("HELM") or shutil.which("helm", path=PATH)
UNITTEST = os.environ.get("HELM_UNITTEST") or shutil.which("helm-unittest", path=PATH)
PROMTOOL = shutil.which("promtool")
VALIDATE = importlib.util.find_spec("kubernetes_validate") is not None


def needs(tool, name):
    """Skips a test without its tool, or fails it where all tools must be there."""
    if tool or os.environ.get("PACELINE_REQUIRE_TOOLS") == "1":
        return lambda test: test
    return unittest.skip(f"no {name}")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def of(preset):
    return [] if preset is None else ["--values", preset]


def template(*more):
    return run(HELM, "template", "paceline", CHART, "--namespace", "ml", "--kube-version", f"{KUBERNETES}.0", *more)


ALL = [f"--set=metrics.{part}.enabled=true" for part in ("serviceMonitor", "rules", "dashboards")] + [
    "--set=shard.persistence.enabled=true", "--set=etcd.enabled=true",
    "--set=coordinator.replicas=2"]


class Network:
    """The pods of what was rendered, and whom its NetworkPolicies let reach them."""

    def __init__(self, rendered):
        import yaml
        manifests = list(filter(None, yaml.safe_load_all(rendered)))
        self.policies = [m["spec"] for m in manifests if m["kind"] == "NetworkPolicy"]
        self.labels = {"job": {"team": "ads"}, "prometheus": {"app": "prometheus"}, "stranger": {"app": "stranger"}}
        self.ports = {}
        for manifest in manifests:
            if manifest["kind"] not in ("StatefulSet", "Deployment", "Pod"):
                continue
            pod = manifest if manifest["kind"] == "Pod" else manifest["spec"]["template"]
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
        etcd = ["--set=etcd.enabled=true,coordinator.replicas=2"]
        for arguments, open_to_all, open_to_scrapers in [(etcd, True, True), ([*etcd, jobs, scraper], False, False)]:
            network = Network(template(*arguments).stdout)
            wanted = {  # who reaches which port of a pod; "stranger" is another pod of the namespace
                ("coordinator", "grpc"): {"shard", "job", "test"} | ({"stranger", "prometheus", "coordinator", "etcd"}
                                                                    if open_to_all else set()),
                ("shard", "grpc"): {"job", "test"} | ({"stranger", "prometheus", "coordinator", "shard", "etcd"}
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
        for arguments in [*map(of, PRESETS), ALL]:
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
        done = run(UNITTEST, "--strict", "--file", "tests/chart_test.yaml", CHART)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @needs(PROMTOOL, "promtool")
    def test_alerts(self):
        for command in (["check", "rules", "alerts/paceline.yaml"], ["test", "rules", "tests/alerts_test.yaml"]):
            done = subprocess.run([PROMTOOL, *command], cwd=CHART, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_has_a_runbook_and_a_test(self):
        page = (ROOT / "docs/operations.md").read_text()
        anchors = {line[4:].strip().lower().replace(" ", "-") for line in page.splitlines() if line.startswith("### ")}
        rules, tests = (CHART / "alerts/paceline.yaml").read_text(), (CHART / "tests/alerts_test.yaml").read_text()
        for line in rules.splitlines():
            if "runbook_url:" in line:
                self.assertIn(line.split("#", 1)[1], anchors)
            if "- alert:" in line:
                self.assertIn(f'alertname="{line.split(": ")[1]}",alertstate="firing"', tests)

    def test_the_readme_is_up_to_date(self):
        done = run(ROOT / "deploy/helm/readme", "--check")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
