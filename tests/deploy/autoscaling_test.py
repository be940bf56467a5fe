#!/usr/bin/env python3
"""The signals that autoscalers go by, by promtool; the manifests that use them; and that the simulated loop does not flap."""

import importlib.machinery
import importlib.util
import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from charttools import CHART, HELM, PROMTOOL, ROOT, YAML, needs, template

RULES = CHART / "alerts/paceline.yaml"
ADAPTER = ROOT / "deploy/autoscaling/prometheus-adapter.yaml"
MINUTES = 40
KEDA = ["--set=autoscaling.enabled=true,autoscaling.kind=keda,autoscaling.prometheus=http://prometheus:9090"]
HPA = ["--set=autoscaling.enabled=true"]


def simulation():
    loader = importlib.machinery.SourceFileLoader("simulate", str(ROOT / "deploy/autoscaling/simulate"))
    spec = importlib.util.spec_from_loader("simulate", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class Cluster:
    """Series of three shards, each with two executors that are busy for half of the time."""

    def __init__(self):
        self.series = {"coordinator_copies_moving{}": f"0x{MINUTES}", "coordinator_copies_left{}": f"0x{MINUTES}",
                       "coordinator_shards_alive{}": f"3x{MINUTES}"}
        for shard in range(3):
            self.shard(shard, "0+30", 40)

    def shard(self, number, busy, memory):
        """`busy`: seconds of each executor, as promtool has it, a minute; `memory`: percent."""
        labels = f'shard="shard-{number}"'
        self.series[f"shard_push_frames_total{{{labels}}}"] = f"0+5x{MINUTES}"
        for executor in (0, 1):
            self.series[f'shard_executor_busy_seconds_total{{{labels},executor="{executor}"}}'] = f"{busy}x{MINUTES}"
        self.series[f"shard_memory_bytes{{{labels}}}"] = f"{memory}x{MINUTES}"
        self.series[f"shard_memory_budget_bytes{{{labels}}}"] = f"100x{MINUTES}"

    def inputs(self, cluster):
        out = []
        for series, samples in self.series.items():
            name, labels = series[:-1].split("{")
            out.append({"series": f'paceline_{name}{{paceline_cluster="{cluster}"{"," + labels if labels else ""}}}',
                        "values": samples})
        return out


@needs(PROMTOOL, "promtool")
class SignalsTest(unittest.TestCase):
    def check(self, cluster, *expected):
        """Of (minute, signal, value or None)."""
        tests = []
        for minute, signal, value in expected:
            series = f'paceline_cluster:shards_{signal}:sum{{paceline_cluster="one"}}'
            samples = [] if value is None else [{"labels": '{paceline_cluster="one"}', "value": value}]
            tests.append({"expr": f"round(max by (paceline_cluster) ({series}), 0.01)", "eval_time": f"{minute}m",
                          "exp_samples": samples})
        other = Cluster()
        document = {"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [
            {"interval": "1m", "input_series": cluster.inputs("one") + other.inputs("two"), "promql_expr_test": tests}]}
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump(document, file)
            file.flush()
            done = subprocess.run([PROMTOOL, "test", "rules", file.name], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_they_are_sums_in_shards(self):
        self.check(Cluster(), (10, "busy", 1.5), (10, "memory", 1.2))

    def test_a_draining_shard_changes_nothing(self):
        """What it gives the others take: the sum is the same, whoever has it."""
        cluster = Cluster()
        cluster.shard(0, "0+45", 60)
        cluster.shard(1, "0+45", 60)
        cluster.shard(2, "0+0", 0)
        self.check(cluster, (10, "busy", 1.5), (10, "memory", 1.2))

    def test_while_segments_move_the_value_before_stands(self):
        cluster = Cluster()
        cluster.series["coordinator_copies_moving{}"] = f"0x9 4x5 0x{MINUTES}"
        for shard in range(3):
            cluster.shard(shard, "0+30x9 270+55x5 600+30", 40)
            cluster.series[f'shard_memory_bytes{{shard="shard-{shard}"}}'] = f"40x9 70x5 40x{MINUTES}"
        self.check(cluster, (9, "busy", 1.5), (12, "busy", 1.5), (16, "busy", 1.5), (20, "busy", 1.5), (12, "memory", 1.2),
                   (20, "memory", 1.2))

    def test_after_ten_minutes_of_moves_there_is_none(self):
        cluster = Cluster()
        cluster.series["coordinator_copies_left{}"] = f"0x9 4x{MINUTES}"
        self.check(cluster, (15, "busy", 1.5), (25, "busy", None), (25, "memory", None))

    def test_a_shard_that_is_not_scraped_is_not_idle(self):
        cluster = Cluster()
        for series in list(cluster.series):
            if 'shard="shard-1"' in series:
                cluster.series[series] = cluster.series[series].replace(f"x{MINUTES}", "x9") + f" stale _x{MINUTES}"
        self.check(cluster, (15, "busy", 1.5), (15, "memory", 1.2), (30, "busy", None))

    def test_a_dead_shard_is_not_waited_for(self):
        cluster = Cluster()
        for series in list(cluster.series):
            if 'shard="shard-1"' in series:
                cluster.series[series] = cluster.series[series].replace(f"x{MINUTES}", "x9") + f" stale _x{MINUTES}"
        cluster.series["coordinator_shards_alive{}"] = f"3x9 2x{MINUTES}"
        self.check(cluster, (30, "busy", 1.0))


SCALED_OBJECT = {  # the part of KEDA's ScaledObject that the chart uses, as keda.sh/v1alpha1 has it
    "type": "object", "additionalProperties": False, "required": ["scaleTargetRef", "triggers"], "properties": {
        "scaleTargetRef": {"type": "object", "additionalProperties": False, "required": ["name"],
                           "properties": {key: {"type": "string"} for key in ("apiVersion", "kind", "name")}},
        "pollingInterval": {"type": "integer"}, "minReplicaCount": {"type": "integer"}, "maxReplicaCount": {"type": "integer"},
        "fallback": {"type": "object", "additionalProperties": False, "required": ["failureThreshold", "replicas"], "properties": {
            "failureThreshold": {"type": "integer"}, "replicas": {"type": "integer"},
            "behavior": {"enum": ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]}}},
        "advanced": {"type": "object", "additionalProperties": False, "properties": {
            "horizontalPodAutoscalerConfig": {"type": "object", "additionalProperties": False, "properties": {
                "behavior": {"type": "object", "additionalProperties": False, "properties": {
                    direction: {"type": "object", "additionalProperties": False, "properties": {
                        "stabilizationWindowSeconds": {"type": "integer", "minimum": 0, "maximum": 3600},
                        "policies": {"type": "array", "items": {
                            "type": "object", "additionalProperties": False, "required": ["type", "value", "periodSeconds"],
                            "properties": {"type": {"enum": ["Pods", "Percent"]}, "value": {"type": "integer", "minimum": 1},
                                           "periodSeconds": {"type": "integer", "minimum": 1, "maximum": 1800}}}}}}
                    for direction in ("scaleUp", "scaleDown")}}}}}},
        "triggers": {"type": "array", "minItems": 1, "items": {
            "type": "object", "additionalProperties": False, "required": ["type", "metadata"], "properties": {
                "type": {"const": "prometheus"}, "metricType": {"enum": ["AverageValue", "Value"]},
                "metadata": {"type": "object", "additionalProperties": {"type": "string"},
                             "required": ["serverAddress", "query", "threshold"]}}}}}}


@needs(HELM and YAML, "helm and kubernetes-validate")
class ManifestsTest(unittest.TestCase):
    def rendered(self, kind, *more):
        import yaml
        done = template(*more)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest and manifest["kind"] == kind]
        self.assertEqual(len(found), 1, kind)
        return found[0]

    def test_the_scaled_object_is_as_keda_has_it(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("no jsonschema")
        spec = self.rendered("ScaledObject", *KEDA)["spec"]
        jsonschema.validate(spec, SCALED_OBJECT)
        self.assertEqual(spec["fallback"]["behavior"], "currentReplicasIfHigher")
        down = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
        self.assertEqual(down["policies"], [{"type": "Pods", "value": 1, "periodSeconds": 300}])

    def test_the_adapter_has_what_the_autoscaler_asks_for(self):
        import yaml
        asked = {metric["external"]["metric"]["name"] for metric in
                 self.rendered("HorizontalPodAutoscaler", *HPA)["spec"]["metrics"]}
        rules = yaml.safe_load(ADAPTER.read_text())["rules"]["external"]
        self.assertEqual({rule["name"]["as"] for rule in rules}, asked)
        recorded = set(re.findall(r"- record: (\S+)", RULES.read_text()))
        for rule in rules:
            series = re.match(r"[\w:]+", rule["seriesQuery"]).group()
            self.assertIn(series, recorded)
            self.assertIn(f"{series}{{<<.LabelMatchers>>}}", rule["metricsQuery"])

    def test_keda_asks_for_what_is_recorded(self):
        recorded = set(re.findall(r"- record: (\S+)", RULES.read_text()))
        for trigger in self.rendered("ScaledObject", *KEDA)["spec"]["triggers"]:
            self.assertIn(trigger["metadata"]["query"].split("{")[0], recorded)


class SimulationTest(unittest.TestCase):
    """Of the rules that the manifests state."""

    @classmethod
    def setUpClass(cls):
        cls.module = simulation()
        cls.runs = {(name, seed): cls.module.Run(demand, seed=seed)
                    for name, demand in cls.module.SCENARIOS.items() for seed in (1, 2, 3)}

    def test_nothing_is_undone_within_ten_minutes(self):
        for what, run in self.runs.items():
            self.assertEqual(run.reversals(600), 0, f"{what}: {run.changes}")

    def test_demand_that_does_not_change_is_left_alone(self):
        for seed in (1, 2, 3):
            self.assertLessEqual(len(self.runs["still", seed].changes), 1)

    def test_a_step_is_followed_in_minutes_and_left_again(self):
        for seed in (1, 2, 3):
            run = self.runs["steps", seed]
            self.assertGreaterEqual(run.shards[1200 + 420], 4)
            self.assertLess(run.overloaded, 420)
            self.assertEqual(run.shards[-1], run.limits.least)

    def test_it_goes_down_by_one_at_a_time(self):
        for what, run in self.runs.items():
            down = [at for at, by in run.changes if by < 0]
            self.assertTrue(all(by >= -1 for _, by in run.changes), what)
            self.assertTrue(all(later - at >= run.limits.down_period for at, later in zip(down, down[1:])), what)

    def test_a_signal_that_moves_disturb_would_flap(self):
        """Or the tests above would say nothing of the chart's signal."""
        run = self.module.Run(self.module.SCENARIOS["steps"], self.module.Naive)
        self.assertGreater(run.reversals(1200), 5)

    @needs(HELM and YAML, "helm and kubernetes-validate")
    def test_its_limits_are_those_of_the_chart(self):
        import yaml
        limits = self.module.Limits()
        chart = yaml.safe_load((CHART / "values.yaml").read_text())["autoscaling"]
        self.assertEqual((limits.busy, limits.down_after, limits.down_period),
                         (chart["busyPercent"] / 100, chart["scaleDownAfterSeconds"], chart["scaleDownPeriodSeconds"]))
        text = (CHART / "templates/autoscaling.yaml").read_text()
        self.assertIn(f"stabilizationWindowSeconds: {limits.up_after}\n", text)
        self.assertIn(f"value: {limits.up_pods}, periodSeconds: {limits.up_period}", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
