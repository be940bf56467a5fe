#!/usr/bin/env python3
"""One consistency model and one kind of fault, PACELINE_CELL=MODEL:TARGET: real processes count on, exactly."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BIN = os.environ["PACELINE_BIN"]
MODEL, TARGET = os.environ["PACELINE_CELL"].split(":")


class CellTest(unittest.TestCase):
    def test_no_update_is_lost_or_doubled_and_no_read_too_old(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        done = subprocess.run([f"{BIN}/paceline-soak", "soak", "--shards", "3", "--replicas", "1", "--workers", "3",
                               "--rate", "50", "--seconds", "4", "--model", MODEL, "--targets", TARGET,
                               "--folder", folder / "run", "--json", folder / "out.json"],
                              capture_output=True, text=True, timeout=380)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(done.stderr)
        found = json.loads((folder / "out.json").read_text())
        faults = found["cuts"] if TARGET == "link" else found["kills"]
        self.assertGreater(faults, 0, found)
        self.assertGreater(found["acknowledged"], 0)
        self.assertGreaterEqual(found["sum"], found["acknowledged"])
        self.assertLessEqual(found["sum"], found["acknowledged"] + found["unacknowledged"])
        if TARGET != "worker":
            self.assertEqual(found["sum"], found["acknowledged"])
        self.assertEqual(found["verify_violations"], 0, found)
        self.assertGreater(found["verify"]["certificates"], 0)
        self.assertEqual(found["verify"]["unchecked_certificates"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
