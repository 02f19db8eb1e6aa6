#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""A process with a global runtime ends with the exit code it asked for, whatever the order of its globals.

usage: process_end_test.py LIMIT_SECONDS PROGRAM...
"""

import subprocess
import sys
import time

WANTED = {"return": 0, "exit-on-thread": 3, "exit": 3}


def run(program, how, limit):
    begun = time.monotonic()
    try:
        done = subprocess.run([program, how], stderr=subprocess.PIPE, text=True, timeout=10 * limit)
    except subprocess.TimeoutExpired:
        return "does not end"
    spent = time.monotonic() - begun
    if done.returncode != WANTED[how]:
        return "exit code %d instead of %d: %s" % (done.returncode, WANTED[how], done.stderr)
    if spent > limit:
        return "took %.1f s" % spent
    return None


def main():
    limit, programs = float(sys.argv[1]), sys.argv[2:]
    wrong = 0
    for program in programs:
        for how in WANTED:
            trouble = run(program, how, limit)
            if trouble:
                print("%s %s: %s" % (program, how, trouble))
                wrong += 1
    return 1 if wrong else 0


sys.exit(main())
