#!/usr/bin/env python3
"""What `cmake --install` puts somewhere is enough: a project that knows nothing else builds against it and runs."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = os.environ["PACELINE_BUILD"]
PROJECT = Path(__file__).parent / "project"


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=200, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.prefix = Path(cls.scratch) / "prefix"
        cls.project = Path(cls.scratch) / "project"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        run("cmake", "-S", PROJECT, "-B", cls.project, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={cls.prefix}")
        run("cmake", "--build", cls.project)

    def test_a_job_runs_against_an_installed_cluster(self):
        out = run(self.prefix / "bin/paceline", "up", "--shards", "2", "--port", "0", "--", self.project / "trainer")
        self.assertIn("count of 1: 2\n", out)

    def test_a_test_runs_without_a_cluster(self):
        run(self.project / "trainer_test")

    def test_headers_are_the_public_ones_and_name_no_place_of_the_build(self):
        headers = sorted(str(p.relative_to(self.prefix / "include")) for p in self.prefix.glob("include/**/*.h"))
        self.assertIn("paceline/client.h", headers)
        self.assertIn("paceline/mocks/in_process_cluster.h", headers)
        self.assertTrue(all(h.startswith("paceline/") for h in headers), headers)
        source = str(Path(__file__).resolve().parents[2])
        for file in self.prefix.glob("**/*.cmake"):
            self.assertNotIn(source, file.read_text(), file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
