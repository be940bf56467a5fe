#!/usr/bin/env python3
"""Which tests a commit runs, and what is said of them."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import ctest_tiers

TESTS = ([("ring_test", ["unit"]), ("sim_test", ["sim", "sanitized"]), ("wide", ["slow"]), ("wire_test", ["process", "covering"])]
         + [(f"process_{i}", ["process"]) for i in range(8)])
JUNIT = """<?xml version="1.0"?>
<testsuite name="x" tests="4" failures="1" skipped="1">
  <testcase name="good" time="1.5" status="run"><system-out>[       OK ] A.B (0 ms)
[  SKIPPED ] Streams.Chunks (0 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Streams.Chunks
</system-out></testcase>
  <testcase name="bad" time="20" status="fail"><failure message=""/><system-out>line 1
line 2
</system-out></testcase>
  <testcase name="chart" time="3" status="run"><system-out>test_lint (__main__.ChartTest.test_lint) ... skipped 'no helm'
</system-out></testcase>
  <testcase name="boards" time="0.1" status="notrun"><skipped message=""/><system-out>skipped: no `prometheus`
</system-out></testcase>
</testsuite>
"""


class PickTest(unittest.TestCase):
    def test_units_simulator_and_the_covering_set_always_slow_ones_never(self):
        for commit in ("a", "b", "c"):
            names = ctest_tiers.pick(TESTS, commit)
            self.assertLessEqual({"ring_test", "sim_test", "wire_test"}, set(names))
            self.assertNotIn("wide", names)

    def test_every_commit_runs_a_third_of_the_rest_and_three_kinds_of_commits_all(self):
        thirds = {frozenset(n for n in ctest_tiers.pick(TESTS, str(i)) if n.startswith("process_")) for i in range(50)}
        self.assertEqual(sorted(map(len, thirds)), [2, 3, 3])
        self.assertEqual(len(frozenset().union(*thirds)), 8)

    def test_the_same_commit_runs_the_same(self):
        self.assertEqual(ctest_tiers.pick(TESTS, "a"), ctest_tiers.pick(TESTS, "a"))
        self.assertEqual(ctest_tiers.seeds("a"), ctest_tiers.seeds("a"))

    def test_commits_have_600_seeds_of_their_own_beyond_those_that_tests_name(self):
        first, last = ctest_tiers.seeds("a")
        self.assertEqual(last - first + 1, 600)
        self.assertGreater(first, 10_000)
        self.assertNotEqual(ctest_tiers.seeds("b"), (first, last))


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "ctest.xml").write_text(JUNIT)
        self.cases = ctest_tiers.cases(folder / "ctest.xml")
        self.nothing = ctest_tiers.cases(folder / "nowhere.xml")

    def test_counts(self):
        self.assertEqual(ctest_tiers.count(self.cases), (2, 1, 1))
        self.assertEqual(ctest_tiers.count(self.nothing), (0, 0, 0))

    def test_failed_ones_come_last_with_the_end_of_their_output(self):
        with mock.patch.object(ctest_tiers, "LAST_LINES", 1):
            lines, _ = ctest_tiers.report([("release", self.cases)])
        self.assertEqual(lines[-2:], ["failed: bad (release), which printed at its end:", "  line 2"])

    def test_slowest_tests_first_and_skipped_ones_by_name_and_reason(self):
        lines, skipped = ctest_tiers.report([("release", self.cases)])
        self.assertIn("bad (release)", lines[1])
        self.assertEqual(lines[-6:-3], ["  good: Streams.Chunks (release): skipped",
                                      "  chart: test_lint (__main__.ChartTest.test_lint) (release): no helm",
                                      "  boards (release): skipped: no `prometheus`"])
        self.assertEqual(skipped, 3)
        self.assertEqual(ctest_tiers.report([("tsan", self.nothing)]), (["the slowest tests:", "skipped: none"], 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
