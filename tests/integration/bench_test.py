#!/usr/bin/env python3
"""Every workload of paceline-bench runs in its smallest size, and its results have what scripts read."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BIN = os.environ["PACELINE_BIN"]
ROOT = Path(__file__).resolve().parents[2]


class BenchTest(unittest.TestCase):
    def run_bench(self, *arguments, near=False):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            sockets = ["--socket-dir", f"{folder}/sockets"] if near else ["--no-shared-memory"]
            done = subprocess.run([f"{BIN}/paceline", "up", "--shards", "1", "--port", "0", "--snapshot-dir",
                                   f"{folder}/snapshots", *sockets, "--",
                                   f"{BIN}/paceline-bench", *arguments, "--smallest", "--json", out],
                                  capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return json.loads(out.read_text()), done.stdout

    def check(self, workload, metrics, *arguments):
        results, printed = self.run_bench(workload, *arguments)
        self.assertLessEqual(metrics, {result["metric"] for result in results})
        for result in results:
            self.assertEqual(set(result), {"workload", "params", "metric", "value", "limit_name", "limit", "ratio",
                                           "better"})
            self.assertEqual(result["workload"], workload)
            self.assertTrue(result["params"])
            self.assertIn(result["better"], ("lower", "higher"))
            self.assertGreater(result["limit"], 0, result)
            # CPU time is counted in steps that the smallest size may not fill.
            if "CPU" not in result["metric"]:
                self.assertGreater(result["value"], 0, result)
            self.assertAlmostEqual(result["ratio"], result["value"] / result["limit"], places=6)
            self.assertIn(result["metric"], printed)

    def test_shared_memory(self):
        for workload in ("dense", "sparse", "latency"):
            with self.subTest(workload):
                results, _ = self.run_bench(workload, near=True)
                near = [r for r in results if r["params"].get("transport") == "shared memory"]
                self.assertGreaterEqual(len(near), 4)
                self.assertGreater(len(results), len(near))
                for result in near:
                    self.assertGreater(result["limit"], 0, result)

    def test_snapshots(self):
        self.check("snapshots", {"pull p50 ms", "pull p99 ms", "longest copy ms"})

    def test_dense(self):
        self.check("dense", {"push GB/s", "pull GB/s", "bare gRPC push GB/s", "bare gRPC pull GB/s"})

    def test_sparse(self):
        self.check("sparse", {"push keys/s", "pull keys/s"})

    def test_zipf(self):
        self.check("zipf", {"push keys/s", "pull keys/s"})

    def test_mixed(self):
        self.check("mixed", {"push and pull keys/s"})

    def test_latency(self):
        self.check("latency", {"push p50 us", "pull p50 us"})

    def test_cached(self):
        self.check("cached", {"cached pull ns/row", "push_pull p50 us", "pull, push, tick: us a batch"})

    def test_memory(self):
        self.check("memory", {"resident bytes a row", "counted bytes a row"})

    def test_lr(self):
        self.check("lr", {"epoch s", "epoch CPU-s", "mean loss", "epoch s with the cache"})

    def test_lr_on_one_kind_of_table(self):
        results, _ = self.run_bench("lr", "--table", "ranged")
        self.assertEqual({result["params"]["table"] for result in results}, {"ranged"})

    def run_by_itself(self, workload):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            done = subprocess.run([f"{BIN}/paceline-bench", workload, "--smallest", "--json", out],
                                  capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return json.loads(out.read_text())

    def run_with_own_clusters(self, workload):
        """Its pushes, by what they are beside."""
        results = self.run_by_itself(workload)
        self.assertIn("push CPU-s/GB", {result["metric"] for result in results})
        pushes = {}
        for result in results:
            if result["metric"] == "push keys/s":
                pushes.setdefault(result["limit_name"], []).append(result)
        return pushes

    def test_filters(self):
        results = self.run_by_itself("filters")
        metrics = {f"{way} {what}" for way in ("push", "pull") for what in ("bytes/key", "CPU ns/key", "keys/s")}
        self.assertEqual({result["metric"] for result in results}, metrics)
        self.assertLessEqual({"none", "keys", "delta", "lz4", "zstd", "f16", "bf16", "int8"},
                             {result["params"]["filters"] for result in results})
        saved = {(r["params"]["filters"], r["params"]["dim"]): r["ratio"] for r in results
                 if r["metric"] == "push bytes/key"}
        self.assertEqual(saved["none", 2], 1)
        self.assertLess(saved["keys", 2], 0.9)
        self.assertLess(saved["int8", 16], 0.9)

    def test_replicas(self):
        pushes = self.run_with_own_clusters("replicas")["no replicas"]
        self.assertEqual([result["params"]["replicas"] for result in pushes], [0, 1, 2, 1, 2])
        self.assertEqual(pushes[0]["ratio"], 1)

    def test_disks(self):
        beside = self.run_with_own_clusters("disks")
        setups = lambda results: [(result["params"]["pushes"], result["params"]["replicas"], result["params"]["disks"])
                                  for result in results]
        sparse, whole = "1,000 rows of 16", "64 MB"
        self.assertEqual(setups(beside["no disks"]),
                         [(p, r, d) for p, r in ((sparse, 0), (sparse, 1), (whole, 0))
                          for d in ("none", "written behind", "acks durable")])
        for result in beside["no disks"]:
            if result["params"]["disks"] == "none":
                self.assertEqual(result["ratio"], 1)
        self.assertEqual(setups(beside["plain files, fdatasync"]),
                         [(sparse, 0, "acks durable"), (sparse, 1, "acks durable"), (whole, 0, "acks durable")])

    def test_skew(self):
        results = {result["metric"]: result for result in self.run_by_itself("skew")}
        after = results["max/mean rows/s after a minute"]
        self.assertGreaterEqual(after["value"], 1)
        self.assertEqual(after["params"]["shards"], 4)
        for stretch in after["params"]["over time"]:
            self.assertGreaterEqual(stretch["max/mean"], 1)

    def test_p3(self):
        results = self.run_by_itself("p3")
        for result in results:
            self.assertEqual(result["workload"], "p3")
            self.assertEqual(result["better"], "lower")
        first = results[0]
        self.assertEqual((first["params"]["variant"], first["metric"]), ("slices and priorities", "iteration ms"))
        if reason := first["params"].get("skipped"):
            self.assertIn("needs", reason)
            return
        self.assertGreater(first["value"], 0)
        self.assertEqual(len([r for r in results if r["params"]["variant"] == "sweep"]), 6)
        loss = next(r for r in results if r["metric"] == "last loss")
        self.assertLess(loss["ratio"], 1)

    def test_elastic(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            done = subprocess.run([f"{BIN}/paceline-bench", "elastic", "--smallest", "--json", out],
                                  capture_output=True, text=True, timeout=500)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            results = json.loads(out.read_text())
        moves = [result for result in results if "move" in result["params"]]
        self.assertEqual({result["params"]["move"] for result in moves},
                         {"3 to 6 shards", "6 to 3, cancelled", "6 to 3 shards"})
        self.assertEqual({result["metric"] for result in moves}, {"pull p99 ms", "seconds"})
        for text in "0 copies, acks durable: round 1 of 1: 3 to 6 shards, with a shard killed, took", "newcomer 2 of 2":
            self.assertIn(text, done.stderr)
        self.check_newcomer([result for result in results if "newcomer" in result["params"]])

    def check_newcomer(self, results):
        self.assertEqual({result["metric"] for result in results},
                         {"more staleness wait ms", "staleness wait ms", "first push ms", "slowest first push ms"})
        for result in results:
            self.assertEqual(result["params"]["workers"], 8)
            self.assertGreater(result["limit"], 0)
        first = {result["metric"]: result["value"] for result in results}["first push ms"]
        self.assertGreater(first, 0)

    def test_a_newcomer_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            done = subprocess.run([f"{BIN}/paceline-bench", "elastic", "--only", "newcomer", "--smallest", "--json", out],
                                  capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.check_newcomer(json.loads(out.read_text()))

    def test_consistency(self):
        results = self.run_by_itself("consistency")
        pictures = {}
        for result in results:
            self.assertEqual(result["workload"], "consistency")
            self.assertGreaterEqual(result["value"], 0, result)
            self.assertGreater(result["limit"], 0, result)
            self.assertAlmostEqual(result["ratio"], result["value"] / result["limit"], places=6)
            pictures.setdefault(result["params"]["picture"], []).append(result)
        self.assertLessEqual({"staleness", "convergence", "waiting", "delay", "none"}, set(pictures))
        for result in pictures["staleness"]:
            self.assertGreater(sum(result["params"]["reads"].values()), 0)
            self.assertLessEqual(max(map(int, result["params"]["reads"])), 10)
        curves = {(r["params"]["job"], r["params"]["model"]): r["params"]["curve"] for r in pictures["convergence"]
                  if "curve" in r["params"]}
        for job in ("matrix factorisation", "topics (LDA)"):
            for model in ("bsp", "ssp:0", "essp:0", "ssp:3", "essp:3"):
                self.assertGreater(len(curves[job, model]), 5)
        self.assertEqual([r["params"]["tau"] for r in pictures["delay"] if "rate" in r["params"]], [0, 2, 16])

    def test_consistency_needs_a_file_for_its_picture(self):
        done = subprocess.run([f"{BIN}/paceline-bench", "consistency", "--plot", "out.png"], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--json", done.stderr)

    def test_rules(self):
        results = self.run_by_itself("rules")
        self.assertEqual({result["params"]["rule"] for result in results}, {"sgd", "adagrad", "ftrl_proximal", "adam"})
        for result in results:
            self.assertEqual((result["metric"], result["limit_name"]), ("ns a row", "built in"))

    def test_restart(self):
        results = self.run_by_itself("restart")
        self.assertEqual([result["params"]["page_cache"] for result in results], ["warm", "cold"])
        for result in results:
            self.assertGreater(result["value"], 0)
            self.assertGreater(result["limit"], 0)

    def test_several(self):
        results = self.run_by_itself("several")
        self.assertEqual({(r["params"]["shards"], r["params"]["clients"], r["limit_name"]) for r in results},
                         {(2, 1, "one shard")} | {(1, n, "the best with fewer clients") for n in (2, 4, 8)})
        self.assertEqual({r["metric"] for r in results}, {"push keys/s", "pull keys/s"})
        for result in results:
            self.assertGreater(result["value"], 0)
            self.assertGreater(result["limit"], 0)
            self.assertIn("goal", result["params"])

    def run_peers(self, *arguments, path=None):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            done = subprocess.run([f"{BIN}/paceline-bench", "peers", "--smallest", "--json", out, *arguments],
                                  capture_output=True, text=True, timeout=300,
                                  env={**os.environ, **({} if path is None else {"PATH": path})})
            self.assertTrue(out.exists(), done.stdout + done.stderr)
            # The table of docs/performance.md is made from it.
            table = subprocess.run([sys.executable, ROOT / "scripts/figures", "--print", out], capture_output=True, text=True,
                                   timeout=60)
            self.assertEqual(table.returncode, 0, table.stderr)
            return json.loads(out.read_text()), done, table.stdout

    def test_peers_that_are_absent_are_skipped_and_do_not_pass(self):
        results, done, table = self.run_peers("--check", path="/nowhere")  # neither ps-lite nor Redis
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("skipped: ps-lite flat: --ps-lite DIR is not given", done.stdout)
        self.assertIn("skipped", table)
        goals = set()
        for result in results:
            self.assertEqual(set(result), {"workload", "params", "metric", "value", "limit_name", "limit", "ratio", "better"})
            params = result["params"]
            absent = result["limit_name"] in ("ps-lite flat", "ps-lite map", "Redis")
            self.assertEqual("skipped" in params, absent, result)
            if absent:
                self.assertIsNone(result["limit"], result)
                self.assertIsNone(result["ratio"], result)
                if "goal" in params:
                    self.assertIs(params["passes"], False, result)
                    goals.add(result["better"])
            elif "CPU" not in result["metric"]:
                self.assertGreater(result["limit"], 0, result)
                self.assertAlmostEqual(result["ratio"], result["value"] / result["limit"], places=6)
        # An absent limit of 0 would be reached by whatever is to be low.
        self.assertEqual(goals, {"lower", "higher"})

    def test_peers_have_the_rows_that_scripts_read(self):
        results, done, _ = self.run_peers()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = {(r["params"]["data"], r["params"]["batch"], r["params"]["outstanding"], r["params"]["table"], r["metric"],
                  r["limit_name"]) for r in results if "batch" in r["params"]}
        for op in ("push", "pull"):
            self.assertIn(("dense 1 MB", 4096, 1, "ranged", f"{op} GB/s", "raw TCP"), found)
            self.assertIn(("rows of 1 value", 1, 1, "sparse", f"{op} p50 us", "bare gRPC ping-pong"), found)
            for kind in ("ranged", "sparse"):
                self.assertIn(("rows of 16 values", 1000, 1, kind, f"{op} keys/s", "memcpy"), found)
                for metric in ("keys/s", "p50 us", "p99 us", "CPU ns/key", "client CPU ns/key", "server CPU ns/key"):
                    self.assertIn(("rows of 16 values", 1000, 8, kind, f"{op} {metric}", "ps-lite flat"), found)
        metrics = {result["metric"] for result in results}
        self.assertLessEqual({"resident bytes/row", "foreign CPU seconds"}, metrics)
        redis = [result for result in results if result["limit_name"] == "Redis"]
        self.assertTrue(redis)
        for result in redis:
            self.assertEqual("skipped" in result["params"], shutil.which("redis-server") is None, result)

    def test_without_a_cluster_the_address_is_named(self):
        done = subprocess.run([f"{BIN}/paceline-bench", "dense", "--coordinator", "127.0.0.1:1"], capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn("127.0.0.1:1", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
