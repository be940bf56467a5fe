#!/usr/bin/env python3
"""job.py --name NAME --image IMAGE -- [ARGUMENT]…: a Job's manifest on standard input, changed, on standard output.

An argument --x=y takes the place of the manifest's --x=…, or comes after the others.
"""

import argparse
import json
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--image", required=True)
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    job = json.load(sys.stdin)
    job["metadata"]["name"] = options.name
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["image"] = options.image
    given = {argument.split("=", 1)[0] for argument in options.arguments}
    kept = [argument for argument in container["args"] if argument.split("=", 1)[0] not in given]
    container["args"] = kept + options.arguments
    json.dump(job, sys.stdout)


if __name__ == "__main__":
    main()
