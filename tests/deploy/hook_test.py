#!/usr/bin/env python3
"""docker/hand-over, the hook before a shard's pod stops, with a program in place of `paceline` that says what the test wants.
With real processes: tests/integration/scale_test.py."""

import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

HOOK = Path(__file__).resolve().parents[2] / "docker/hand-over"
PROGRAM = """#!/bin/sh
echo "$@" >>"$CALLS"
case $1 in
  drain)
    echo "$DRAIN_SAYS"
    for look in $(seq 200); do
      if grep -qF "$DRAIN_SAYS" "$PACELINE_LOG"; then break; fi
      sleep 0.05
    done
    grep -qF "$DRAIN_SAYS" "$PACELINE_LOG" || exit 70  # the log has each line as it comes
    nth=$(grep -c ^drain "$CALLS")
    set -- $DRAIN_EXITS
    while [ $# -gt 1 ] && [ "$nth" -gt 1 ]; do shift; nth=$((nth - 1)); done
    exit "$1"
    ;;
  handover) echo "$HANDOVER_SAYS"; exit "$HANDOVER_EXITS" ;;
esac
exit 64
"""


class HookTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        program = self.folder / "paceline"
        program.write_text(PROGRAM)
        program.chmod(0o755)

    def hook(self, *arguments, drain, handover=(0, "handed over"), away=1):
        """Its calls and its log; it must succeed. `drain`: exit codes of one call after the other, and what it says."""
        for name in ("calls", "log"):
            self.folder.joinpath(name).write_text("")
        environment = {"PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}", "POD_NAME": "ps-shard-4", "PACELINE_AWAY_SECONDS": str(away),
                       "CALLS": str(self.folder / "calls"), "PACELINE_LOG": str(self.folder / "log"),
                       "DRAIN_EXITS": str(drain[0]), "DRAIN_SAYS": drain[1],
                       "HANDOVER_EXITS": str(handover[0]), "HANDOVER_SAYS": handover[1]}
        done = subprocess.run(["sh", HOOK, *map(str, arguments)], env=environment, timeout=60)
        self.assertEqual(done.returncode, 0)
        return self.folder.joinpath("calls").read_text().splitlines(), self.folder.joinpath("log").read_text()

    def test_a_shard_that_is_not_wanted_drains_and_nothing_else(self):
        calls, log = self.hook(90, 1, drain=(0, "3 shards are wanted: it drains"))
        self.assertEqual(len(calls), 1)
        self.assertRegex(calls[0], "^drain ps-shard-4 --if-unwanted --wait --timeout (90|89)$")
        self.assertIn("3 shards are wanted", log)

    def test_one_that_comes_back_hands_over(self):
        calls, log = self.hook(90, 1, drain=(3, "it comes back"))
        self.assertEqual(calls[1:], ["handover ps-shard-4 --timeout 10"])
        self.assertIn("it comes back", log)
        self.assertIn("handed over", log)

    def test_without_copies_there_is_nobody_to_hand_over_to(self):
        calls, _ = self.hook(90, 0, drain=(3, "it comes back"))
        self.assertEqual(len(calls), 1)

    def test_a_coordinator_that_comes_back_is_asked_again(self):
        calls, log = self.hook(90, 1, drain=("4 4 0", "the coordinator"), away=30)
        self.assertEqual([call.split()[0] for call in calls], ["drain"] * 3)
        self.assertNotIn("stopping", log)

    def test_and_then_the_shard_that_comes_back_hands_over(self):
        calls, _ = self.hook(90, 1, drain=("4 3", "the coordinator"), away=30)
        self.assertEqual([call.split()[0] for call in calls], ["drain", "drain", "handover"])

    def test_asking_again_does_not_outlast_its_time(self):
        began = time.monotonic()
        calls, _ = self.hook(2, 0, drain=(4, "no coordinator answers"), away=60)
        self.assertLess(time.monotonic() - began, 20)
        self.assertRegex(calls[-1], "--timeout 1$")

    def test_without_a_coordinator_it_gives_up_soon(self):
        began = time.monotonic()
        calls, log = self.hook(50, 1, drain=(4, "no coordinator answers"), handover=(1, "no coordinator answers"))
        self.assertLess(time.monotonic() - began, 20)
        self.assertGreater(len(calls), 2)
        self.assertIn("no coordinator for 1 s, stopping without", log)

    def test_it_does_not_outlast_its_time(self):
        calls, log = self.hook(2, 1, drain=(1, "they still drain"), handover=(1, "a copy is missing"))
        self.assertIn("they still drain", log)
        self.assertIn("not done in 2 s, stopping all the same: a copy is missing", log)
        self.assertEqual(calls[-1], "handover ps-shard-4 --timeout 5")
        self.assertGreater(len(calls), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
