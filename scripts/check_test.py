#!/usr/bin/env python3
"""Shows of each rule of scripts/check that it fires, and that it lets the case next to it pass."""

import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
path = str(Path(__file__).with_name("check"))
loader = importlib.machinery.SourceFileLoader("check", path)
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
loader.exec_module(check)


class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write(".clang-format", "BasedOnStyle: Google\n")

    def write(self, path, text="", mode=0o644):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def found(self, *, git=False):
        if git:
            subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        return [(v.path, v.line, v.rule) for v in check.check(check.Tree(self.root))]

    def including(self, path, name):
        """The rules on includes that fire on a file at `path` with this one."""
        self.write(path, f"#include {name}\n")
        return [v.rule for v in check.check_layers(check.Tree(self.root)) if v.path == path]

    def refuses(self, path, *names, rule="layer"):
        for name in names:
            with self.subTest(path=path, name=name):
                self.assertIn(rule, self.including(path, name))

    def accepts(self, path, *names):
        for name in names:
            with self.subTest(path=path, name=name):
                self.assertEqual(self.including(path, name), [])

    # Layers of our own code

    def test_base_and_world(self):
        self.accepts("libs/base/a.h", '"libs/base/b.h"', "<thread>", '"absl/status/status.h"')
        self.refuses("libs/base/a.h", '"libs/world/b.h"', '"libs/ring/b.h"', '"paceline/v1/types.pb.h"')
        self.accepts("libs/world/a.h", '"libs/base/b.h"', '"libs/world/b.h"', "<chrono>")
        self.refuses("libs/world/a.h", '"libs/table/b.h"', "<grpcpp/grpcpp.h>", "<rocksdb/db.h>")

    def test_no_circle_within_a_library(self):
        def circle():
            return [(v.path, v.rule) for v in check.check_circles(check.Tree(self.root))]

        self.write("libs/ring/a.h", '#include "libs/ring/b.h"\n')
        self.write("libs/ring/a.cc", '#include "libs/ring/a.h"\n')
        self.write("libs/ring/b.h")
        self.assertEqual(circle(), [])
        self.write("libs/ring/c.h", '#include "libs/ring/a.h"\n')
        self.write("libs/ring/b.cc", '#include "libs/ring/c.h"\n')
        self.assertEqual(circle(), [("libs/ring/a.h", "circle")], "by way of a source as well")
        self.write("libs/ring/b.cc")
        self.write("libs/ring/b_test.cc", '#include "libs/ring/c.h"\n')
        self.assertEqual(circle(), [], "tests include what they like")

    def test_pure_libraries_stand_on_each_other_in_order(self):
        order = ["history", "ring", "table", "clock", "wire", "log"]
        for i, lib in enumerate(order):
            low = ["base", "world", *order[: i + 1]]
            self.accepts(f"libs/{lib}/a.h", *(f'"libs/{x}/b.h"' for x in low), '"paceline/v1/shard.pb.h"')
            high = [*order[i + 1 :], "rpc", "metrics", "sim"]
            self.refuses(f"libs/{lib}/a.h", *(f'"libs/{x}/b.h"' for x in high), '"services/shard/b.h"')
            self.refuses(f"libs/{lib}/a.h", '"paceline/v1/shard.grpc.pb.h"')

    def test_adapters(self):
        self.accepts("libs/history_file/a.h", '"libs/history/b.h"', '"libs/base/b.h"', "<thread>")
        self.refuses("libs/history_file/a.h", '"libs/log/b.h"', '"paceline/v1/shard.pb.h"', '"sdk/cpp/src/b.h"')
        self.accepts("libs/rpc/a.h", '"libs/log/b.h"', '"paceline/v1/shard.grpc.pb.h"', "<grpcpp/grpcpp.h>")
        self.refuses("libs/rpc/a.h", '"libs/metrics/b.h"', '"services/shard/b.h"', '"libs/sim/b.h"')
        self.accepts("libs/metrics/a.h", '"libs/log/b.h"', "<prometheus/counter.h>")
        self.refuses("libs/metrics/a.h", '"libs/rpc/b.h"', '"paceline/v1/shard.grpc.pb.h"')

    def test_carriers_of_streams(self):
        self.accepts("libs/carrier/a.h", '"libs/base/b.h"', '"libs/world/b.h"', '"libs/carrier/b.h"', "<thread>")
        self.refuses("libs/carrier/a.h", '"libs/tcp/b.h"', '"libs/shm/b.h"', '"libs/rpc/b.h"', '"libs/log/b.h"')
        for lib in ("tcp", "shm"):
            self.accepts(f"libs/{lib}/a.h", '"libs/carrier/b.h"', f'"libs/{lib}/b.h"')
            self.refuses(f"libs/{lib}/a.h", '"libs/rpc/b.h"', '"libs/dial/b.h"', "<grpcpp/grpcpp.h>")
        self.refuses("libs/tcp/a.h", '"libs/shm/b.h"')
        self.refuses("libs/shm/a.h", '"libs/tcp/b.h"')
        self.accepts("libs/dial/a.h", '"libs/carrier/b.h"', '"libs/tcp/b.h"', '"libs/rpc/b.h"', '"libs/shm/b.h"')
        self.refuses("libs/dial/a.h", '"libs/metrics/b.h"', '"libs/log/b.h"', '"services/shard/b.h"')
        self.accepts("libs/rpc/a.h", '"libs/carrier/b.h"', '"libs/tcp/b.h"')
        self.refuses("libs/rpc/a.h", '"libs/shm/b.h"', '"libs/dial/b.h"')
        self.refuses("libs/metrics/a.h", '"libs/carrier/b.h"', '"libs/tcp/b.h"', '"libs/shm/b.h"', '"libs/dial/b.h"')

    def test_each_compiled_file_has_a_zone(self):
        self.refuses("libs/new/a.h", "<vector>", '"libs/base/b.h"')
        self.write("libs/bare/a.cc")
        rules = [(v.path, v.rule) for v in check.check_layers(check.Tree(self.root))]
        self.assertIn(("libs/bare/a.cc", "layer"), rules, "without an include as well")
        self.accepts("elsewhere/a.h", '"libs/base/b.h"')

    def test_services_and_sdk_meet_only_in_libraries(self):
        self.accepts("services/shard/a.h", '"libs/rpc/b.h"', '"libs/metrics/b.h"', '"services/shard/b.h"')
        self.refuses("services/shard/a.h", '"services/coordinator/b.h"', '"sdk/cpp/a.h"', '"paceline/a.h"')
        self.refuses("services/coordinator/a.h", '"services/shard/b.h"', '"tools/b.h"')
        self.accepts("sdk/cpp/src/a.h", '"paceline/client.h"', '"libs/rpc/b.h"', '"sdk/cpp/src/b.h"')
        self.refuses("sdk/cpp/src/a.h", '"services/shard/b.h"', '"examples/b.h"')

    def test_public_headers(self):
        path = "sdk/cpp/include/paceline/client.h"
        self.accepts(path, '"paceline/table.h"', "<vector>", '"absl/status/statusor.h"')
        self.refuses(path, '"sdk/cpp/src/b.h"', '"libs/base/ids.h"', '"paceline/v1/types.pb.h"')
        self.refuses(path, "<grpcpp/grpcpp.h>", "<unistd.h>", "<gtest/gtest.h>")

    def test_public_headers_of_a_library(self):
        path = "libs/table/include/paceline/rules.h"
        self.write(path, "#pragma once\n")
        self.accepts(path, "<variant>")
        self.refuses(path, '"libs/base/ids.h"', '"paceline/client.h"', "<unistd.h>")
        for user in ("libs/table/a.h", "sdk/cpp/include/paceline/a.h", "services/shard/a.h", "examples/lr/a.h"):
            self.accepts(user, '"paceline/rules.h"')
        self.refuses("libs/ring/a.h", '"paceline/rules.h"')

    def test_examples_use_the_sdk_only(self):
        path = "examples/lr/main.cc"
        self.accepts(path, '"paceline/client.h"', '"examples/lr/data.h"', "<CLI/CLI.hpp>", "<unistd.h>")
        self.refuses(path, '"libs/base/ids.h"', '"paceline/v1/types.pb.h"', '"sdk/cpp/src/b.h"')
        self.refuses(path, "<grpcpp/grpcpp.h>", "<spdlog/spdlog.h>")

    def test_programs_see_services_and_sdk(self):
        for path in ("tools/a.h", "bench/a.h", "tests/a.h"):
            self.accepts(path, '"services/shard/b.h"', '"services/coordinator/b.h"', '"paceline/client.h"')
        self.refuses("tools/a.h", '"libs/sim/b.h"', '"tests/b.h"', '"examples/b.h"', "<rocksdb/db.h>")
        self.accepts("bench/a.h", '"tools/paceline/b.h"')
        self.refuses("bench/a.h", '"tests/b.h"', '"examples/b.h"')
        self.accepts("bench/consistency/a.h", '"examples/lib/b.h"', '"bench/b.h"')

    def test_the_simulator_uses_the_pure_core(self):
        self.accepts("libs/sim/a.h", '"libs/world/b.h"', '"libs/log/b.h"', '"libs/sim/b.h"')
        self.refuses("libs/sim/a.h", '"libs/rpc/b.h"', '"services/shard/b.h"', '"tests/b.h"')

    def test_names_beside_the_file_are_resolved(self):
        self.write("libs/log/b.h", "#pragma once\n")
        self.accepts("libs/log/a.h", '"b.h"')
        self.refuses("libs/ring/a.h", '"../log/b.h"')

    def test_test_only_files(self):
        self.accepts("libs/log/a_test.cc", "<gtest/gtest.h>", '"libs/base/test_util.h"', '"libs/sim/b.h"')
        self.refuses("libs/log/a.cc", "<gtest/gtest.h>", '"libs/base/test_util.h"', '"libs/sim/b.h"')
        self.accepts("examples/lr/a_test.cc", "<gmock/gmock.h>", '"libs/base/test_util.h"')
        self.refuses("examples/lr/a_test.cc", '"libs/base/ids.h"')
        self.refuses("services/shard/latest.cc", "<gtest/gtest.h>")

    def test_borrowed_libraries_are_confined(self):
        self.accepts("services/shard/store/a.h", "<rocksdb/db.h>")
        self.refuses("services/shard/a.h", "<rocksdb/db.h>", "<prometheus/counter.h>")
        self.accepts("services/shard/a.h", "<grpcpp/grpcpp.h>")
        self.refuses("libs/metrics/a.h", "<grpcpp/grpcpp.h>")

    # Pure code

    def test_pure_code_does_not_act(self):
        acting = ["<thread>", "<mutex>", "<chrono>", "<random>", "<fstream>", "<grpc/grpc.h>"]
        acting += ["<grpcpp/grpcpp.h>", "<rocksdb/db.h>", "<prometheus/counter.h>"]
        acting += ['"absl/synchronization/mutex.h"', '"absl/time/clock.h"']
        for path in ("libs/wire/a.h", "libs/wire/a_test.cc", "services/shard/x_core.h", "tools/x_core.cc"):
            self.refuses(path, *acting, rule="pure")
            self.accepts(path, "<vector>", '"absl/time/time.h"', '"libs/world/clock.h"')
        self.refuses("services/coordinator/metadata/placement/a.h", "<mutex>", rule="pure")
        self.accepts("services/shard/a.h", "<mutex>", "<chrono>")

    def test_core_files_see_no_adapters(self):
        self.refuses("services/shard/x_core.h", '"libs/rpc/b.h"', '"paceline/v1/shard.grpc.pb.h"')
        self.refuses("sdk/cpp/src/x_core.h", *(f'"libs/{lib}/b.h"' for lib in ("carrier", "tcp", "shm", "dial", "metrics")))

    def test_acting_headers_do_not_come_in_through_others(self):
        self.write("libs/base/queue.h", "#pragma once\n#include <mutex>\n")
        self.write("libs/base/list.h", '#pragma once\n#include "libs/base/queue.h"\n')
        self.refuses("libs/log/a.h", '"libs/base/queue.h"', '"libs/base/list.h"', rule="pure")
        self.accepts("libs/log/a_test.cc", '"libs/base/list.h"')
        self.accepts("services/shard/a.h", '"libs/base/list.h"')

    # Habits

    def test_format(self):
        self.write("libs/base/a.h", "#pragma once\n\nint  a;\n")
        self.assertEqual(self.found(), [("libs/base/a.h", 3, "format")])

    def test_fix_formats_and_strips(self):
        self.write("libs/base/a.h", "#pragma once\n\nint  a;\n")
        self.write("docs/a.md", "word  \n")
        right = "#pragma once\n\nint b;\n"
        self.write("libs/base/b.h", right)
        check.fix(check.Tree(self.root), lambda path: True)
        self.assertEqual(self.found(), [])
        self.assertEqual((self.root / "libs/base/b.h").read_text(), right)

    def test_length(self):
        self.write("libs/base/a.py", "a\n" * 500)
        self.write("docs/a.md", "a\n" * 501)
        self.assertEqual(self.found(), [])
        self.write("libs/base/a.py", "a\n" * 501)
        self.assertEqual(self.found(), [("libs/base/a.py", 501, "length")])
        check.LONG_FILES["libs/base/a.py"] = "a reason"
        self.addCleanup(check.LONG_FILES.clear)
        self.assertEqual(self.found(), [])

    def test_unfinished_marks(self):
        for mark in ("TO" + "DO", "FIX" + "ME", "XX" + "X"):
            self.write("docs/a.md", f"well\n{mark}: more\n")
            self.assertEqual(self.found(), [("docs/a.md", 2, "unfinished")])
        self.write("docs/a.md", "mktemp /tmp/XXXXXX\n")
        self.assertEqual(self.found(), [])

    def test_trailing_whitespace(self):
        self.write("docs/a.md", "a\nb \nc\t\n")
        self.write("tests/testdata/a.txt", "b \n")
        self.assertEqual(self.found(), [("docs/a.md", 2, "whitespace"), ("docs/a.md", 3, "whitespace")])

    def test_items_that_clang_format_has_broken(self):
        def broken(*lines):
            self.write("libs/base/a.h", "".join(f"//{line}\n" for line in lines))
            return [(v.line, v.rule) for v in check.check_broken_items(check.Tree(self.root))]

        long = "   - " + "word " * 20
        self.assertEqual(broken(long + "abc", "   of it", "     all."), [(2, "broken")])
        self.assertEqual(broken(long + "abc", "     of it", "     all."), [], "as it should be")
        self.assertEqual(broken("   - short", "   of it", "     all."), [], "nobody had to break it")
        self.assertEqual(broken(" " + "word " * 21, " what follows:", "   - this"), [], "a list begins")

    def test_clocks_that_may_be_set(self):
        for text in (
            "auto t = absl::Now();",
            "auto t = std::chrono::system_clock::now();",
            "c.set_deadline(absl::ToChronoTime(t));",
            "clock_gettime(CLOCK_REALTIME, &t);",
            "gettimeofday(&t, nullptr);",
        ):
            for path in ("services/shard/a.cc", "examples/a.h", "sdk/cpp/src/a.cc", "tools/a.cc"):
                with self.subTest(text=text, path=path):
                    self.write(path, f"#pragma once\n{text}\n")
                    found = check.check_clocks(check.Tree(self.root))
                    self.assertEqual([(v.path, v.line, v.rule) for v in found], [(path, 2, "clock")])
                    (self.root / path).unlink()
        self.write("libs/world/wall_clock.cc", "return absl::Now();\n")
        self.write("services/a_test.cc", "auto t = absl::Now();\n")
        self.write("bench/a.cc", "auto t = absl::Now();\n")
        self.write("services/a.cc", "auto t = clock_.Now();  // no absl::Now() here\nauto u = MonotonicNow();\n")
        self.assertEqual(list(check.check_clocks(check.Tree(self.root))), [])

    def test_many_members(self):
        def header(members, comment=""):
            body = "".join(f"  int m{i}_ = {i};\n" for i in range(members))
            return f"#pragma once\n\n{comment}class A {{\n  void F() {{ b_ = 1; }}\n{body}}};\n"

        def members():
            return [v.line for v in check.check_members(check.Tree(self.root))]

        self.write("libs/base/a.h", header(15))
        self.assertEqual(members(), [])
        self.write("libs/base/a.h", header(16, "// A thing.\n"))
        self.assertEqual(members(), [4])
        self.write("libs/base/a.h", header(16, "// A thing.\n//\n// More than 15 members: they belong together.\n"))
        self.assertEqual(members(), [])

    def test_names_local_to_two_files(self):
        def local():
            return [(v.path, v.line) for v in check.check_local_names(check.Tree(self.root))]

        text = "namespace {\n\nsize_t Bytes(size_t %s) {\n}\n\n}  // namespace\n"
        self.write("libs/ring/a.cc", text % "rows")
        self.write("libs/table/a.cc", text % "rows")
        self.write("libs/ring/b.cc", text.replace("size_t %s", "int rows, Key key"))
        self.write("libs/ring/b_test.cc", text % "rows")
        self.assertEqual(local(), [], "another library, an overload, a test")
        self.write("libs/ring/c.cc", text % "count")
        self.assertEqual(local(), [("libs/ring/c.cc", 3)])
        self.write("libs/ring/c.cc", "namespace {\nconstexpr int kMost = 3;\nstruct Layout {\n};\n}  // namespace\n")
        self.assertEqual(local(), [])
        self.write("libs/ring/d.cc", "namespace {\nclass Layout {\n};\nconstexpr size_t kMost{3};\n}  // namespace\n")
        self.assertEqual(local(), [("libs/ring/d.cc", 2), ("libs/ring/d.cc", 4)])

    def test_scripts_are_executable(self):
        self.write("scripts/a", "#!/bin/sh\n")
        self.write("scripts/b", "echo\n", 0o755)
        self.write("scripts/c", "#!/bin/sh\n", 0o755)
        self.assertEqual(self.found(), [("scripts/a", 1, "script"), ("scripts/b", 1, "script")])

    def test_dead_files(self):
        self.write("libs/log/a.cc")
        self.write("libs/log/sub/b.cc")
        cmake = "libs/log/CMakeLists.txt"
        dead = [("libs/log/a.cc", 1, "dead"), ("libs/log/sub/b.cc", 1, "dead")]
        for text in ("", "# a.cc sub/b.cc", "add_library(x aa.cc a.ccc b.cc)"):
            self.write(cmake, text)
            self.assertEqual(self.found(), dead)
        for text in ("add_library(x a.cc sub/b.cc)", 'f("${CMAKE_CURRENT_SOURCE_DIR}/a.cc" "sub/b.cc")'):
            self.write(cmake, text)
            self.assertEqual(self.found(), [])

    def test_pragma_once(self):
        self.write("libs/base/a.h", "int a;\n")
        self.assertEqual(self.found(), [("libs/base/a.h", 1, "once")])

    # Which files

    def test_ignored_files_are_left_alone(self):
        self.write(".gitignore", "build/\nout/\n")
        for folder in ("build", "out", "docs"):
            self.write(f"{folder}/a.md", "a \n")
        self.assertEqual(self.found(git=True), [("docs/a.md", 1, "whitespace")])

    def test_an_exported_tree_is_checked_too(self):
        self.write("build/a.md", "a \n")
        self.write("docs/a.md", "a \n")
        self.assertEqual(self.found(), [("docs/a.md", 1, "whitespace")])

    def test_violations_read_as_one_line(self):
        self.write("docs/a.md", "a \n")
        (violation,) = check.check(check.Tree(self.root))
        self.assertRegex(str(violation), r"^docs/a\.md:1: whitespace: .*; .*$")


if __name__ == "__main__":
    unittest.main()
