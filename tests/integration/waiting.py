"""Waits for what should come soon."""

import contextlib
import json
import subprocess
import time

# What a look may meet while processes start, stop or are held up.
NOT_YET = (OSError, subprocess.SubprocessError, json.JSONDecodeError)


def until(what, holds, within=180, not_yet=NOT_YET):
    """What `holds` returns, once that is true. Fails after so many seconds; a look that fails with `not_yet` does not count."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        with contextlib.suppress(*not_yet):
            if found := holds():
                return found
        time.sleep(0.05)
    raise AssertionError(f"not within {within} s: {what}")
