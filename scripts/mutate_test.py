#!/usr/bin/env python3
"""What scripts/mutate makes of C++ text: which mutants, where, and that all of them compiled at once are what they say."""

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import mutants

loader = importlib.machinery.SourceFileLoader("mutate", str(Path(__file__).with_name("mutate")))
mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
loader.exec_module(mutate)

TOY = """#include <algorithm>
#include <vector>
// if (a < b) in a comment
int Toy::F(int a, int b) {
  if (a < b && b > 0) return 1;  // early
  const bool late = a >= 10;
  const auto twice = [](int n) {
    return n > 7;
  };
  int count = 0;
  for (int i = 0; i < a; ++i) {
    if (i == b) break;
    count += 2;
  }
  if (late) return std::min(count, b);
  return twice(a) ? 50 : count;
}
int Toy::Other() {
  return 3 < 4;
}
"""


def found(body, function="F"):
    """(operator, before, after) of each mutant of a function with this body."""
    text = f"void {function}(int a) {{\n{body}\n}}\n"
    return [(m.operator, m.before, m.after) for m in mutants.find("f.cc", text, [function])]


class OperatorsTest(unittest.TestCase):
    def test_a_condition_is_negated_and_its_parts_swapped(self):
        self.assertEqual(found("if (a < b && c) { }"), [
            ("and, or", "a < b && c", "a < b || c"),
            ("boundary", "a < b && c", "a <= b && c"),
            ("negate", "a < b && c", "!(a < b && c)"),
        ])
        self.assertEqual(found("while (a) { }"), [("negate", "a", "!(a)")])

    def test_an_if_with_a_declaration_negates_only_its_condition(self):
        self.assertEqual(found("if (auto x = f()) { }"), [])
        self.assertEqual(found("if (auto x = f(); x > 0) { }")[0], ("boundary", "x > 0", "x >= 0"))

    def test_statements_are_left_out_and_declarations_are_not(self):
        self.assertEqual(found("f(a);"), [("drop", "f(a);", "")])
        self.assertEqual(found("a = b;"), [("drop", "a = b;", "")])
        self.assertEqual(found("x.y[2].z = b;")[0], ("constant", "x.y[2].z = b;", "x.y[1].z = b;"))
        for declared in ("const int b = a;", "auto c = a;", "std::vector<int> v;", "Foo foo(a);", "Foo* foo = a;", "const ns::Foo foo{.x = a};",
                         "ABSL_ASSIGN_OR_RETURN(const int b, f());", "using X = Y;"):
            self.assertEqual(found(declared), [], declared)

    def test_those_that_read_the_same_have_keys_of_their_own(self):
        keys = [m.key for m in mutants.find("f.cc", "void F(int a) {\ng(a);\nh(a);\ng(a);\n}\n", ["F"])]
        self.assertEqual(keys, ["f.cc F | drop | g(a); -> nothing", "f.cc F | drop | h(a); -> nothing", "f.cc F | drop | g(a); -> nothing (2)"])

    def test_only_an_early_return_is_left_out(self):
        self.assertEqual(found("return;"), [])
        self.assertIn(("drop", "return;", ""), found("if (a) return;"))
        self.assertIn(("drop", "return;", ""), found("if (a) { return; }"))
        self.assertIn(("drop", "continue;", ""), found("for (int b : c) { if (b) continue; }"))
        self.assertNotIn(("drop", "break;", ""), found("switch (a) { case 1: break; }"))

    def test_constants_and_words(self):
        self.assertEqual(found("return a + 1;"), [("constant", "a + 1", "a + 0"), ("constant", "a + 1", "a + 2")])
        self.assertEqual(found("return 0;"), [("constant", "0", "1")])
        self.assertEqual(found("return true;"), [("true, false", "true", "false")])
        self.assertEqual(found("return std::max(a, b);"), [("min, max", "std::max(a, b)", "std::min(a, b)")])

    def test_nothing_is_found_in_comments_strings_templates_names_and_constant_expressions(self):
        for nothing in ('// f(1);\nint b;', 'const auto b = "1 < 2";', "const auto b = std::vector<int>();", "auto v1 = x1;", "const double d = 1.5;",
                        "if constexpr (a) { }", "static const int b = 1;"):
            self.assertEqual(found(nothing), [], nothing)

    def test_bodies_of_lambdas_are_searched(self):
        self.assertEqual(found("const auto f = [](int n) {\n  return n > 7;\n};")[0], ("boundary", "n > 7", "n >= 7"))
        self.assertIn(("drop", "g(n);", ""), found("Each(v, [&](int n) { g(n); });"))

    def test_a_planted_bug_is_only_negated(self):
        self.assertEqual(found("return a && !Planted(Bug::kB);"), [])
        self.assertIn(("negate", "a && !Planted(Bug::kB)", "!(a && !Planted(Bug::kB))"), found("if (a && !Planted(Bug::kB)) { }"))

    def test_what_is_done_only_where_a_bug_is_planted_has_no_mutants(self):
        self.assertEqual([operator for operator, _, _ in found("if (a < 1 && Planted(Bug::kB)) g(a);")], ["and, or", "negate"])
        self.assertIn(("drop", "g(a);", ""), found("if (a || Planted(Bug::kB)) g(a);"))
        self.assertIn(("drop", "g(a);", ""), found("if (a && !Planted(Bug::kB)) g(a);"))


class FunctionsTest(unittest.TestCase):
    def test_only_named_functions_are_searched(self):
        self.assertEqual({m.line for m in mutants.find("toy.cc", TOY, ["Toy::Other"])}, {19})
        with self.assertRaisesRegex(ValueError, "no function Toy::Gone"):
            mutants.find("toy.cc", TOY, ["Toy::Gone"])

    def test_all_functions_of_the_protocol_exist(self):
        everything = mutate.all_mutants().values()
        self.assertEqual({m.file for m in everything}, set(mutate.FUNCTIONS))
        self.assertGreater(len(everything), 500)
        keys = {m.key for m in everything}
        self.assertEqual(len(keys), len(everything))
        listed = mutate.equivalent(mutate.EQUIVALENT.read_text().splitlines())
        self.assertEqual(set(listed) - keys, set(), "mutants that are listed as equivalent and are not there any more")

    def test_no_reason_no_exception(self):
        self.assertEqual(mutate.equivalent(["# a comment", "f.cc F | drop | g() -> nothing # it does nothing"]),
                         {"f.cc F | drop | g() -> nothing": "it does nothing"})
        with self.assertRaises(SystemExit):
            mutate.equivalent(["f.cc F | drop | g() -> nothing"])


@unittest.skipUnless(shutil.which("c++"), "no c++")
class RenderTest(unittest.TestCase):
    """All mutants of the toy in one program: each run of it is one of them."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        everything = mutants.find("toy.cc", TOY, ["Toy::F"])
        self.numbered = list(enumerate(everything, 1))
        rendered = mutants.render(TOY, self.numbered)
        self.assertEqual(rendered.count("\n"), TOY.count("\n"), "errors name other lines than those of the source")
        (self.folder / "mutant.h").write_text(mutate.CHOOSER.replace("COUNT", str(len(everything))))
        (self.folder / "toy.cc").write_text(
            '#include "mutant.h"\n#include <cstdio>\nstruct Toy { static int F(int, int); static int Other(); };\n' + rendered +
            'int main(int, char** v) { std::printf("%d", Toy::F(std::atoi(v[1]), std::atoi(v[2]))); }\n')
        subprocess.run(["c++", "-std=c++20", "-w", "-O0", "-o", "toy", "toy.cc"], cwd=self.folder, check=True)

    def run_toy(self, a, b, number=0, **more):
        environment = {**os.environ, "PACELINE_MUTANT": str(number), **more}
        return int(subprocess.run([self.folder / "toy", str(a), str(b)], env=environment, check=True, capture_output=True, text=True).stdout)

    def number(self, operator, before, after=None):
        return next(n for n, m in self.numbered if (m.operator, m.before) == (operator, before) and after in (None, m.after))

    def test_without_a_mutant_the_program_is_unchanged(self):
        self.assertEqual([self.run_toy(1, 2), self.run_toy(5, 3), self.run_toy(8, -1), self.run_toy(12, -1), self.run_toy(12, 3)], [1, 6, 50, -1, 3])

    def test_each_operator_makes_its_fault(self):
        condition = "a < b && b > 0"
        self.assertEqual(self.run_toy(1, 2, self.number("drop", "return 1;")), 2)
        self.assertEqual(self.run_toy(5, 3, self.number("negate", condition)), 1)
        self.assertEqual(self.run_toy(2, 2, self.number("boundary", condition, "a <= b && b > 0")), 1)
        self.assertEqual(self.run_toy(5, 3, self.number("and, or", condition)), 1)
        self.assertEqual(self.run_toy(5, 3, self.number("drop", "count += 2;")), 0)
        self.assertEqual(self.run_toy(5, 3, self.number("constant", "count += 2;", "count += 3;")), 9)
        self.assertEqual(self.run_toy(5, 3, self.number("drop", "break;")), 10)
        self.assertEqual(self.run_toy(12, 3, self.number("min, max", "std::min(count, b)")), 6)
        self.assertEqual(self.run_toy(7, -1, self.number("boundary", "n > 7")), 50)
        self.assertEqual(self.run_toy(10, -1, self.number("boundary", "a >= 10")), 50)

    def test_a_run_names_the_mutants_it_reached(self):
        file = self.folder / "reached.txt"
        self.run_toy(1, 2, PACELINE_MUTANTS_REACHED=str(file))
        reached = {int(n) for n in file.read_text().split()}
        self.assertIn(self.number("drop", "return 1;"), reached)
        self.assertNotIn(self.number("drop", "count += 2;"), reached)


class ScoreTest(unittest.TestCase):
    mutant = mutants.find("toy.cc", TOY, ["Toy::Other"])[0]

    def outcomes(self, *found):
        return [mutate.Outcome(self.mutant, test, seeds) for test, seeds in found]

    def test_survivors_are_named_with_file_line_and_operator(self):
        self.assertEqual(mutate.score(self.outcomes(("t", None), ("", True), ("", False), ("t", None))), [
            "found by unit tests: 2 of 4 (50 %)", "found by seeds alone: 1 of 4 (25 %)", "survived: 1 of 4 (25 %)",
            f"  toy.cc:19: {self.mutant.operator}: {self.mutant.before} -> {self.mutant.after}"])
        self.assertEqual(mutate.score([])[0], "found by unit tests: 0 of 0")

    def test_the_share_of_seeds_is_of_those_that_they_were_tried_on(self):
        outcomes = self.outcomes(("t", True), ("t", False), ("", True), ("t", None))
        words = mutants.find("f.cc", "void F(int a) {\n*why = absl::StrCat(a);\n}\n", ["F"])[0]
        outcomes.append(mutate.Outcome(words, "t", False))
        self.assertEqual(mutate.score(outcomes, every=True)[:4], [
            "found by unit tests: 4 of 5 (80 %)", "found by seeds: 2 of 4 (50 %)", "found by seeds, of the protocol's: 2 of 3 (67 %)",
            "found by seeds alone: 1 of 5 (20 %)"])

    def test_words_and_counts_are_not_of_the_protocol(self):
        def kinds(body):
            return {(m.operator, mutate.of_protocol(m)) for m in mutants.find("f.cc", f"void F(int a) {{\n{body}\n}}\n", ["F"])}
        self.assertEqual(kinds('if (a) return NotNow("is being handed over", 5);'),
                         {("negate", True), ("drop", True), ("constant", False)})
        self.assertEqual(kinds("effects.bytes_grown = a;"), {("drop", False)})
        self.assertEqual(kinds("tail_.Append(epoch, bytes);"), {("drop", True)})


if __name__ == "__main__":
    unittest.main()
