#!/usr/bin/env python3
"""Every query of the dashboards has data from a real Prometheus that scrapes a real cluster: all but those of failures that
need a broken machine show something other than 0.

Starts a coordinator, three shards, workers and Prometheus, and lets happen what the panels are there to show: a straggler,
a shard that is killed and started again, a hand-over, a shard that stands still. Ends with 77, skipped, without Prometheus.
"""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import watched
from charttools import WAIT, until
from watched import BIN, RULES

ROOT = Path(__file__).resolve().parents[2]
DASHBOARDS = sorted((ROOT / "deploy/helm/paceline/dashboards").glob("*.json"))
SCRAPE = "250ms"
WINDOW = "3s"  # for $__rate_interval, some scrapes long
CLUSTER = "test"


def queries():
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):  # rows have none
                yield path.stem, panel["title"], target["expr"]


# What no healthy machine shows: they must have series, which may be 0.
MAY_BE_ZERO = re.compile("store_failures|leads_ended|disk_state|keys_too_hot|staged_bytes|calls_repeated|copies_moving|"
                         "copies_left|draining|min_over_time|schedule_failures")


def metrics_of(expr):
    return set(re.findall(r"\b(?:paceline|process)_\w+(?=\{)", expr))


def plain(expr):
    return watched.plain(expr, CLUSTER, WINDOW)


class DashboardsTest(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.prometheus = watched.Prometheus(self.stack, folder, RULES, SCRAPE)
        self.cluster = watched.Cluster(self.stack, folder, CLUSTER)
        self.cluster.write_targets()

    def until(self, what, condition):
        until(what, condition, tell=self.cluster.status)

    def train(self):
        data = self.cluster.folder / "data-set"
        subprocess.run([sys.executable, ROOT / "examples/sparse_lr/make_data.py", data], check=True)
        workers = [self.worker("train", index) for index in (0, 1)]
        self.cluster.spawn("count", "paceline-count", "--coordinator", self.cluster.coordinator, "--job", "count",
                           "--rows", "200000", "--clocks", "1000000")
        return workers

    def worker(self, job, index):
        """One of two that start together."""
        return self.cluster.trainer(job, index, self.cluster.folder / "data-set")

    def trouble(self, workers):
        """What the panels are there to show."""
        self.until("a clock", lambda: any(int(job.get("min_clock", 0)) > 50 for job in self.cluster.status()["jobs"]))
        subprocess.run([f"{BIN}/paceline", "snapshot", "schedule", "train", "--every", "2s", "--keep", "2", "--coordinator",
                        self.cluster.coordinator], capture_output=True, check=True)
        self.until("a snapshot", lambda: self.seen('paceline_coordinator_snapshots_total{what="taken"} > 1'))
        alone = self.worker("alone", 0)
        self.until("a worker waits for the other", lambda: self.waits_alone() and
                   self.seen("paceline_coordinator_requests_waiting > 0"))
        alone.kill()
        alone.wait()
        self.until("an eviction", lambda: self.seen("paceline_coordinator_evictions_total > 0"))
        workers[0].send_signal(signal.SIGSTOP)
        self.until("the other worker waits", lambda: self.seen("paceline_shard_parked_reads > 0"))
        self.until("the worker is seen behind", lambda: self.seen("paceline_shard_worker_clocks_behind > 0"))
        workers[0].send_signal(signal.SIGCONT)
        self.cluster.shards["shard-0"].kill()
        self.cluster.shards["shard-0"].wait()
        self.until("a takeover", lambda: int(self.cluster.status().get("takeovers", 0)) > 0)
        self.until("the scrape of a silent shard", lambda: self.seen("paceline_coordinator_shards_alive < 3"))
        self.until("the scrape of missing copies",
                   lambda: self.seen("paceline_coordinator_segments_under_replicated > 0"))
        self.begin_again("shard-0")
        # Soon over on a fast disk: as often as it takes until a scrape has met it.
        self.until("the scrape of segments that a disk has not whole", self.written_anew)
        subprocess.run([f"{BIN}/paceline", "handover", "shard-1", "--coordinator", self.cluster.coordinator],
                       capture_output=True, check=True)
        self.until("the scrape of hand-overs", lambda: self.seen("paceline_coordinator_handovers_total > 0"))

    def waits_alone(self):
        """Its session is open: a worker that dies before that is not evicted."""
        return any(job["name"] == "alone" and job.get("sessions") for job in self.cluster.status()["jobs"])

    def begin_again(self, name):
        self.cluster.shards[name] = self.cluster.shard(name)
        self.cluster.write_targets()
        self.until("all copies", self.cluster.whole)

    def written_anew(self):
        self.cluster.shards["shard-0"].kill()
        self.cluster.shards["shard-0"].wait()
        shutil.rmtree(self.cluster.folder / "shard-0")
        self.begin_again("shard-0")
        return self.seen("max_over_time(paceline_shard_disk_incomplete_segments[10m]) > 0")

    def lose_data(self):
        """The last thing: no job goes on after it."""
        for name in ("shard-0", "shard-1", "shard-2"):
            self.cluster.shards[name].kill()
            self.cluster.shards[name].wait()
            shutil.rmtree(self.cluster.folder / name)
        for name in ("shard-0", "shard-1", "shard-2"):
            self.cluster.shards[name] = self.cluster.shard(name)
        self.cluster.write_targets()
        self.until("the scrape of lost segments", lambda: self.seen("paceline_coordinator_segments_lost > 0"))

    def check_one_series_a_shard(self):
        """Whatever has been started again meanwhile."""
        found = self.prometheus.get("query", query="count by (shard) (count_over_time(paceline_shard_push_frames_total[10m]))")
        self.assertEqual({series["metric"]["shard"] for series in found["result"]}, set(self.cluster.shards))

    def seen(self, expr):
        return bool(self.prometheus.get("query", query=expr)["result"])

    def await_panels(self, wanted, began):
        """Waits until each query has shown something other than 0 since then: some depend on when a scrape comes."""
        end = time.monotonic() + WAIT
        while wanted:
            empty = {}
            for query in wanted:
                values = self.prometheus.values(plain(query[2]), began, time.time())
                if not (values if MAY_BE_ZERO.search(query[2]) else any(values)):
                    empty[query] = "only zeros" if values else "no series"
            wanted = set(empty)
            if time.monotonic() > end:
                self.fail("\n".join(f"{query}: {why}" for query, why in empty.items()))

    def test_every_query_shows_something(self):
        self.until("the cluster is whole", self.cluster.whole)
        began = time.time()
        workers = self.train()
        self.trouble(workers)
        wanted = {(board, title, expr) for board, title, expr in queries()}
        self.assertGreater(len(wanted), 40)
        of_loss = {query for query in wanted if "segments_lost" in query[2]}
        self.await_panels(wanted - of_loss, began)
        self.lose_data()
        self.await_panels(of_loss, began)
        self.check_one_series_a_shard()
        print(f"{len(wanted)} queries of {len(DASHBOARDS)} dashboards show something other than 0")

    def test_no_query_hides_an_absence(self):
        for board, title, expr in queries():
            self.assertNotRegex(expr, r"\bor\b|\bvector\s*\(", f"{board}: {title}")


class GeneratorTest(unittest.TestCase):
    def test_the_queries_are_well_formed(self):
        """promtool reads each, annotations' too, as the expression of a rule."""
        expressions = [expr for _, _, expr in queries()]
        for path in DASHBOARDS:
            expressions += [annotation["expr"] for annotation in json.loads(path.read_text())["annotations"]["list"]]
        rules = [{"record": f"query:{i}", "expr": plain(expr)} for i, expr in enumerate(expressions)]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump({"groups": [{"name": "queries", "rules": rules}]}, file)
            file.flush()
            done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_metric_is_one_that_the_programs_export(self):
        """As it is written in the code, so that a name that is changed there is changed here."""
        code = "".join(path.read_text() for folder in ("services", "libs") for path in (ROOT / folder).rglob("*.cc"))
        exported = set(re.findall(r'"((?:paceline|process)_[a-z_]+)"', code))
        exported |= {f"paceline_coordinator_{name}" for name in re.findall(r'(?:show|count)\("([a-z_]+)"', code)}
        used = {name for _, _, expr in queries() for name in metrics_of(expr)}
        used |= set(re.findall(r"\b(?:paceline|process)_\w+(?=[{\[)]| )", re.sub(r"paceline_cluster", "", "\n".join(
            line for line in RULES.read_text().splitlines() if not re.search("summary|description|#", line)))))
        self.assertGreater(len(used), 60)
        self.assertEqual({name for name in used if re.sub("_(bucket|sum|count)$", "", name) not in exported}, set())

    def test_no_query_mixes_clusters_or_goes_by_pods(self):
        for board, title, expr in queries():
            for selector in re.findall(r"\{[^}]*\}", expr):
                self.assertIn('paceline_cluster="$cluster"', selector, f"{board}: {title}")
            self.assertNotRegex(expr, r"\b(pod|instance|namespace)\b", f"{board}: {title}")

    def test_the_files_are_what_the_generator_writes(self):
        subprocess.run([ROOT / "deploy/dashboards/generate", "--check"], check=True)

    def test_metrics_are_documented(self):
        page = (ROOT / "docs/metrics.md").read_text()
        for board, title, expr in queries():
            for name in metrics_of(expr):
                self.assertIn(f"`{re.sub('_(bucket|sum|count)$', '', name)}`", page, f"{board}: {title}")


if __name__ == "__main__":
    if shutil.which("prometheus") is None:
        print("skipped: no `prometheus`; Debian's package of that name has it")
        sys.exit(77)
    unittest.main(verbosity=2)
