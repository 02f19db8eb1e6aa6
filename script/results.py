#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Counts results for script/test, script/matrix and script/demo.

usage: results.py count TESTLOG_JSON   print "passed failed skipped" of one meson run
       results.py table RESULTS        print the table of script/test; exit 1 if anything failed
       results.py demo FOLDER          print the table of script/demo from the JSON files of lagom-bench
"""

import json
import pathlib
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


def count(path):
    """meson writes one JSON object a line. A run that left no log has failed once."""
    passed = failed = skipped = 0
    file = pathlib.Path(path)
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    for line in lines:
        result = json.loads(line)["result"]
        passed += result in PASSED
        skipped += result in SKIPPED
        failed += result not in PASSED | SKIPPED
    return passed, failed if lines else 1, skipped


def table(path):
    rows = [line.rsplit(" ", 4) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
    print("\n%-22s %8s %8s %8s %8s" % ("build", "passed", "failed", "skipped", "seconds"))
    for row in rows:
        print("%-22s %8s %8s %8s %8s" % tuple(row))
    passed, failed = sum(int(r[1]) for r in rows), sum(int(r[2]) for r in rows)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


def demo(folder):
    print("\n%-44s %12s %12s %10s" % ("median", "fibers", "OS threads", "ratio"))
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        by_backend = {result["backend"]: result for result in report["results"]}
        title = path.with_suffix(".title").read_text(encoding="utf-8").strip()
        seconds = ["%.3f s" % by_backend[b]["seconds"]["median"] if b in by_backend else "-" for b in ("fiber", "thread")]
        each = ["%.0f ns" % by_backend[b]["ns_per_op"] if b in by_backend else "-" for b in ("fiber", "thread")]
        ratio = "%.1f x" % report["ratio"] if "ratio" in report else "-"
        print("%-44s %12s %12s %10s" % (title, *seconds, ratio))
        print("%-44s %12s %12s" % ("  per " + ("round trip" if report["workload"] == "pipe" else "message"), *each))
    print("\nratio: time of OS threads / time of fibers, runs interleaved; above 1 the fibers are faster")
    return 0


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in ("count", "table", "demo"):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments[0] == "count":
        print("%d %d %d" % count(arguments[1]))
        return 0
    return table(arguments[1]) if arguments[0] == "table" else demo(arguments[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
