#!/usr/bin/env python3
"""The job trains under SSP(0), SSP(2), SSP(8), ESSP(2), ESSP(8), ASP and BSP with 1, 2, 4 workers on 1, 2, 5 shards, and keeps its contract.

contract_worker checks values against the model; here what the workers counted is compared with what the shards
counted, and the staleness that must and must not be seen with what was seen.
"""
import json
import os
import re
import subprocess
import sys
import unittest
import urllib.request

BIN = os.environ["PACELINE_BIN"]
WORKER = os.environ["CONTRACT_WORKER"]


def inside():
    """Runs as the command of `paceline up`: the work, then the shards' own counters."""
    done = subprocess.run([WORKER], capture_output=True, text=True, timeout=300)
    result = {"exit": done.returncode, "stderr": done.stderr[-2000:], "work": None}
    if done.stdout.strip():
        result["work"] = json.loads(done.stdout)
    status = json.loads(subprocess.run([f"{BIN}/paceline", "status", "--json"], capture_output=True, text=True,
                                       check=True, timeout=30).stdout)
    result["shards"] = 0
    result["rows_pushed_by_shards"] = 0
    result["near_streams"] = 0
    for shard in status["shards"]:
        page = urllib.request.urlopen(f"http://{shard['metrics_address']}/metrics", timeout=10).read().decode()
        rows = re.search(r"^paceline_shard_rows_pushed_total (\S+)$", page, re.M)
        result["rows_pushed_by_shards"] += int(float(rows.group(1)))
        near = re.search(r'^paceline_shard_shared_memory_offers_total{from="clients",result="taken"} (\S+)$', page, re.M)
        result["near_streams"] += int(float(near.group(1))) if near else 0
        result["shards"] += 1
    print(json.dumps(result))


class ContractTest(unittest.TestCase):
    def check(self, shards):
        near = os.environ.get("PACELINE_SOCKET_DIR", "")
        how = ["--socket-dir", near] if near else ["--no-shared-memory"]
        up = subprocess.run([f"{BIN}/paceline", "up", "--shards", str(shards), "--port", "0", *how, "--", sys.executable,
                             os.path.abspath(__file__), "--inside"],
                            capture_output=True, text=True, timeout=400)
        lines = [line for line in up.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(up.returncode, 0, up.stdout[-3000:] + up.stderr[-3000:])
        result = json.loads(lines[-1])
        self.assertIsNotNone(result["work"], f"contract_worker ended with {result['exit']}: {result['stderr']}")
        runs = {(run["model"], run["workers"]): run for run in result["work"]["runs"]}
        self.assertEqual(len(runs), 21)
        for which, run in runs.items():
            self.assertEqual(run["error"], "", which)
        self.assertEqual(result["shards"], shards)
        self.assertEqual(result["near_streams"] > 0, bool(near), result["near_streams"])
        self.assertGreater(result["work"]["rows_pushed"], 0)
        self.assertEqual(result["work"]["rows_pushed"], result["rows_pushed_by_shards"])
        for workers in (2, 4):
            self.assertEqual(runs["ssp:0", workers]["staleness_by_values"], 0)
            self.assertEqual(runs["bsp", workers]["staleness_by_certificates"], 0)
            for how in ("staleness_by_values", "staleness_by_certificates"):
                self.assertGreater(runs["ssp:8", workers][how], 0)
                self.assertLessEqual(runs["ssp:8", workers][how], 8)
                self.assertGreater(runs["asp", workers][how], 8)
                self.assertLessEqual(runs["essp:2", workers][how], 2)
                self.assertLessEqual(runs["essp:8", workers][how], 8)
        self.check_in_step({run["model"]: run for run in result["work"]["in_step"]})

    def check_in_step(self, runs):
        """Under SSP values are as old as the bound lets them become, under ESSP as old as the shards' updates are rare."""
        for run in runs.values():
            self.assertEqual(run["error"], "", run)

        def share(model, staleness):
            rows = runs[model]["observed"]
            return sum(count for clocks, count in rows if clocks <= staleness) / sum(count for _, count in rows)

        print({model: (run["observed"], run["rows_pulled"], run["rows_from_cache"], run["rows_refreshed"])
               for model, run in runs.items()})
        self.assertGreaterEqual(share("essp:8/each", 1), 0.9)
        self.assertGreaterEqual(share("essp:8", 5), 0.9)
        self.assertLess(share("ssp:8", 1), 0.75)
        for model in ("essp:8", "essp:8/each"):
            self.assertGreater(runs[model]["rows_refreshed"], 0)
            # Without its own rows, which a push makes unfit, a worker reads two thirds of all rows.
            self.assertGreater(runs[model]["rows_from_cache"], runs[model]["rows_pulled"])

    def test_1_shard(self):
        self.check(1)

    def test_2_shards(self):
        self.check(2)

    def test_5_shards(self):
        self.check(5)


if __name__ == "__main__":
    if sys.argv[1:] == ["--inside"]:
        inside()
    else:
        unittest.main(verbosity=2)
