#!/usr/bin/env python3
"""Each alert fires on its condition, for the cluster that has it, and no other alert does: promtool's unit tests of the rules.

Two clusters are watched by one Prometheus, in one namespace. Both are healthy, but for the one condition that each test gives
to the first. Ends with 77, skipped, without promtool.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from charttools import CHART, PROMTOOL, ROOT

RULES = CHART / "alerts/paceline.yaml"
MINUTES = 60  # of samples, one a minute
SICK, WELL = "ml.one", "ml.two"


def healthy():
    """Series of one cluster of three shards, as (name and labels) → samples; `still`: does not change."""
    series = {}

    def add(name, samples, /, **labels):
        series[(name, tuple(sorted(labels.items())))] = samples

    def still(value):
        return f"{value}x{MINUTES}"

    add("coordinator_leads", still(1))
    add("coordinator_segments_lost", still(0))
    add("coordinator_segments_under_replicated", still(0))
    add("coordinator_takeovers_total", still(7))
    add("coordinator_leads_ended_total", still(1))
    add("coordinator_store_failures_total", still(2))
    add("coordinator_evictions_total", still(3))
    add("coordinator_load_keys_too_hot", still(0))
    add("coordinator_job_active", still(1), job_id="1", name="ctr")
    add("coordinator_snapshot_schedule_age_seconds", "0+60x8 0+60x8 0+60x8 0+60x8 0+60x8 0+60x8 0+60x8", job_id="1", name="ctr")
    add("coordinator_snapshot_schedule_interval_seconds", still(600), job_id="1", name="ctr")
    add("coordinator_snapshot_schedule_failures_total", still(1), job_id="1", name="ctr")
    add("coordinator_snapshots_total", still(2), what="failed")
    add("coordinator_connections_total", still(0), result="refused")
    for shard in ("shard-0", "shard-1", "shard-2"):
        add("coordinator_shard_alive", still(1), shard=shard)
        add("shard_push_frames_total", f"0+100x{MINUTES}", shard=shard)
        for state in ("full", "fails", "slow"):
            add("shard_disk_state", still(0), shard=shard, state=state)
        add("shard_disk_free_bytes", still(500), shard=shard)
        add("shard_disk_size_bytes", still(1000), shard=shard)
        add("shard_memory_bytes", still(80), shard=shard)
        add("shard_memory_budget_bytes", still(100), shard=shard)
        add("shard_refusals_total", still(3), shard=shard, reason="over_budget")
        add("shard_executor_busy_seconds_total", f"0+30x{MINUTES}", shard=shard, executor="0")
        add("shard_min_clock", f"0+60x{MINUTES}", shard=shard, job_id="1")
        add("shard_min_clock", still(9), shard=shard, job_id="2")  # a job that has ended
        for rank in ("0", "1"):
            add("shard_worker_clock", f"0+60x{MINUTES}", shard=shard, job_id="1", rank=rank)
            add("shard_worker_clocks_behind", "0 1 " * (MINUTES // 2), shard=shard, job_id="1", rank=rank)
        add("shard_wait_seconds_total", f"0+30x{MINUTES}", shard=shard, cause="staleness")
        add("shard_unreplicated_bytes", "0 5000000 " * (MINUTES // 2), shard=shard)
        add("shard_connections_total", still(0), shard=shard, result="refused")
    return series


def up():
    """Of each process: that it is scraped, and what it shows of itself."""
    series = {}
    for shard in ("", "shard-0", "shard-1", "shard-2"):
        series[shard] = f"1x{MINUTES}"
    return series


def ended(samples, minutes=10):
    """The first of them, and then the series is no more."""
    values = []
    for word in samples.split():
        first, by, count = re.fullmatch(r"(\d+)(?:\+(\d+))?(?:x(\d+))?", word).groups()
        values += [int(first) + int(by or 0) * i for i in range(int(count or 0) + 1)]
    return " ".join(map(str, values[:minutes])) + f" stale _x{MINUTES}"


class Case:
    """One condition: changes to the series of the sick cluster."""

    def __init__(self):
        self.series = healthy()
        self.up = up()

    def set(self, name, samples, /, **labels):
        """All series of that name with these labels; there must be one."""
        found = [key for key in self.series if key[0] == name and set(labels.items()) <= set(key[1])]
        assert found, (name, labels)
        for key in found:
            self.series[key] = samples
        return self

    def add(self, name, samples, /, **labels):
        self.series[(name, tuple(sorted(labels.items())))] = samples
        return self

    def without(self, prefix, /, **labels):
        """They are there for a while, and then are not."""
        found = [key for key in self.series if key[0].startswith(prefix) and set(labels.items()) <= set(key[1])]
        assert found, (prefix, labels)
        for key in found:
            self.series[key] = ended(self.series[key])
        return self

    def down(self, *shards):
        for shard in shards:
            self.up[shard] = f"1x9 0x{MINUTES}"
        return self

    def gone(self, *shards):
        """Their pods are no more, and Prometheus looks for them no more."""
        for shard in shards:
            self.up[shard] = ended(self.up[shard])
        return self


def step(before, after, minutes=10):
    return f"{before}x{minutes} {after}x{MINUTES}"


# From the 11th minute on something is wrong; at the 30th exactly these alerts fire.
CASES = {
    "data is lost": (Case().set("coordinator_segments_lost", step(0, 4)), ["PacelineDataLost"]),
    "a shard is dead": (Case().set("coordinator_shard_alive", step(1, 0), shard="shard-1").without("shard_", shard="shard-1")
                        .set("coordinator_takeovers_total", step(7, 28)).down("shard-1"), ["PacelineShardDown"]),
    "copies are missing": (Case().set("coordinator_segments_under_replicated", step(0, 12)), ["PacelineUnderReplicated"]),
    "takeovers again and again": (Case().set("coordinator_takeovers_total", f"7x10 9x5 11x4 30x4 31x{MINUTES}"),
                                  ["PacelineTakeovers"]),
    "the coordinator is gone": (Case().without("coordinator_").down(""), ["PacelineCoordinatorDown"]),
    "none leads": (Case().set("coordinator_leads", step(1, 0)).set("coordinator_store_failures_total", f"2x10 2+5x{MINUTES}"),
                   ["PacelineNoLeader"]),
    "leaders come and go": (Case().set("coordinator_leads_ended_total", f"1x10 2x5 3x3 4x3 5x{MINUTES}"), ["PacelineLeadsChange"]),
    "the store fails": (Case().set("coordinator_store_failures_total", f"2x10 2+5x{MINUTES}"), ["PacelineStoreFailing"]),
    "a shard cannot be scraped": (Case().without("shard_", shard="shard-1").down("shard-1"), ["PacelineNotScraped"]),
    "nothing can be scraped": (Case().without("").down("", "shard-0", "shard-1", "shard-2"), ["PacelineClusterNotScraped"]),
    "all pods are gone": (Case().without("").gone("", "shard-0", "shard-1", "shard-2"), ["PacelineClusterNotScraped"]),
    "a disk is full": (Case().set("shard_disk_state", step(0, 1), shard="shard-2", state="full")
                       .set("shard_disk_free_bytes", step(500, 0), shard="shard-2"), ["PacelineDiskTrouble"]),
    "a disk fails": (Case().set("shard_disk_state", step(0, 1), shard="shard-2", state="fails"), ["PacelineDiskTrouble"]),
    "a disk is slow": (Case().set("shard_disk_state", step(0, 1), shard="shard-2", state="slow"), ["PacelineDiskSlow"]),
    "a full disk is slow between failures": (Case().set("shard_disk_state", "0x10 " + "1 1 0 " * 20, shard="shard-2", state="full")
                                            .set("shard_disk_state", step(0, 1), shard="shard-2", state="slow"), ["PacelineDiskTrouble"]),
    "a disk fills": (Case().set("shard_disk_free_bytes", step(500, 50), shard="shard-0"), ["PacelineDiskFilling"]),
    "memory is short": (Case().set("shard_memory_bytes", step(80, 90), shard="shard-0"), ["PacelineMemoryHigh"]),
    "memory is refused": (Case().set("shard_memory_bytes", step(80, 99), shard="shard-0")
                          .set("shard_refusals_total", f"3x10 3+9x{MINUTES}", shard="shard-0"), ["PacelineOverBudget"]),
    "a job stands still for want of memory": (Case().set("shard_refusals_total", f"3x10 3+9x{MINUTES}", shard="shard-0")
                                              .set("shard_min_clock", f"0+60x10 600x{MINUTES}", job_id="1"), ["PacelineOverBudget"]),
    "a shard is busy": (Case().set("shard_executor_busy_seconds_total", f"0+58x{MINUTES}", shard="shard-0"), ["PacelineShardBusy"]),
    "a key is hot": (Case().set("coordinator_load_keys_too_hot", step(0, 1)), ["PacelineHotKey"]),
    "a job stands still": (Case().set("shard_min_clock", f"0+60x10 600x{MINUTES}", job_id="1")
                           .set("shard_worker_clocks_behind", step(0, 2), rank="1"), ["PacelineJobStuck"]),
    "a worker is slow": (Case().set("shard_worker_clocks_behind", step(0, 2), rank="1"), ["PacelineSlowWorker"]),
    "a worker was silent": (Case().set("coordinator_evictions_total", f"3x25 4x{MINUTES}"), ["PacelineEvictions"]),
    "snapshots fail": (Case().set("coordinator_snapshots_total", f"2x10 2+1x{MINUTES}")
                       .set("coordinator_snapshot_schedule_failures_total", f"1x10 1+1x{MINUTES}")
                       .set("coordinator_snapshot_schedule_age_seconds", f"0+60x{MINUTES}"), ["PacelineSnapshotFailing"]),
    "a requested snapshot fails": (Case().set("coordinator_snapshots_total", step(2, 3)), ["PacelineSnapshotFailing"]),
    "a snapshot is old": (Case().set("coordinator_snapshot_schedule_age_seconds", f"0+60x{MINUTES}"), ["PacelineSnapshotOld"]),
    "copies are behind": (Case().set("shard_unreplicated_bytes", step(0, 5000000), shard="shard-0"), ["PacelineReplicationSlow"]),
    "connections are refused": (Case().set("shard_connections_total", f"0x10 0+3x{MINUTES}", shard="shard-0"),
                                ["PacelineConnectionsRefused"]),
    "a coordinator refuses connections": (Case().set("coordinator_connections_total", f"0x10 0+3x{MINUTES}"),
                                          ["PacelineConnectionsRefused"]),
    "all is well": (Case(), []),
    # What looks like trouble and is none.
    "a planned restart of one shard": (Case().set("coordinator_shard_alive", f"1x10 0x1 1x{MINUTES}", shard="shard-1"), []),
    "another coordinator leads": (Case().set("coordinator_leads", f"0x{MINUTES}", ).add("coordinator_leads", f"1x{MINUTES}", pod="b"), []),
    "a shard is taken over from once": (Case().set("coordinator_takeovers_total", step(7, 28)), []),
    "a short burst": (Case().set("shard_disk_state", f"0x10 1 0x{MINUTES}", shard="shard-2", state="slow"), []),
    "workers take turns at being slow": (Case().set("shard_worker_clocks_behind", "0 2 " * (MINUTES // 2), rank="1"), []),
    "a worker is slow, and nobody waits": (Case().set("shard_worker_clocks_behind", step(0, 2), rank="1")
                                           .set("shard_wait_seconds_total", f"0x{MINUTES}"), []),
}


def labelled(labels):
    return "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items()) + "}"


def input_series(case, cluster):
    out = []
    for (name, labels), samples in case.series.items():
        out.append({"series": f"paceline_{name}" + labelled({"paceline_cluster": cluster, "namespace": "ml", **dict(labels)}),
                    "values": samples.strip()})
    for shard, samples in case.up.items():
        target = {"job": "paceline", "instance": f"{cluster}:{shard or 'coordinator'}", "namespace": "ml"}
        of_it = {"paceline_cluster": cluster, **({"shard": shard} if shard else {})}
        out.append({"series": "up" + labelled(target), "values": samples})
        gone = " 0x" in samples or "stale" in samples
        out.append({"series": "process_open_fds" + labelled({**target, **of_it}),
                    "values": f"50x9 stale _x{MINUTES}" if gone else f"50x{MINUTES}"})
    return out


def test_of(name, case, alerts):
    """At the beginning nothing fires; later exactly these, all of the sick cluster."""
    wanted = [{"labels": labelled({"alertname": alert, "paceline_cluster": SICK}), "value": 1} for alert in alerts]
    query = 'group by (alertname, paceline_cluster) (ALERTS{alertstate="firing"})'
    return {"name": name, "interval": "1m", "input_series": input_series(case, SICK) + input_series(Case(), WELL),
            "promql_expr_test": [{"expr": query, "eval_time": "9m", "exp_samples": []},
                                 {"expr": query, "eval_time": "30m", "exp_samples": wanted}]}


class AlertsTest(unittest.TestCase):
    maxDiff = None

    def promtool(self, tests):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "test.yaml"  # JSON is YAML
            path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
            done = subprocess.run([PROMTOOL, "test", "rules", str(path)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_fires_on_its_condition_and_no_other(self):
        # The busy shard is busy from the beginning.
        cases = {name: case for name, case in CASES.items() if name != "a shard is busy"}
        self.promtool([test_of(name, *case) for name, case in cases.items()])
        busy = test_of("a shard is busy", *CASES["a shard is busy"])
        busy["promql_expr_test"].pop(0)
        self.promtool([busy])

    def test_nothing_installed_is_silent(self):
        query = 'count(ALERTS)'
        self.promtool([{"name": "other", "interval": "1m", "input_series": [{"series": 'up{job="other"}', "values": "0x60"}],
                        "promql_expr_test": [{"expr": query, "eval_time": "30m", "exp_samples": []}]}])

    def test_the_summaries_name_cluster_and_culprit(self):
        case, _ = CASES["a shard is dead"]
        test = test_of("dead", case, ["PacelineShardDown"])
        del test["promql_expr_test"]
        test["alert_rule_test"] = [{"eval_time": "30m", "alertname": "PacelineShardDown", "exp_alerts": [{
            "exp_labels": {"severity": "warning", "paceline_cluster": SICK, "shard": "shard-1"},
            "exp_annotations": {
                "summary": f"{SICK}: shard-1 has been silent for 2 minutes", "runbook_url": "RUNBOOKS#shard-down",
                "description": "Its segments go on elsewhere where they have copies. A shard that ended without a drain stays "
                               "counted."}}]}]
        self.promtool([test])

    def test_every_alert_has_a_case_and_a_runbook(self):
        rules = RULES.read_text()
        alerts = re.findall(r"- alert: (\w+)", rules)
        self.assertEqual(len(re.findall("runbook_url: ", rules)), len(alerts))
        self.assertEqual(set(alerts), {alert for _, of in CASES.values() for alert in of})
        page = (ROOT / "docs/operations.md").read_text()
        anchors = {line[4:].strip().lower().replace(" ", "-") for line in page.splitlines() if line.startswith("### ")}
        self.assertEqual(set(re.findall(r"runbook_url: RUNBOOKS#(\S+)", rules)) - anchors, set())


if __name__ == "__main__":
    if shutil.which("promtool") is None:
        print("skipped: no `promtool`; Debian's package prometheus has it")
        sys.exit(77)
    unittest.main(verbosity=2)
