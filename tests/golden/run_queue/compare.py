#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Replays vectors with lagom-sim; the output must equal "output_fp10" exactly: every step, every pick.

usage: compare.py LAGOM_SIM [VECTOR.json ...]   without vectors: all of this folder
"""

import json
import pathlib
import subprocess
import sys


def first_difference(got, wanted, path=""):
    """Where two JSON values differ first, in words; None if they are equal."""
    if type(got) is not type(wanted) and not (isinstance(got, (int, float)) and isinstance(wanted, (int, float))):
        return "%s: got %r, wanted %r" % (path, got, wanted)
    if isinstance(got, dict):
        if got.keys() != wanted.keys():
            return "%s: keys differ: %s" % (path, sorted(got.keys() ^ wanted.keys()))
        found = (first_difference(got[key], wanted[key], "%s.%s" % (path, key)) for key in wanted)
        return next((difference for difference in found if difference), None)
    if isinstance(got, list):
        found = (first_difference(a, b, "%s[%d]" % (path, i)) for i, (a, b) in enumerate(zip(got, wanted)))
        difference = next((difference for difference in found if difference), None)
        return difference or (None if len(got) == len(wanted) else "%s: %d items, not %d" % (path, len(got), len(wanted)))
    return None if got == wanted else "%s: got %r, wanted %r" % (path, got, wanted)


def replay(simulator, vector):
    done = subprocess.run([simulator, "replay", str(vector)], capture_output=True, text=True)
    if done.returncode != 0:
        return "exit code %d: %s" % (done.returncode, done.stderr.strip())
    return first_difference(json.loads(done.stdout), json.loads(vector.read_text(encoding="utf-8"))["output_fp10"])


def main(arguments):
    simulator = arguments[0]
    vectors = [pathlib.Path(name) for name in arguments[1:]] or sorted(pathlib.Path(__file__).parent.glob("*.json"))
    failures = 0
    for vector in vectors:
        difference = replay(simulator, vector)
        failures += difference is not None
        print("%-45s %s" % (vector.name, difference or "equal"))
    print("%d vectors, %d differ" % (len(vectors), failures))
    return 1 if failures or not vectors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
