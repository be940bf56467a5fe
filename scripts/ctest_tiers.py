#!/usr/bin/env python3
"""Which of a build's tests a commit runs, and what came of them; scripts/test asks.

  ctest_tiers.py pick BUILD --commit ID          a regular expression for `ctest -R`: this commit's release tests
  ctest_tiers.py seeds --commit ID               the seeds of this commit, A..B
  ctest_tiers.py count JUNIT                     "passed failed skipped" of one ctest run
  ctest_tiers.py report NAME=JUNIT…              the ten slowest tests, every skipped one, and the end of what each
                                                 failed one printed

A commit runs all tests but those labelled `slow`, and of the tests labelled `process` those labelled `covering`
and every third of the others: which third follows from the commit's id, so that three commits or so run all.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

THIRDS = 3
SEEDS = 600
SEEDS_FIXED = 10_000  # seeds up to here are used by tests that name them
SLOWEST = 10
LAST_LINES = 60  # of a failed test's output: a log that was cut at its beginning still says what failed
SKIPPED_CASE = re.compile(
    r"^\[  SKIPPED \] (?P<gtest>[\w/.]+) \(\d+ ms\)$"  # GoogleTest
    r"|^(?P<unittest>\w+ \([\w.]+\)) .*skipped '(?P<why>.*)'$",  # unittest, verbose
    re.MULTILINE)


def number_of(commit):
    """A number that follows from the commit's id alone."""
    return int.from_bytes(hashlib.sha256(commit.encode()).digest()[:8], "big")


def pick(tests, commit):
    """The names of `tests`, a list of (name, labels), that this commit runs."""
    kept = [(name, labels) for name, labels in tests if "slow" not in labels]
    rotating = sorted(name for name, labels in kept if "process" in labels and "covering" not in labels)
    left_out = {name for i, name in enumerate(rotating) if (i + number_of(commit)) % THIRDS != 0}
    return [name for name, _ in kept if name not in left_out]


def seeds(commit):
    """The first and the last of this commit's seeds."""
    first = SEEDS_FIXED + 1 + number_of(commit) % 1_000_000 * SEEDS
    return first, first + SEEDS - 1


def tests_of(build):
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    found = []
    for test in json.loads(listed.stdout)["tests"]:
        labels = next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
        found.append((test["name"], labels))
    return found


def cases(junit):
    """(name, seconds, status, output) of each test of a run; none if the run left no file."""
    if not Path(junit).exists():
        return []
    return [(case.get("name"), float(case.get("time", 0)), case.get("status"), case.findtext("system-out") or "")
            for case in xml.parse(junit).getroot().iter("testcase")]


def count(found):
    """How many passed, failed and were skipped; ctest calls a test that it left out or was told to skip `notrun`."""
    passed = sum(status == "run" for _, _, status, _ in found)
    skipped = sum(status in ("notrun", "disabled") for _, _, status, _ in found)
    return passed, len(found) - passed - skipped, skipped


def skipped_names(found):
    """Whole tests that were skipped, and single cases of tests that ran."""
    for name, _, status, output in found:
        if status in ("notrun", "disabled"):
            yield name, (output.strip().splitlines() or ["not run"])[-1]
        else:
            for case in SKIPPED_CASE.finditer(output):
                yield f"{name}: {case['gtest'] or case['unittest']}", case["why"] or "skipped"


def failed_tests(runs):
    """Every failed test of several runs, with the last lines that it printed."""
    for run, found in runs:
        for name, _, status, output in found:
            if status not in ("run", "notrun", "disabled"):
                yield f"failed: {name} ({run}), which printed at its end:"
                yield from ("  " + line for line in output.rstrip().splitlines()[-LAST_LINES:])


def report(runs):
    """Lines about several runs, a list of (name, cases); and how many tests and cases were skipped."""
    every = sorted(((seconds, name, run) for run, found in runs for name, seconds, _, _ in found), reverse=True)
    lines = ["the slowest tests:"]
    lines += [f"  {seconds:7.1f} s  {name} ({run})" for seconds, name, run in every[:SLOWEST]]
    skipped = [f"  {name} ({run}): {why}" for run, found in runs for name, why in skipped_names(found)]
    lines += ["skipped:"] + skipped if skipped else ["skipped: none"]
    return lines + list(failed_tests(runs)), len(skipped)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, arguments in (("pick", ["build", "--commit"]), ("seeds", ["--commit"]), ("count", ["junit"])):
        command = commands.add_parser(name)
        for argument in arguments:
            command.add_argument(argument, **({"required": True} if argument.startswith("--") else {}))
    command = commands.add_parser("report")
    command.add_argument("runs", nargs="*", metavar="NAME=JUNIT")
    command.add_argument("--require-tools", action="store_true", help="exit with 1 if a test was skipped")
    asked = parser.parse_args()

    if asked.command == "pick":
        print("^(" + "|".join(re.escape(name) for name in pick(tests_of(asked.build), asked.commit)) + ")$")
    elif asked.command == "seeds":
        print("{}..{}".format(*seeds(asked.commit)))
    elif asked.command == "count":
        print(*count(cases(asked.junit)))
    else:
        lines, skipped = report([(run.split("=", 1)[0], cases(run.split("=", 1)[1])) for run in asked.runs])
        print("\n".join(lines))
        return 1 if skipped and asked.require_tools else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
