#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Bad input to lagom-sim: exit code 2, nothing on standard output, and a message that says where, what and what instead.

usage: refusals.py LAGOM_SIM
"""

import json
import pathlib
import subprocess
import sys
import tempfile

SPAWN = {"ev": "spawn", "id": "A"}
CASES = [  # (input: text or something to dump, words the message must have)
    ("", ["is no JSON", "line 1"]),
    ('{"events": [', ["is no JSON"]),
    ([], ["must be an object", "events"]),
    ({}, ["'events' is missing"]),
    ({"events": {}}, ["'events' must be an array", "object"]),
    ({"input": []}, ["input", "must be an object"]),
    ({"events": [], "config": []}, ["config", "must be an object"]),
    ({"events": [], "config": {"base_slize": 1}}, ["config", "base_slize", "base_slice"]),
    ({"events": [], "config": {"rtp": "max"}}, ["config", "rtp", "minslice_off"]),
    ({"events": [], "config": {"preset": "linux-2.4"}}, ["preset", "linux-7.1"]),
    ({"events": [], "config": {"tick": -1}}, ["tick", "-1"]),
    ({"events": [], "config": {"tick": 1.5}}, ["tick", "integer", "1.5"]),
    ({"events": [], "config": {"base_slice": 0}}, ["base_slice", "from 1"]),
    ({"events": [], "config": {"place_lag": 1}}, ["place_lag", "true or false"]),
    ({"events": [], "config": {"slice_min": 9, "slice_max": 8}}, ["slice_min", "slice_max"]),
    ({"events": [7]}, ["events[0]", "must be an object"]),
    ({"events": [{}]}, ["events[0]", "'ev' is missing"]),
    ({"events": [SPAWN, {"ev": "jump"}]}, ["events[1]", "jump", "yield_to"]),
    ({"events": [{"ev": "spawn"}]}, ["events[0]", "'id' is missing"]),
    ({"events": [{"ev": "spawn", "id": 4}]}, ["events[0]", "'id'", "string"]),
    ({"events": [dict(SPAWN, nise=4)]}, ["events[0]", "nise", "nice"]),
    ({"events": [dict(SPAWN, nice=20)]}, ["events[0]", "'nice'", "-20 to 19", "20"]),
    ({"events": [dict(SPAWN, weight=-1)]}, ["events[0]", "'weight'"]),
    ({"events": [dict(SPAWN, slice="1ms")]}, ["events[0]", "'slice'", "1ms"]),
    ({"events": [SPAWN, SPAWN]}, ["events[1]", '"A" exists already']),
    ({"events": [{"ev": "run"}]}, ["events[0]", "'ns' is missing"]),
    ({"events": [{"ev": "run", "ns": -5}]}, ["events[0]", "'ns'", "-5"]),
    ({"events": [{"ev": "run", "ns": 18446744073709551615}]}, ["events[0]", "'ns'", "18446744073709551615"]),
    ({"events": [{"ev": "wake", "id": "B"}]}, ["events[0]", '"B"', "spawn"]),
    ({"events": [{"ev": "block"}]}, ["events[0]", "nobody is running"]),
    ({"events": [{"ev": "exit"}]}, ["events[0]", "nobody is running"]),
    ({"events": [SPAWN, {"ev": "attach", "id": "A"}]}, ["events[1]", "queued already"]),
    ({"events": [SPAWN, {"ev": "block"}, {"ev": "detach", "id": "A"}]}, ["events[2]", "not queued"]),
    ({"events": [SPAWN, {"do": [{"ev": "run", "ns": 1}, {"ev": "wake", "id": "B"}]}]}, ["events[1].do[1]", '"B"']),
    ({"events": [{"do": 3}]}, ["events[0]", "'do' must be an array"]),
    ({"events": [dict(SPAWN, repeat=-1)]}, ["events[0]", "'repeat'"]),
]


def run(arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def refused(simulator, arguments, words):
    code, output, message = run([simulator] + arguments)
    wrong = []
    if code != 2:
        wrong.append("exit code %d" % code)
    if output:
        wrong.append("wrote to standard output")
    wrong += ["no word of %r" % word for word in words if word not in message]
    return wrong and "%s (message: %s)" % ("; ".join(wrong), message.strip())


def main(simulator):
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "case.json"
        for content, words in CASES:
            file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
            wrong = refused(simulator, ["replay", str(file)], words + ["case.json"])
            failures += bool(wrong)
            print("%s  %s" % (wrong or "refused", json.dumps(content)))
        for arguments, words in [
            (["replay", str(pathlib.Path(folder) / "absent.json")], ["absent.json", "cannot be read"]),
            (["replay", folder], [folder, "cannot be read"]),
            (["replay"], ["FILE"]),
            (["dance"], []),
            ([], []),
        ]:
            wrong = refused(simulator, arguments, words)
            failures += bool(wrong)
            print("%s  %s" % (wrong or "refused", arguments))
    code, output, message = run([simulator, "--help"])
    failures += code != 0 or "replay" not in output
    print("%d cases failed" % failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
