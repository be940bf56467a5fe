#!/usr/bin/env python3
"""Two jobs train side by side; tables are dropped, rates changed and jobs deleted meanwhile, from the command line."""
import json
import os
import re
import subprocess
import unittest
import urllib.request

BIN = os.environ["PACELINE_BIN"]
PACELINE = f"{BIN}/paceline"
WORKER = os.environ["JOBS_WORKER"]
WAIT = 120  # seconds for events that should come soon


class JobsTest(unittest.TestCase):
    def setUp(self):
        self.up = subprocess.Popen([PACELINE, "up", "--shards", "2", "--port", "0"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, self.up)
        line = self.up.stdout.readline()
        self.coordinator = re.fullmatch(r"ready coordinator=(\S+)\n", line)[1]

    def end(self, process):
        process.terminate()
        process.wait(WAIT)
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()

    def run_cli(self, *arguments, code=0):
        done = subprocess.run([PACELINE, *arguments, "--coordinator", self.coordinator], capture_output=True,
                              text=True, timeout=WAIT)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments):
        return json.loads(self.run_cli(*arguments, "--json"))

    def train(self, job, workers):
        process = subprocess.Popen([WORKER, job, str(workers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env={**os.environ, "PACELINE_COORDINATOR": self.coordinator})
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "training\n")
        return process

    def stop(self, process):
        """What its training came to; its reader's session stays open until it is told once more."""
        process.stdin.write("\n")
        process.stdin.flush()
        result = json.loads(process.stdout.readline())
        self.assertEqual(result["error"], "")
        return result

    def let_go(self, process):
        process.stdin.write("\n")
        process.stdin.close()
        process.stdin = None
        self.assertEqual(process.wait(WAIT), 0)

    def test_changes_of_one_job_leave_the_other_alone(self):
        ctr = self.train("ctr", 2)
        news = self.train("news", 2)

        jobs = {job["name"]: job for job in self.json("job", "list")}
        self.assertEqual(sorted(jobs), ["ctr", "news"])
        for job in jobs.values():
            self.assertEqual([s["state"] for s in job["sessions"]], ["worker"] * 2)
        tables = self.json("table", "list")
        self.assertEqual(sorted(t["name"] for t in tables), ["scratch", "scratch", "weights", "weights"])
        self.assertEqual(len({t["id"] for t in tables}), 4)
        status = self.run_cli("status")
        self.assertIn("\nJob ctr: min clock", status)
        self.assertIn("\nJob news: min clock", status)
        self.assertRegex(self.run_cli("table", "list", "ctr"), r"weights .* sgd lr=1 ")

        # Rates at a clock agreed while both train, of one job's table only.
        changed = self.json("table", "set", "ctr", "weights", "lr=0.5")
        clock = int(changed["rule_clock"])
        self.assertGreater(clock, 0)
        self.assertEqual(changed["created_rule"]["sgd"]["learning_rate"], 1)
        again = self.run_cli("table", "set", "ctr", "weights", "lr=0.5")
        self.assertEqual(again, f"table 'weights' of job 'ctr': sgd lr=0.5 from clock {clock} on\n")

        # A table dropped under its user.
        before = {t["name"]: t["id"] for t in self.json("table", "list", "ctr")}
        self.assertEqual(self.run_cli("table", "drop", "ctr", "scratch"),
                         f"table 'scratch' ({before['scratch']}) of job 'ctr' is dropped\n")

        # Refusals say what was wrong.
        for arguments, words in ((("table", "drop", "ctr", "nothing"), "job 'ctr' has no table 'nothing'"),
                                 (("table", "drop", "nobody", "weights"), "job 'nobody' does not exist"),
                                 (("table", "set", "ctr", "weights", "alpha=1"), "the rule sgd has lr"),
                                 (("table", "set", "ctr", "weights", "lr=-1"), "rule.lr is -1"),
                                 (("table", "set", "news", "scratch", "lr=1"), "add has no rates"),
                                 (("job", "delete", "ctr"), "has 2 open sessions"),
                                 (("job", "delete", "nobody"), "job 'nobody' does not exist")):
            self.assertIn(words, self.run_cli(*arguments, code=1), arguments)
        self.assertNotEqual(self.run_cli("table", "set", "ctr", "weights", code=2), "")

        # The workers have opened a new table of that name by now, or will before they end.
        while "scratch" not in {t["name"] for t in self.json("table", "list", "ctr")}:
            pass
        of_ctr, of_news = self.stop(ctr), self.stop(news)
        self.assertGreater(of_ctr["clocks"], clock)
        self.assertEqual(of_ctr["weights"], -2 * (clock + 0.5 * (of_ctr["clocks"] - clock)))
        self.assertEqual(of_news["weights"], -2 * of_news["clocks"])
        self.assertEqual(of_ctr["scratch_opened"], 1)
        self.assertEqual(of_ctr["scratch"], of_ctr.get("scratch_pushes", 0))
        self.assertEqual(of_news["scratch"], of_news["clocks"])

        # The changes that the jobs' own clients made after the workers had ended.
        for result in (of_ctr, of_news):
            self.assertEqual((result["rates_from"], result["later_rates_from"]), (0, 1000000))
            self.assertIn("was dropped", result["pull_of_dropped"])
            self.assertIn("table 'scratch' of job", result["open_of_dropped"])

        # Without active workers new rates count at once.
        at_once = self.run_cli("table", "set", "ctr", "weights", "lr=0.25")
        self.assertEqual(at_once, "table 'weights' of job 'ctr': sgd lr=0.25 at once\n")

        # One job goes, by force, for its reader is still there; the other stays.
        held = sum(self.job_rows().values())
        self.assertEqual(self.run_cli("job", "delete", "ctr", "--force"), "job 'ctr' is deleted\n")
        self.assertEqual([job["name"] for job in self.json("job", "list")], ["news"])
        self.assertEqual([t["name"] for t in self.json("table", "list")], ["weights"])
        rows = self.job_rows()
        self.assertEqual(len(rows), 1, rows)
        self.assertLess(sum(rows.values()), held)
        self.let_go(ctr)
        self.let_go(news)
        self.run_cli("job", "delete", "news")
        self.assertEqual(self.run_cli("job", "list"), "No jobs.\n")
        self.assertEqual(self.run_cli("table", "list"), "No tables.\n")
        self.assertEqual(self.json("table", "list"), [])
        self.assertIn("job 'news' does not exist", self.run_cli("table", "list", "news", code=1))
        self.assertEqual(sum(self.job_rows().values()), 0)

        # The names are free, and what was learnt is gone.
        again = self.train("ctr", 1)
        result = self.stop(again)
        self.assertEqual(result["weights"], -result["clocks"])
        for answer in (r"OK\n", r"NOT_FOUND: job 'ctr' does not exist.*\n"):
            done = subprocess.run([WORKER, "ctr", "0"], capture_output=True, text=True, timeout=WAIT,
                                  env={**os.environ, "PACELINE_COORDINATOR": self.coordinator})
            self.assertRegex(done.stdout, answer)

    def job_rows(self):
        """Rows by job, as the shards' metrics have them."""
        rows = {}
        for shard in self.json("status")["shards"]:
            page = urllib.request.urlopen(f"http://{shard['metrics_address']}/metrics", timeout=10).read().decode()
            for job, count in re.findall(r'^paceline_shard_job_rows\{job_id="(\d+)"\} (\S+)$', page, re.M):
                rows[job] = rows.get(job, 0) + int(float(count))
        return rows


if __name__ == "__main__":
    unittest.main(verbosity=2)
