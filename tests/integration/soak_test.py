#!/usr/bin/env python3
"""Real processes are killed and stopped while workers count; what became of it is proved by sums and by history files."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BIN = os.environ["PACELINE_BIN"]
KEYS = {"sum", "acknowledged", "unacknowledged", "kills", "takeovers", "recovery_seconds_median", "verify_violations"}


class SoakTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_soak(self, *arguments):
        out = self.folder / "out.json"
        done = subprocess.run([f"{BIN}/paceline-bench", "soak", "--shards", "3", "--workers", "3", "--rate", "50",
                               "--folder", self.folder / "run", "--json", out, *arguments],
                              capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(out.read_text())

    def verify(self, *files):
        return subprocess.run([f"{BIN}/paceline", "verify", *files], capture_output=True, text=True, timeout=100)

    def in_the_first_block(self, content):
        """A byte of its events, behind the file's 8 bytes and the block's 8; another block follows (docs/record.md)."""
        length = int.from_bytes(content[8:12], "little")
        self.assertLess(16 + length, len(content))
        return 16 + length // 2

    def test_no_update_is_lost_while_processes_are_killed(self):
        found = self.run_soak("--seconds", "15", "--kill", "any", "--replicas", "1")
        self.assertLessEqual(KEYS, set(found))
        self.assertGreater(found["kills"] + found["stops"] + found["cuts"], 1, found)
        self.assertGreater(found["acknowledged"], 0)
        self.assertGreaterEqual(found["sum"], found["acknowledged"])
        self.assertLessEqual(found["sum"], found["acknowledged"] + found["unacknowledged"])
        self.assertEqual(found["verify_violations"], 0, found)

    def test_no_update_is_lost_when_all_are_killed_and_unsynced_bytes_vanish(self):
        found = self.run_soak("--seconds", "10", "--targets", "all", "--replicas", "1", "--acks", "durable",
                              "--lose-power")
        self.assertGreater(found["kills_of_all"], 0, found)
        self.assertGreater(found["bytes_lost"], 0, "nothing that was not synced: as if only processes ended")
        self.assertEqual(found["sum"], found["acknowledged"])
        self.assertEqual(found["verify_violations"], 0, found)

    def test_no_update_is_lost_when_one_is_killed_and_unsynced_bytes_vanish(self):
        found = self.run_soak("--seconds", "4", "--targets", "shard", "--replicas", "1", "--acks", "durable",
                              "--lose-power")
        self.assertGreater(found["kills"], 0, found)
        self.assertEqual(found["sum"], found["acknowledged"])
        self.assertEqual(found["verify_violations"], 0, found)

    def test_without_faults_the_sum_equals_the_acknowledged_pushes(self):
        found = self.run_soak("--seconds", "2", "--kill", "none", "--replicas", "0")
        self.assertEqual(found["sum"], found["acknowledged"])
        self.assertEqual(found["unacknowledged"], 0)
        self.assertEqual(found["kills"], 0)
        proof = found["verify"]
        self.assertTrue(proof["ok"], proof)
        self.assertEqual(proof["missing"], [])
        self.assertEqual(proof["unchecked_acknowledged"], 0)
        self.assertEqual(proof["unchecked_certificates"], 0)
        self.assertGreater(proof["parts_acknowledged"], 0)
        self.assertGreater(proof["certificates"], 0)

        # The same files by the command line, whole, without some of them, and spoilt.
        records = sorted((self.folder / "run" / "records").iterdir())
        done = self.verify(*records)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith("OK\n"), done.stdout)
        without = [file for file in records if "shard-1" not in file.name]
        done = self.verify(*without)
        self.assertRegex(done.stdout, r"parts acknowledged, [1-9]\d* of them not checked")
        spoilt = next(file for file in records if file.name == "shard-0")
        content = bytearray(spoilt.read_bytes())
        content[self.in_the_first_block(content)] ^= 1
        spoilt.write_bytes(content)
        done = self.verify(*records)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"VIOLATION Readable: .*shard-0, byte \d+: a block does not fit its checksum")

    def test_shards_without_replicas_are_stopped_and_not_killed(self):
        found = self.run_soak("--seconds", "3", "--targets", "shard", "--replicas", "0")
        self.assertEqual(found["kills"], 0)
        self.assertGreater(found["stops"], 0)
        self.assertEqual(found["sum"], found["acknowledged"])
        self.assertEqual(found["verify_violations"], 0, found)

    def test_a_folder_with_the_remains_of_another_run_is_refused(self):
        (self.folder / "run").mkdir()
        (self.folder / "run" / "something").touch()
        done = subprocess.run([f"{BIN}/paceline-bench", "soak", "--folder", self.folder / "run"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not empty", done.stderr)

    def test_unverifiable_histories_are_an_error(self):
        empty = self.folder / "empty"
        empty.write_bytes(b"PACEREC\x01")
        done = self.verify(empty)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing was checked", done.stdout)
        done = self.verify(self.folder / "nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nowhere", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
