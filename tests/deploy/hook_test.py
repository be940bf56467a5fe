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
  drain) echo "$DRAIN_SAYS"; exit "$DRAIN_EXITS" ;;
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

    def hook(self, *arguments, drain, handover=(0, "handed over")):
        """Its calls and its log; it must succeed."""
        for name in ("calls", "log"):
            self.folder.joinpath(name).write_text("")
        environment = {"PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}", "POD_NAME": "ps-shard-4", "PACELINE_AWAY_SECONDS": "1",
                       "CALLS": str(self.folder / "calls"), "PACELINE_LOG": str(self.folder / "log"),
                       "DRAIN_EXITS": str(drain[0]), "DRAIN_SAYS": drain[1],
                       "HANDOVER_EXITS": str(handover[0]), "HANDOVER_SAYS": handover[1]}
        done = subprocess.run(["sh", HOOK, *map(str, arguments)], env=environment, timeout=60)
        self.assertEqual(done.returncode, 0)
        return self.folder.joinpath("calls").read_text().splitlines(), self.folder.joinpath("log").read_text()

    def test_a_shard_that_is_not_wanted_drains_and_nothing_else(self):
        calls, log = self.hook(90, 1, drain=(0, "3 shards are wanted: it drains"))
        self.assertEqual(calls, ["drain ps-shard-4 --if-unwanted --wait --timeout 90"])
        self.assertIn("3 shards are wanted", log)

    def test_one_that_comes_back_hands_over(self):
        calls, log = self.hook(90, 1, drain=(3, "it comes back"))
        self.assertEqual(calls[1:], ["handover ps-shard-4 --timeout 10"])
        self.assertIn("it comes back", log)
        self.assertIn("handed over", log)

    def test_without_copies_there_is_nobody_to_hand_over_to(self):
        calls, _ = self.hook(90, 0, drain=(3, "it comes back"))
        self.assertEqual(len(calls), 1)

    def test_without_a_coordinator_it_gives_up_soon(self):
        began = time.monotonic()
        calls, log = self.hook(50, 1, drain=(1, "no coordinator answers"), handover=(1, "no coordinator answers"))
        self.assertLess(time.monotonic() - began, 20)
        self.assertGreater(len(calls), 2)
        self.assertIn("no coordinator for 1 s, stopping without", log)

    def test_it_does_not_outlast_its_time(self):
        calls, log = self.hook(2, 1, drain=(1, "they still drain"), handover=(1, "a copy is missing"))
        self.assertIn("they still drain", log)
        self.assertIn("not done in 2 s, stopping all the same: a copy is missing", log)
        self.assertGreater(len(calls), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
