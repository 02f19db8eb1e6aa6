#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""lagom-sim run and scenario as a user meets them.

usage: command_line_test.py LAGOM_SIM
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = sys.argv[1]
MACHINE = ["--topology", "synthetic:pack:1 l3:1 core:4 pu:1"]

SCENARIO = {
    "name": "two-busy",
    "cpu": 1,
    "duration_ns": 3_200_000_000,
    "warmup_ns": 200_000_000,
    "threads": [{"name": "busy", "count": 2, "pattern": {"type": "busy"}}],
}


def run(*arguments):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)


class Run(unittest.TestCase):
    def test_list_and_help(self):
        listed = run("run", "--list").stdout
        for name in ("messaging", "pipe", "schbench", "stall", "hogs+sleepers", "idle-storm", "fork-storm"):
            self.assertIn(name, listed)
        self.assertIn("--html", run("run", "--help").stdout)

    def test_twice_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            pages = []
            for i in range(2):
                page = pathlib.Path(folder) / str(i)
                done = run("run", "fork-storm", *MACHINE, "--json", "-", "--html", str(page))
                self.assertEqual(done.returncode, 0, done.stderr)
                pages.append((done.stdout, page.read_bytes()))
        self.assertEqual(pages[0], pages[1])
        self.assertEqual(json.loads(pages[0][0])["violations"], [])

    def test_costs_change_the_result(self):
        waits = [json.loads(run("run", "stall", *MACHINE, "--json", "-", "--wake", wake).stdout)["lines"][1]["wake"]["p50_ns"] for wake in ("0", "30000")]
        self.assertLess(waits[0], waits[1])

    def test_violations_are_told(self):
        done = run("run", "hogs+sleepers", *MACHINE, "--break", "lost")
        self.assertEqual(done.returncode, 1)
        self.assertIn("lost fiber", done.stderr)
        self.assertEqual(run("run", "hogs+sleepers", *MACHINE, "--break", "lost", "--no-checks").returncode, 0)

    def test_refusals(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = pathlib.Path(folder) / "bad.json"
            bad.write_text('{"name": "x", "duration_ns": 1, "fibers": [{"name": "a", "colour": 1, "pattern": {"type": "busy"}}]}')
            for arguments, word in (
                (["run"], "which workload"),
                (["run", "dance"], "there are: messaging"),
                (["run", str(bad)], "colour"),
                (["run", "pipe", "--topology", "synthetic:nonsense"], "nonsense"),
                (["run", "pipe", "--features", "flying"], "flying"),
                (["run", "pipe", "--preset", "linux-9"], "linux-7.1"),
                (["run", "pipe", "--placement", "magic"], "selecting"),
                (["run", "pipe", "--tick", "-1"], ""),
                (["run", "pipe", "--break", "all"], "lost, idle"),
                (["scenario", str(bad)], "bad.json"),
            ):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2, (arguments, done.stdout, done.stderr))
                self.assertIn(word, done.stdout + done.stderr)


class Scenario(unittest.TestCase):
    def test_report_in_the_runners_format(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "two-busy.json"
            raw = pathlib.Path(folder) / "raw.csv"
            file.write_text(json.dumps(SCENARIO))
            done = run("scenario", str(file), "--scale", "0.01", "--raw", str(raw))
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual(report["measured_ns"], 3_000_000_000)  # in the times of the file
            self.assertEqual([t["name"] for t in report["threads"]], ["busy0", "busy1"])
            for thread in report["threads"]:
                self.assertAlmostEqual(thread["share_of_scenario"], 0.5, delta=0.015)
                self.assertEqual(thread["burst"]["p50"], 4_000_000)  # the tick, as the slice of 1.4 ms ends at one
            self.assertEqual(raw.read_text().splitlines()[0], "thread,start_ns,end_ns,served_ns")
            exact = json.loads(run("scenario", str(file), "--scale", "0.01", "--tick", "0").stdout)
            self.assertEqual(exact["threads"][0]["burst"]["p50"], 1_400_000)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
