#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""lagom-bench as its users see it: exit codes, texts, the JSON form. Usage: command_line_test.py LAGOM_BENCH"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = sys.argv.pop()


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=100, check=False)


class UsageErrors(unittest.TestCase):
    """Status 2, nothing on stdout, one line that says what was wrong and what would be right."""

    CASES = {
        (): "messaging pipe yield spawn scenario",
        ("mesaging",): "there is no workload 'mesaging'",
        ("messaging", "-g", "0"): "from 1 to",
        ("messaging", "-g", "1000000000"): "from 1 to",
        ("messaging", "-g", "2x"): "not a whole number",
        ("messaging", "--frobnicate"): "--frobnicate",
        ("messaging", "stray"): "stray",
        ("messaging", "--slice", "-5"): "negative",
        ("messaging", "--features", "no_such_feature"): "no_such_feature",
        ("messaging", "--backend", "goroutine"): "fiber,thread,both",
        ("messaging", "--fibers", "10"): "--group",
        ("messaging", "-g", "25000", "--backend", "thread"): "the limit here is",
        ("messaging", "-p", "--in-memory"): "excludes",
        ("pipe", "-l", "99999999999999999999999"): "too large",
        ("pipe", "--workers", "1000000000"): "from 0 to",
        ("pipe", "--fibers", "3"): "two sides",
        ("yield", "--seconds", "nan"): "number of seconds",
        ("yield", "--fibers", "10", "-l", "5"): "too few",
        ("spawn", "--plot", "/no/such/folder/x.svg"): "--plot: /no/such/folder/x.svg cannot be written",
        ("spawn", "--batch", "5", "--fibers", "6"): "same",
        ("scenario",): "FILE",
        ("scenario", "/no/such/file.json"): "/no/such/file.json: cannot be read",
        ("scenario", __file__): "not valid JSON",
    }

    def test_refused(self):
        for words, expected in self.CASES.items():
            with self.subTest(words=words):
                done = run(*words)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertIn(expected, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class Help(unittest.TestCase):
    def test_help_is_no_error(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        for workload in ("messaging", "pipe", "yield", "spawn"):
            self.assertIn(workload, done.stdout)
            self.assertIn("--backend", run(workload, "--help").stdout)


class Text(unittest.TestCase):
    def lines(self, *words):
        done = run(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_messaging_prints_perfs_lines(self):
        out = self.lines("messaging", "-g", "2", "-l", "5", "-t")
        self.assertIn("# 20 sender and receiver fibers per group\n# 2 groups == 80 fibers run\n", out)
        self.assertRegex(out, r"\n     Total time: \d+\.\d{3} \[sec\]\n")
        out = self.lines("messaging", "-g", "1", "-l", "5", "-p", "--backend", "thread")
        self.assertIn("# 1 groups == 40 threads run\n", out)

    def test_pipe_prints_perfs_lines(self):
        out = self.lines("pipe", "-l", "1000", "-T", "--backend", "thread")
        self.assertIn("# Executed 1000 pipe operations between two threads\n", out)
        self.assertRegex(out, r"\n +\d+\.\d{6} usecs/op\n +\d+ ops/sec\n")

    def test_both_prints_a_ratio(self):
        self.assertRegex(self.lines("yield", "--backend", "both", "-l", "1000", "--repeat", "1"),
                         r"Ratio thread / fiber: \d+\.\d+\n")


class Plot(unittest.TestCase):
    def test_writes_a_picture_with_a_dot_per_run(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "yield.svg"
            done = run("yield", "-l", "100", "--backend", "both", "--repeat", "3", "--plot", str(file))
            self.assertEqual(done.returncode, 0, done.stderr)
            picture = xml.etree.ElementTree.parse(file).getroot()
            self.assertEqual(len(picture.findall("{http://www.w3.org/2000/svg}circle")), 6)


class Json(unittest.TestCase):
    def check(self, words, ops):
        done = run(*words, "--json", "--backend", "both", "--repeat", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        out = json.loads(done.stdout)
        self.assertEqual(out["workload"], words[0])
        self.assertIsInstance(out["params"], dict)
        self.assertEqual([result["backend"] for result in out["results"]], ["fiber", "thread"])
        for result in out["results"]:
            self.assertEqual(result["runs"], 2)
            self.assertEqual(result["ops"], ops)
            seconds = result["seconds"]
            self.assertTrue(0 < seconds["min"] <= seconds["median"] <= seconds["max"])
            self.assertAlmostEqual(result["ns_per_op"], seconds["median"] * 1e9 / ops, delta=1e-6 * result["ns_per_op"])
            self.assertGreater(result["switches"], 0)
            self.assertGreater(result["max_rss_kb"], 0)
        fiber, thread = out["results"]
        self.assertAlmostEqual(out["ratio"], thread["ns_per_op"] / fiber["ns_per_op"], places=6)

    def test_messaging(self):
        self.check(("messaging", "-g", "1", "-l", "3"), 1200)
        self.check(("messaging", "-g", "1", "-l", "3", "--in-memory", "--workers", "1"), 1200)

    def test_pipe(self):
        self.check(("pipe", "-l", "500"), 500)
        self.check(("pipe", "-l", "500", "--in-memory"), 500)

    def test_yield(self):
        self.check(("yield", "-l", "999", "--fibers", "3"), 999)

    def test_spawn(self):
        self.check(("spawn", "-l", "250", "--batch", "100"), 250)

    def test_one_backend_has_no_ratio(self):
        out = json.loads(run("spawn", "-l", "10", "--json").stdout)
        self.assertNotIn("ratio", out)
        self.assertEqual(len(out["results"]), 1)

    def test_seconds_set_the_length(self):
        out = json.loads(run("yield", "--seconds", "0.2", "--json").stdout)
        self.assertGreaterEqual(out["results"][0]["seconds"]["median"], 0.2)
        out = json.loads(run("pipe", "-l", "1", "--seconds", "0.01", "--json").stdout)["results"][0]
        self.assertGreaterEqual(out["runs"] * out["seconds"]["max"], 0.01)


class Scenario(unittest.TestCase):
    SCENARIO = {
        "name": "small", "duration_ns": 200_000_000, "warmup_ns": 10_000_000, "cpu": 0,
        "phases_ns": [10_000_000, 100_000_000, 200_000_000],
        "threads": [
            {"name": "busy", "count": 2, "pattern": {"type": "busy"}},
            {"name": "light", "nice": 19, "pattern": {"type": "yield", "run_ns": 1000}},
            {"name": "sleeper", "policy": "batch", "pattern": {"type": "periodic", "run_ns": 10_000, "period_ns": 1_000_000}},
            {"name": "napper", "pattern": {"type": "run_sleep", "run_ns": 10_000, "sleep_ns": 1_000_000}},
            {"name": "left", "pattern": {"type": "pingpong", "peer": "right", "run_ns": 10_000, "first": True}},
            {"name": "right", "pattern": {"type": "pingpong", "peer": "left", "run_ns": 10_000}},
            {"name": "parent", "pattern": {"type": "fork", "run_ns": 10_000, "period_ns": 5_000_000}}]}

    def test_every_pattern_leaves_its_traces(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "small.json"
            path.write_text(json.dumps(self.SCENARIO))
            raw = pathlib.Path(folder) / "bursts.csv"
            done = run("scenario", str(path), "--backend", "both", "--json", "--raw", str(raw))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(raw.read_text().startswith("thread,start_ns,end_ns,served_ns\nbusy0,"))
            text = run("scenario", str(path), "--features", "linux-6.18", "--slice", "1400")
            self.assertIn("# small on fibers: 0.2 s measured", text.stdout)
        for line in done.stdout.splitlines():
            report = json.loads(line)
            self.assertEqual((report["scenario"], report["measured_ns"]), ("small", 190_000_000))
            threads = {thread["name"]: thread for thread in report["threads"]}
            self.assertEqual(list(threads), ["busy0", "busy1", "light", "sleeper", "napper", "left", "right", "parent"])
            self.assertAlmostEqual(sum(thread["share_of_scenario"] for thread in threads.values()), 1, places=6)
            for name, thread in threads.items():
                with self.subTest(backend=line[:40], thread=name):
                    self.assertGreater(thread["loops"], 0)
                    self.assertGreater(thread["cpu_ns"], 0)
                    self.assertGreater(thread["slice_ns"], 0)
                    self.assertEqual(len(thread["phase_share"]), 2)
            for name in ("sleeper", "napper"):
                self.assertGreater(threads[name]["wake"]["n"], 10)
            self.assertGreater(threads["parent"]["child_start"]["n"], 5)
            self.assertGreater(threads["busy0"]["gap"]["n"], 0)
            self.assertEqual(threads["sleeper"]["policy"], "batch")


class FailedRuns(unittest.TestCase):
    def test_a_run_that_takes_too_long_is_a_failure(self):
        done = run("pipe", "-l", "100000000000", "--timeout", "0.3")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertTrue(re.search(r"fiber run 1 failed: not done after 0\.3 s", done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main()
