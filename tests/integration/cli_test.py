#!/usr/bin/env python3
"""`paceline up` and `paceline status` as people and scripts use them, and how the processes end."""
import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BIN = os.environ["PACELINE_BIN"]
PACELINE = f"{BIN}/paceline"
WAIT = 120  # seconds for events that should come soon


def run(*arguments, **options):
    """A whole run of `paceline`."""
    return subprocess.run([PACELINE, *arguments], capture_output=True, text=True, timeout=WAIT, **options)


def few_segments(shards=1):
    """Those of a cluster that is not kept: enough for each thread of each shard, and few."""
    threads = max(1, len(os.sched_getaffinity(0)) // shards)
    if shards == 1:
        return min(64, max(4, 1 << (threads - 1).bit_length()))
    each = (4 if shards > 4 else 2) * (2 * threads if threads > 1 else 1)
    return 1 << (min(64, max(8, each * shards)) - 1).bit_length()


def status(coordinator):
    done = run("status", "--json", "--coordinator", coordinator)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Process:
    """A process that is not our child, or no longer."""

    def __init__(self, pid):
        self.pid = pid
        self.handle = os.pidfd_open(pid)
        self.arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")

    def has_ended(self, within=0):
        return bool(select.select([self.handle], [], [], within)[0])

    def close(self):
        os.close(self.handle)


class Up:
    """`paceline up` under way, in a temporary folder of its own."""

    def __init__(self, test, *arguments, ready=True):
        self.scratch = test.enterContext(tempfile.TemporaryDirectory())
        self.process = subprocess.Popen([PACELINE, "up", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env={**os.environ, "TMPDIR": self.scratch})
        test.addCleanup(self.end)
        self.coordinator = None
        if ready:
            line = self.process.stdout.readline()
            match = re.fullmatch(r"ready coordinator=(127\.0\.0\.1:\d+)\n", line)
            test.assertTrue(match, f"{line!r} {self.process.stderr.read() if not line else ''}")
            self.coordinator = match[1]

    def children(self):
        """Its child processes, by the last part of their program's path and --name."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(path.read_text().rpartition(")")[2].split()[1]) == self.process.pid:
                    process = Process(int(path.parent.name))
                    arguments = process.arguments
                    name = arguments[arguments.index("--name") + 1] if "--name" in arguments else arguments[0]
                    found[os.path.basename(name)] = process
        return found

    def wait_for_line(self, pattern):
        """The rest of standard error's line that matches."""
        for line in self.process.stderr:
            if re.search(pattern, line):
                return line
        raise AssertionError(f"standard error ended without {pattern}")

    def stop(self, number=signal.SIGTERM):
        """Its exit code, and the rest of its output."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        out, err = self.process.communicate(timeout=WAIT)
        return self.process.returncode, out, err

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class CliTest(unittest.TestCase):
    def children(self, up, count):
        children = up.children()
        for child in children.values():
            self.addCleanup(child.close)
        self.assertEqual(len(children), count, children.keys())
        return children

    def port_file(self):
        return str(Path(self.enterContext(tempfile.TemporaryDirectory())) / "port")


class UpTest(CliTest):
    def test_a_cluster_from_its_ready_line_to_its_end(self):
        up = Up(self, "--shards", "3", "--port", "0")
        children = self.children(up, 4)
        self.assertEqual(sorted(children), ["paceline-coordinator", "shard-0", "shard-1", "shard-2"])
        for child in children.values():
            self.assertEqual(os.getpgid(child.pid), child.pid, "out of a terminal's reach")

        found = status(up.coordinator)
        self.assertEqual(found["map_version"], "1")
        self.assertEqual(found["segments"], few_segments(3))
        self.assertEqual(found["shards_wanted"], 3)
        self.assertEqual(sorted(s["info"]["name"] for s in found["shards"]), ["shard-0", "shard-1", "shard-2"])
        for shard in found["shards"]:
            self.assertTrue(shard["alive"], shard)
            self.assertRegex(shard["info"]["address"], r"^127\.0\.0\.1:\d+$")
            self.assertRegex(shard["metrics_address"], r"^127\.0\.0\.1:\d+$")
        self.assertEqual((found["jobs"], found["tables"], found["problems"]), ([], [], []))

        text = run("status", env={**os.environ, "PACELINE_COORDINATOR": up.coordinator})
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn(f"3 of 3 shards alive, map version 1, {few_segments(3)} segments", text.stdout)
        self.assertEqual(run("status", "--check", "--coordinator", up.coordinator).returncode, 0)
        self.assertRegex(text.stdout, r"\n  shard-2  127\.0\.0\.1:\d+ +alive ")

        port = up.coordinator.rpartition(":")[2]
        busy = run("up", "--port", port)
        self.assertEqual((busy.returncode, busy.stdout), (1, ""))
        self.assertIn(f"port {port} is in use", busy.stderr)

        code, out, err = up.stop()
        self.assertEqual((code, out), (0, ""), err)
        self.assertRegex(err, r"logs are in .*/logs")
        self.assertTrue(all(child.has_ended() for child in children.values()))
        self.assertEqual(os.listdir(up.scratch), [], "the temporary folder is gone")

    def test_a_killed_shard_is_reported_and_the_others_continue(self):
        up = Up(self, "--shards", "2", "--port", "0", "--no-restart")
        os.kill(self.children(up, 3)["shard-1"].pid, signal.SIGKILL)
        up.wait_for_line(r"shard-1 was killed by signal 9")
        deadline = time.monotonic() + WAIT
        alive = {"shard-1": True}
        while alive["shard-1"] and time.monotonic() < deadline:
            found = status(up.coordinator)
            alive = {shard["info"]["name"]: shard["alive"] for shard in found["shards"]}
        self.assertEqual(alive, {"shard-0": True, "shard-1": False})
        self.assertRegex(" ".join(found["problems"]), r"shard-1 .*has been silent")
        self.assertEqual(run("status", "--check", "--coordinator", up.coordinator).returncode, 1)
        code, _, err = up.stop(signal.SIGINT)
        self.assertEqual(code, 1, err)

    def test_dead_processes_are_restarted(self):
        folder = self.enterContext(tempfile.TemporaryDirectory()) + "/cluster"
        up = Up(self, "--shards", "2", "--replicas", "1", "--port", "0", "--data-dir", folder)
        for name in ("shard-1", "paceline-coordinator", "shard-1"):
            before = self.children(up, 3)[name].pid
            os.kill(before, signal.SIGKILL)
            up.wait_for_line(rf"{name.removeprefix('paceline-')} was killed by signal 9")
            up.wait_for_line(r"It starts again in ")
            up.wait_for_line(r" has started again$")
            self.assertNotEqual(self.children(up, 3)[name].pid, before)
        # All are of the same cluster, at the same address, and nothing is wrong any more.
        deadline = time.monotonic() + WAIT
        while run("status", "--check", "--coordinator", up.coordinator).returncode != 0:
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual([shard["alive"] for shard in status(up.coordinator)["shards"]], [True, True])
        self.assertEqual(up.stop()[0], 1, "not all ended well")

    def test_a_second_shard_of_a_name_is_refused_until_the_first_has_ended(self):
        up = Up(self, "--shards", "1", "--port", "0", "--no-restart")
        self.assertEqual(status(up.coordinator)["segments"], few_segments(), "few are enough")
        port_file = self.port_file()
        command = [f"{BIN}/paceline-shard", "--coordinator", up.coordinator, "--name", "shard-0", "--port-file",
                   port_file, "--log-format", "json"]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=WAIT)
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr, r"shard-0 at [0-9.:]+ lives, and only one may: stop that one")
        first = self.children(up, 2)["shard-0"].pid
        os.kill(first, signal.SIGSTOP)  # it neither beats nor answers
        other = None
        while other is None:  # what the first one has answered counts for a second: until then it lives
            other = self.start_until_joined(command)
        self.assertEqual(status(up.coordinator)["shards"][0]["info"]["address"],
                         Path(port_file).read_text().strip())
        os.kill(first, signal.SIGCONT)
        up.wait_for_line(r"shard-0 ended with exit code 1")
        up.wait_for_line(r"is superseded by .* this process must end")
        other.terminate()
        log = [json.loads(line) for line in other.communicate(timeout=WAIT)[1].splitlines()]
        self.assertEqual(other.returncode, 0)
        self.assertEqual(log[-1]["message"], "shard has ended")
        self.assertEqual(up.stop()[0], 1)

    def start_until_joined(self, command):
        """The process, once it says that it has joined; None if it ends instead."""
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        messages = []
        for line in process.stderr:
            messages.append(json.loads(line)["message"])
            self.assertRegex(messages[0], "^shard serves name=shard-0 ")
            if messages[-1].startswith("joined the cluster"):
                return process
        self.assertTrue(any("lives, and only one may" in message for message in messages), messages)
        return None

    def test_no_child_survives_a_killed_parent(self):
        up = Up(self, "--shards", "2", "--port", "0")
        children = self.children(up, 3)
        up.process.kill()
        for name, child in children.items():
            self.assertTrue(child.has_ended(within=WAIT), name)

    def test_the_data_folder_is_kept_and_used_again(self):
        folder = self.enterContext(tempfile.TemporaryDirectory()) + "/cluster"
        first = Up(self, "--shards", "2", "--port", "0", "--data-dir", folder)
        self.assertEqual(status(first.coordinator)["segments"], 64, "as clusters of other versions that are kept")
        before = status(first.coordinator)
        second = run("up", "--shards", "2", "--port", "0", "--data-dir", folder)
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"{folder} is in use by another `paceline up`", second.stderr)
        code, _, err = first.stop(signal.SIGINT)
        self.assertEqual(code, 0, err)
        self.assertIn("shard serves name=shard-1", Path(folder, "logs/shard-1.log").read_text())

        again = Up(self, "--shards", "2", "--port", "0", "--data-dir", folder)
        after = status(again.coordinator)
        self.assertGreater(int(after["map_version"]), int(before["map_version"]))
        names = [{s["info"]["shard"]: s["info"]["name"] for s in found["shards"]} for found in (before, after)]
        self.assertEqual(*names)
        self.assertEqual(after["problems"], [])
        self.assertEqual(again.stop()[0], 0)

        other = run("up", "--shards", "3", "--port", "0", "--data-dir", folder)
        self.assertEqual(other.returncode, 1)
        self.assertIn("has a cluster of 2 shards", other.stderr)

    def test_a_start_that_fails_shows_the_log(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "coordinator").write_text("not a folder")
        done = run("up", "--port", "0", "--data-dir", str(folder))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"coordinator ended with exit code 1; the end of its log:\n  .*cannot start")

    def test_replicas_need_enough_shards(self):
        done = run("up", "--replicas", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--replicas 1 needs 2 shards", done.stderr)

    def test_a_shard_without_replicas_hands_over_no_segment_and_says_why(self):
        up = Up(self, "--shards", "2", "--port", "0")
        done = run("handover", "shard-1", "--coordinator", up.coordinator)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"0 segments of shard-1 were handed over\nThese stay with it:\n"
                                      r"  - segments .*: no replica: the cluster runs with --replicas 0")
        unknown = run("handover", "shard-7", "--coordinator", up.coordinator)
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("'shard-7' is not of this cluster", unknown.stderr)
        self.assertEqual(up.stop()[0], 0)


class RowsTest(CliTest):
    def test_a_few_rows_are_shown_and_changed(self):
        up = Up(self, "--shards", "2", "--port", "0")

        def paceline(*arguments, code=0):
            done = run(*arguments, "--coordinator", up.coordinator)
            self.assertEqual(done.returncode, code, done.stderr)
            return done.stdout if code == 0 else done.stderr

        subprocess.run([f"{BIN}/paceline-count", "--coordinator", up.coordinator, "--job", "ctr", "--rows", "3", "--clocks",
                        "2"], check=True, stdout=subprocess.DEVNULL, timeout=WAIT)
        self.assertEqual(paceline("pull", "ctr", "counts", "0", "1000"), "   KEY  VALUES\n     0  2\n  1000  0\n")
        self.assertEqual(json.loads(paceline("push", "ctr", "counts", "1", "-0.5", "--json")), [{"key": 1, "values": [1.5]}])
        self.assertEqual(json.loads(paceline("pull", "ctr", "counts", "0", "1", "--json")),
                         [{"key": 0, "values": [2]}, {"key": 1, "values": [1.5]}])
        self.assertIn("expected 1, the dim of table 'counts'", paceline("push", "ctr", "counts", "1", "2", "3", code=1))
        self.assertIn("has no table 'count'", paceline("pull", "ctr", "count", "1", code=1))
        self.assertIn("job 'none' does not exist", paceline("push", "none", "counts", "1", "1", code=1))
        self.assertEqual([job["name"] for job in json.loads(paceline("job", "list", "--json"))], ["ctr"],
                         "looking for a job does not make it")
        # What is done is told as JSON too.
        self.assertGreater(int(json.loads(paceline("table", "drop", "ctr", "counts", "--json"))["catalogue_version"]), 0)
        self.assertEqual(json.loads(paceline("job", "delete", "ctr", "--force", "--json")), {})
        self.assertEqual(up.stop()[0], 0)

    def test_a_count_that_never_counts_ends_too(self):
        # All its clocks are over, as they are for a worker that is stopped before its first: it waits for nobody.
        up = Up(self, "--shards", "1", "--port", "0")
        count = [f"{BIN}/paceline-count", "--coordinator", up.coordinator, "--job", "ctr", "--rows", "3", "--clocks", "2"]
        subprocess.run(count, check=True, stdout=subprocess.DEVNULL, timeout=WAIT)
        again = subprocess.run(count, capture_output=True, text=True, timeout=WAIT)
        self.assertIn("steps=0", again.stdout)
        self.assertIn("row 0 holds 2, expected 0", again.stderr)
        self.assertEqual(up.stop()[0], 0)


class CommandTest(CliTest):
    def up(self, *command):
        return Up(self, "--", *command, ready=False)

    def test_the_command_has_the_address_and_gives_the_exit_code(self):
        ask = f'echo "[$PACELINE_COORDINATOR]"; {PACELINE} status --json; exit 3'
        ups = [self.up("true"), self.up("sh", "-c", ask), self.up("sh", "-c", "kill -KILL $$"),
               self.up("no-such-program"), self.up("/dev/null")]
        results = [up.wait() for up in ups]
        self.assertEqual([code for code, _, _ in results], [0, 3, 128 + signal.SIGKILL, 127, 126], results)
        self.assertEqual(results[0][1], "", "standard output is the command's")
        address, _, found = results[1][1].partition("\n")
        self.assertRegex(address, r"^\[127\.0\.0\.1:\d+\]$")
        self.assertEqual([shard["alive"] for shard in json.loads(found)["shards"]], [True])
        self.assertIn("cannot run no-such-program", results[3][2])
        self.assertEqual([os.listdir(up.scratch) for up in ups], [[]] * len(ups))

    def test_the_command_gets_its_own_arguments(self):
        code, out, err = self.up("echo", "--shards", "x", "--", "--help").wait()
        self.assertEqual((code, out), (0, "--shards x -- --help\n"), err)

    def test_a_signal_is_passed_on(self):
        program = ("import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); "
                   "print('waits', flush=True); signal.pause()")
        up = self.up(sys.executable, "-c", program)
        self.assertEqual(up.process.stdout.readline(), "waits\n")
        children = self.children(up, 3)
        self.assertEqual(up.stop()[0], 9)
        self.assertTrue(all(child.has_ended() for child in children.values()))


class OtherTest(CliTest):
    def test_status_without_a_coordinator(self):
        with socket.socket() as taken:  # bound, but nobody listens
            taken.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            done = run("status", "--coordinator", address)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"no coordinator answers at {address}", done.stderr)

    def test_versions_and_help(self):
        for program in ("paceline", "paceline-shard"):
            done = subprocess.run([f"{BIN}/{program}", "--version"], capture_output=True, text=True, timeout=WAIT)
            self.assertRegex(done.stdout, rf"^{program} \d+\.\d+\.\d+ \(feature level \d+\)\n$")
        self.assertRegex(run("--help").stdout, r"(?s)up .*status ")
        self.assertIn("-- COMMAND", run("up", "--help").stdout)

    def test_usage_errors_exit_with_2(self):
        for arguments in ([], ["down"], ["up", "--shards", "0"], ["up", "--"], ["status", "--", "true"]):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertNotEqual(done.stderr, "", arguments)

    def test_a_command_finds_the_sockets_of_the_shards(self):
        tell = ["--", "sh", "-c", 'echo "$PACELINE_SOCKET_DIR" && ls -A -- "${PACELINE_SOCKET_DIR:-.}" | wc -l']
        with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as named:
            def told(*arguments, **variables):
                done = subprocess.run([PACELINE, "up", "--shards", "2", "--port", "0", *arguments, *tell], cwd=kept,
                                      env={**os.environ, "PACELINE_SOCKET_DIR": f"{kept}/nowhere", **variables},
                                      capture_output=True, text=True, timeout=WAIT)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout.splitlines()

            folder, sockets = told()
            self.assertTrue(folder.endswith("/sockets"), folder)
            self.assertEqual(int(sockets), 4, "each shard has one for clients and one for other shards")
            self.assertFalse(Path(folder).exists(), "it is removed with the cluster")
            self.assertEqual(told("--socket-dir", named)[0], named)
            long = Path(kept) / ("l" * 80)
            long.mkdir()
            for arguments, variables in ((["--no-shared-memory"], {}), (["--data-dir", f"{kept}/data"], {}),
                                         ([], {"TMPDIR": str(long)})):
                self.assertEqual(told(*arguments, **variables)[0], "", arguments)
            self.assertFalse(Path(kept, "nowhere").exists(), "no shard uses the folder of somebody else")
            self.assertEqual(run("up", "--no-shared-memory", "--socket-dir", named, "--", "true").returncode, 2)

    def test_misspelt_words_are_answered_with_what_was_meant(self):
        for arguments, meant in ((["statsu"], "status"), (["job", "lst"], "list"), (["status", "--jsno"], "--json"),
                                 (["up", "--shard=3"], "--shards"), (["snapshot", "schedule", "x", "--evry", "1m"], "--every")):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(f"did you mean `{meant}`?", done.stderr)

    def test_bash_completes_commands_and_options(self):
        def completed(*words):
            script = (f'source <("{PACELINE}" completion bash); COMP_WORDS=({" ".join(words)}); '
                      f'COMP_CWORD={len(words) - 1}; _paceline; echo "${{COMPREPLY[@]}}"')
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=WAIT)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout.split()

        self.assertEqual(completed("paceline", "sna"), ["snapshot"])
        self.assertEqual(completed("paceline", "job", "de"), ["delete"])
        self.assertEqual(completed("paceline", "job", "delete", "--f"), ["--force"])
        self.assertEqual(completed("paceline", "table", "list", "ctr", "--j"), ["--json"])
        self.assertIn("explain", completed("paceline", '""'))

    def test_a_shard_names_a_setting_it_cannot_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            for arguments, code, word in (
                    (["--listen", address], 1, address),
                    (["--metrics-listen", address], 1, address),
                    (["--listen", "0.0.0.0:0"], 1, "--advertise"),
                    (["--port-file", "/nonexistent/port"], 1, "/nonexistent/port"),
                    (["--memory-budget", "many"], 2, "--memory-budget"),
                    (["--log-level", "loud"], 2, "loud")):
                done = subprocess.run([f"{BIN}/paceline-shard", "--coordinator", "127.0.0.1:1", *arguments],
                                      capture_output=True, text=True, timeout=WAIT)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
