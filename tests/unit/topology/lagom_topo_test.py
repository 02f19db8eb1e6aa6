#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The installed tool as a user meets it: its words, its JSON, its exit status.

usage: lagom_topo_test.py LAGOM_TOPO GOLDEN_FOLDER
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

TOOL, GOLDEN = sys.argv[1], pathlib.Path(sys.argv[2])
ALLOWED = sorted(os.sched_getaffinity(0))


def run(*arguments, cpus=None, **environment):
    bind = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    return subprocess.run(
        [TOOL, *arguments], capture_output=True, text=True, timeout=60, preexec_fn=bind, env={**os.environ, **environment}
    )


def placed(*arguments, **settings):
    done = run("--json", *arguments, **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def cpus_of_workers(answer):
    return [worker["cpu"] for worker in answer["workers"]]


class ThisMachine(unittest.TestCase):
    def test_sees_what_it_may_use(self):
        answer = placed("--workers", str(len(ALLOWED)))
        self.assertTrue(answer["this_system"])
        self.assertEqual(sorted(cpu["os_index"] for cpu in answer["cpus"]), ALLOWED)
        self.assertEqual(sorted(cpus_of_workers(answer)), ALLOWED)

    def test_default_is_one_worker_per_cpu_or_less(self):
        workers = len(placed()["workers"])
        self.assertGreaterEqual(workers, 1)
        self.assertLessEqual(workers, len(ALLOWED))

    def test_one_cpu_that_is_not_the_first(self):
        answer = placed(cpus={ALLOWED[-1]})
        self.assertEqual(cpus_of_workers(answer), [ALLOWED[-1]])
        self.assertEqual(answer["allowed"], str(ALLOWED[-1]))
        self.assertGreaterEqual(answer["online"], len(ALLOWED))

    def test_environment_does_not_replace_the_machine(self):
        file = str(GOLDEN / "numa4_dist.xml")
        for variables in ({"HWLOC_SYNTHETIC": "pack:4 core:8 pu:2"}, {"HWLOC_XMLFILE": file}):
            seen, truth = placed(**variables), placed()
            for answer in (seen, truth):
                for node in answer["nodes"]:
                    del node["bytes"]  # a virtual machine's may change between two looks
            self.assertEqual(seen, truth)


class MadeUp(unittest.TestCase):
    def test_cores_before_siblings_with_any_number_of_workers(self):
        shape = "synthetic:core:4 pu:2"
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        for workers in range(1, 9):
            self.assertEqual(cpus_of_workers(placed("--topology", shape, "--workers", str(workers))), order[:workers])
        answer = placed("--topology", shape, "--workers", "9")
        self.assertEqual(cpus_of_workers(answer), order + [0])
        self.assertTrue(answer["oversubscribed"])

    def test_ours_is_not_asked(self):
        answer = placed("--topology", "xml:%s" % (GOLDEN / "sparse_odd.xml"), cpus={ALLOWED[0]})
        self.assertEqual(cpus_of_workers(answer), [1, 3, 5, 7, 9, 11])
        self.assertFalse(answer["this_system"])
        self.assertIsNone(answer["quota"])

    def test_absent_things_are_null(self):
        answer = placed("--topology", "xml:%s" % (GOLDEN / "cpus_without_node.xml"))
        self.assertEqual([cpu["node"] for cpu in answer["cpus"]], [0, 0, None, None])
        self.assertEqual([cpu["package"] for cpu in placed("--topology", "synthetic:pu:2")["cpus"]], [None, None])

    def test_rings(self):
        answer = placed("--topology", "synthetic:pack:2 [numa] l3:1 core:1 pu:2", "--rings")
        near = [(one["worker"], one["distance"]) for one in answer["workers"][0]["ring"]]
        self.assertEqual(near, [(2, 0), (1, 4), (3, 4)])

    def test_text(self):
        done = run("--topology", "synthetic:pack:1 [numa] l3:1 core:2 pu:2", "--workers", "3", "--rings")
        self.assertEqual(done.returncode, 0)
        self.assertIn("cores     2 (2 of 2)\n", done.stdout)
        self.assertIn("workers   3 on CPUs 0,2,1\n", done.stdout)
        self.assertIn(
            "worker 2   CPU 1, core 0, llc 0, package 0, node 0; near: same core 0 | same llc 1\n", done.stdout
        )


class Errors(unittest.TestCase):
    def refused(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 2, arguments)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_topology(self):
        self.assertIn("expected levels from the outside inwards", self.refused("--topology", "synthetic:nonsense"))
        self.assertIn("unknown form", self.refused("--topology", "nonsense"))
        self.assertIn("No such file", self.refused("--topology", "xml:nowhere.xml"))
        self.assertIn("not a topology of hwloc", self.refused("--topology", "xml:%s" % pathlib.Path(__file__)))

    def test_usage(self):
        for arguments in (["--workers", "-1"], ["--workers", "x"], ["--workers", "1000000000"], ["--nope"], ["--workers"], ["x"]):
            self.assertNotEqual(self.refused(*arguments), "")

    def test_help_is_no_error(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--topology", done.stdout)

    def test_full_disk(self):
        for form in ([], ["--json"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([TOOL, *form], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("standard output", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
