#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks park.pml with spin: everything holds, and each seeded fault is found. Skipped (77) without spin.

usage: spin.py PARK_PML
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FIBER = {"TOKENS": 3}
FIBER_STOPPED = {"TOKENS": 2, "STOP": 1}
THREAD = {"THREAD": 1, "TOKENS": 3}
# What must hold; what must be found, and how: a broken assertion or an end in which somebody still waits.
HOLDS = [("a fiber", FIBER), ("a fiber that is stopped", FIBER_STOPPED), ("a plain thread", THREAD)]
FAULTS = [
    ("ticket without epoch", dict(FIBER, FAULT=1), "assertion violated"),
    ("no second look at the stop flag", dict(FIBER_STOPPED, FAULT=2), "invalid end state"),
    ("parked before the stack is left", dict(FIBER, FAULT=3), "assertion violated"),
    ("two win one ticket", dict(FIBER_STOPPED, FAULT=4), "invalid end state"),
    ("parked overwrites a wake-up", dict(FIBER, FAULT=5), "invalid end state"),
    ("the word before the signal", dict(THREAD, FAULT=6), "invalid end state"),
]


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def verify(model, constants, kind):
    """The text of one verification: 'safety' (assertions, end states) or 'liveness' (the ltl formula)."""
    with tempfile.TemporaryDirectory() as folder:
        generate = ["spin"] + ["-D%s=%d" % item for item in constants.items()] + ["-a", str(model)]
        compiler = os.environ.get("CC", "cc").split()
        build = compiler + ["-O1", "-w", "-o", "pan", "pan.c"] + (["-DSAFETY", "-DNOCLAIM"] if kind == "safety" else ["-DNFAIR=3"])
        check = ["./pan", "-m100000"] + ([] if kind == "safety" else ["-a", "-f", "-N", "gets_to_its_end"])
        for command in (generate, build):
            status, text = run(command, folder)
            if status != 0:
                raise SystemExit("%s failed:\n%s" % (" ".join(command), text))
        return run(check, folder)[1]


def counts(text):
    errors, states = re.search(r"errors: (\d+)", text), re.search(r"(\d+) states, stored", text)
    return (int(errors.group(1)) if errors else None), (int(states.group(1)) if states else 0)


def is_complete(text):
    return "Search not completed" not in text and "max search depth too small" not in text


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    if not shutil.which("spin"):
        print("spin is not installed")
        return 77
    model = pathlib.Path(arguments[0]).resolve()
    wrong = 0
    for name, constants in HOLDS:
        for kind in ("safety", "liveness"):
            text = verify(model, constants, kind)
            errors, states = counts(text)
            right = errors == 0 and states > 100 and is_complete(text)
            print("%-6s %s, %s: %d states" % ("ok" if right else "WRONG", name, kind, states))
            if not right:
                print(text)
                wrong += 1
    for name, constants, how in FAULTS:
        text = verify(model, constants, "safety")
        right = counts(text)[0] == 1 and how in text
        print("%-6s seeded fault: %s" % ("ok" if right else "WRONG", name))
        if not right:
            print(text)
            wrong += 1
    print("%d wrong" % wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
