#!/usr/bin/env python3
"""docs/metrics.md and the pages of real processes have the same metrics; what documents name and link to exists."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

sys.path.insert(0, os.environ["PACELINE_PYTHON"])
from paceline.v1 import coordinator_pb2, job_snapshots_pb2, shard_pb2, types_pb2, work_pb2  # noqa: E402
from paper_frames import WAIT, FrameClient  # noqa: E402

BIN = os.environ["PACELINE_BIN"]
ROOT = Path(__file__).resolve().parents[2]


def tables(text):
    """The tables of a Markdown text: (heading above it, header cells, rows of cells)."""
    heading, found, inside = "", [], False
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.strip("# ")
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not inside:
            found.append((heading, cells, []))
        elif not set("".join(cells)) <= set("-: "):
            found[-1][2].append(cells)
        inside = True
    return found


class Page:
    """A page in Prometheus' text format: types by name, and label sets by name."""

    def __init__(self, address):
        text = urllib.request.urlopen(f"http://{address}/metrics", timeout=WAIT).read().decode()
        self.types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        self.helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
        self.labels = {name: {} for name in self.types}
        for sample, labels in re.findall(r"^([a-z_]+)(?:\{(.*)\})? ", text, re.M):
            name = sample if sample in self.types else re.sub(r"_(bucket|sum|count)$", "", sample)
            for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
                if label not in ("le", "quantile"):  # of histograms and summaries, not of ours
                    self.labels[name].setdefault(label, set()).add(value)


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.documented = {}  # section -> name -> (type, labels, unit)
        for section, header, rows in tables((ROOT / "docs/metrics.md").read_text()):
            if header[0] == "name":
                cls.documented[section] = {row[0].strip("`"): row[1:4] for row in rows}
        cls.folder = tempfile.TemporaryDirectory()
        data = Path(cls.folder.name) / "data"
        cls.up = subprocess.Popen([f"{BIN}/paceline", "up", "--shards", "1", "--port", "0", "--data-dir", data,
                                   "--socket-dir", Path(cls.folder.name) / "s"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        coordinator = cls.up.stdout.readline().strip().removeprefix("ready coordinator=")
        # Labelled metrics appear only with something to show: a worker that has pushed and pulled, a table that is read by a
        # bound that follows, and a job with a schedule and a work queue.
        cls.client = FrameClient(coordinator, job="docs")
        table = cls.client.open_table("t", kind=types_pb2.TABLE_KIND_SPARSE, dim=1,
                                      rule=types_pb2.Rule(add=types_pb2.Rule.Add()))
        cls.client.api.OpenTable(coordinator_pb2.OpenTableRequest(
            session=cls.client.session, token=cls.client.token, name="t", bound_max=4), timeout=WAIT)
        start = cls.client.join()
        cls.client.push(table, start, {1: (1,), 2: (1,)})
        cls.client.pull(table, [1, 2, 3])
        cls.client.api.KeepAlive(coordinator_pb2.KeepAliveRequest(
            session=cls.client.session, token=cls.client.token, loss=0.5), timeout=WAIT)
        queue = cls.client.api.OpenWork(work_pb2.OpenWorkRequest(
            session=cls.client.session, token=cls.client.token, name="train",
            spec=work_pb2.WorkSpec(examples=10, per_item=2, passes=1)), timeout=WAIT).queue
        cls.client.api.ReportWork(work_pb2.ReportWorkRequest(
            session=cls.client.session, token=cls.client.token, queue=queue, number=1, ahead=2), timeout=WAIT)
        cls.client.api.ScheduleSnapshots(job_snapshots_pb2.ScheduleSnapshotsRequest(
            job="docs", schedule=job_snapshots_pb2.SnapshotSchedule(every_s=3600, keep=1)), timeout=WAIT)
        logs = "".join(path.read_text() for path in (data / "logs").glob("*"))
        cls.coordinator_page = Page(re.search(r"coordinator serves .*\bmetrics=(\S+)", logs)[1])
        cls.shard_page = Page(re.search(r"shard serves .*\bmetrics=(\S+)", logs)[1])

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.up.terminate()
        assert cls.up.wait(timeout=WAIT) == 0
        cls.up.stdout.close()
        cls.folder.cleanup()

    def check(self, page, section):
        expected = {**self.documented[section], **self.documented["Every process"]}
        self.assertEqual(set(page.types), set(expected))
        for name, (kind, labels, unit) in expected.items():
            with self.subTest(name):
                self.assertEqual(page.types[name], kind)
                self.assertTrue(page.helps.get(name), "has no help text")
                self.check_labels(page.labels[name], labels)
                self.check_unit(name, kind, unit)

    def check_labels(self, shown, documented):
        """`name`: `value`, `value`; another `name` … Values that are not listed may be any."""
        names, values = [], {}
        for piece in documented.split(";"):
            name, _, listed = piece.partition(":")
            for one in re.findall(r"`(\w+)`", name):
                names.append(one)
                values[one] = set(re.findall(r"`(\w+)`", re.sub(r"\[.*?\]\(.*?\)", "", listed)))
            if "wire.md" in listed:
                values[names[-1]] |= {reason.lower() for reason in shard_pb2.Refusal.Reason.keys()}
        self.assertEqual(set(shown), set(names))
        for name, seen in shown.items():
            if values[name]:
                self.assertLessEqual(seen, values[name], f"values of label {name}")

    def check_unit(self, name, kind, unit):
        self.assertTrue(unit, "has no unit")
        self.assertEqual(name.endswith("_total"), kind == "counter", "counters, and only they, end in _total")
        for base in ("seconds", "bytes"):
            self.assertEqual(re.search(rf"_{base}(_|$)", name) is not None, unit == base, f"{base} in its name")

    def test_shard(self):
        self.check(self.shard_page, "Shard")

    def test_coordinator(self):
        self.check(self.coordinator_page, "Coordinator")

    def test_the_questions_name_metrics(self):
        known = {name for section in self.documented.values() for name in section}
        text = (ROOT / "docs/metrics.md").read_text()
        self.assertEqual(set(re.findall(r"`(paceline_\w+)`", text)) - known, set())


class NamedTestsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.exist = set()
        for folder in ("libs", "services", "sdk", "tools", "examples", "tests"):
            for path in (ROOT / folder).rglob("*.cc"):
                cls.exist |= {f"{suite}.{case}" for suite, case in
                              re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", path.read_text(), re.M)}
            for path in (ROOT / folder).rglob("*_test.py"):
                cls.exist |= {f"{path.stem}: {case}" for case in
                              re.findall(r"^    def (test_\w+)\(", path.read_text(), re.M)}

    @staticmethod
    def named(text):
        return set(re.findall(r"`([A-Z]\w*\.[A-Z]\w*|\w+_test: test_\w+)`", text))

    def test_each_failure_names_tests_that_exist(self):
        rows = 0
        for section, header, body in tables((ROOT / "docs/failures.md").read_text()):
            if header[-1] != "shown by":
                continue
            for row in body:
                with self.subTest(f"{section}: {row[0]}"):
                    rows += 1
                    self.assertTrue(self.named(row[-1]), "names no test")
                    self.assertEqual(self.named(row[-1]) - self.exist, set())
        self.assertGreater(rows, 50)

    def test_each_promise_names_tests_that_exist(self):
        for page in ("docs/consistency.md", "docs/replication.md"):
            with self.subTest(page):
                text = (ROOT / page).read_text()
                self.assertTrue(self.named(text))
                self.assertEqual(self.named(text) - self.exist, set())

    def test_the_named_places_exist(self):
        listed = [rows for _, header, rows in tables((ROOT / "docs/architecture.md").read_text())
                  if header == ["question", "function", "file"]]
        self.assertGreaterEqual(len(listed[0]), 10)
        for question, functions, files in listed[0]:
            with self.subTest(question):
                text = "".join((ROOT / path).read_text() for path in re.findall(r"`([^`]+)`", files))
                for function in re.findall(r"`([^`]+)`", functions):
                    scope, _, name = function.rpartition("::")
                    inline = rf"^class {scope} \{{.*?\b{name}\([^;]*?\{{" if scope else r"(?!)"
                    outside = rf"^\S.*\b{function}\("
                    self.assertRegex(text, re.compile(f"{outside}|(?s:{inline})", re.M))

    def test_the_example_of_the_readme_is_tested(self):
        example = re.search(r"```cpp\n#include \"paceline/client.h\"\n\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
        self.assertIn(example, (ROOT / "sdk/cpp/mocks/readme_test.cc").read_text())

    def test_the_codes_of_the_coordinator_are_those_it_answers_with(self):
        listed = [rows for _, header, rows in tables((ROOT / "docs/wire.md").read_text())
                  if header == ["code", "when", "do"]]
        used = set()
        answers = [*(ROOT / "services/coordinator/metadata").rglob("*.cc"), ROOT / "services/coordinator/service.cc"]
        for path in answers:
            if "test" not in path.name:
                used |= set(re.findall(r"absl::(\w+)Error\(", path.read_text()))
        codes = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper() for name in used}
        self.assertEqual({row[0].strip("`") for row in listed[0]}, codes)

    def test_the_planted_bugs_are_listed_with_their_invariants(self):
        planted = re.findall(r'NamedBug\{Bug::\w+, "(\w+)",\s+"([\w ]+)",\s+\d+\}', (ROOT / "tests/sim/bugs.h").read_text())
        text = (ROOT / "docs/simulation.md").read_text()
        listed = [rows for _, header, rows in tables(text) if header == ["bug", "is found as"]]
        self.assertEqual({(bug.strip("`"), invariant) for bug, invariant in listed[0]}, set(planted))


class LinksTest(unittest.TestCase):
    @staticmethod
    def relative(text):
        """Where the links of a Markdown text lead, without those in code, to the web and within the page."""
        prose = re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
        targets = re.findall(r"\]\(([^()\s]+)\)", prose)
        return {target.partition("#")[0] for target in targets if not re.match(r"#|[a-z]+:", target)}

    def test_what_pages_link_to_exists(self):
        links = 0
        for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            with self.subTest(str(page.relative_to(ROOT))):
                targets = self.relative(page.read_text())
                links += len(targets)
                self.assertEqual({target for target in targets if not (page.parent / target).exists()}, set())
        self.assertGreater(links, 100)


class CommandsTest(unittest.TestCase):
    def test_the_page_of_commands_is_what_the_programs_say(self):
        done = subprocess.run([ROOT / "scripts/cli", "--check", "--bin", BIN], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
