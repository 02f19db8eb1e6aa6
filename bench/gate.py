#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Counts the instructions of one operation and compares them with a limit.

Each gate program runs twice under callgrind, with few and with many operations; the difference divided by the number of
operations between them is the cost of one. Instructions, unlike nanoseconds, are the same on a busy machine. Limits stand
in gate_limits.json, one set per processor family, compiler and optimization, each 5 % above what was measured when it was set.

Exit status: 0 all within their limits, 1 one above, or a program failed, 77 (skipped) without valgrind or limits.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
TOLERANCE = 1.05
# Below this share of its limit a gate has become so much cheaper that the limit should follow.
STALE = 0.85

# Operations of the two runs. Enough that a stray timer of the runtime's monitor thread vanishes.
GATES = {
    "switch": (4_000, 44_000),
    "switch_many": (8_000, 208_000),  # how many of the thousand are in the tree varies with time
    "wake": (4_000, 44_000),
    "wake_clamped": (4_000, 44_000),
    "channel": (4_000, 104_000),
    "mutex": (4_000, 204_000),
    "checkpoint": (4_000, 404_000),
    "spawn": (2_000, 22_000),
}

# Under valgrind a stint lasts 50 times as long: what depends on its length must not decide what is counted.
ENVIRONMENT = dict(os.environ, LAGOM_FEATURES="wakeup_granularity=1000000000,yield_granularity=1000000000")


def instructions(program: pathlib.Path, operations: int) -> int:
    """Of the busiest thread: the worker. The monitor's wake-ups depend on the time, not on the work."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        command = ["valgrind", "-q", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={out}",
                   str(program), str(operations)]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{program.name} {operations}: status {done.returncode}\n{done.stderr}")
        totals = []
        for part in pathlib.Path(folder).iterdir():
            found = re.search(r"^totals: (\d+)", part.read_text(), re.MULTILINE)
            if found:
                totals.append(int(found.group(1)))
        if not totals:
            raise RuntimeError(f"{program.name} {operations}: callgrind wrote no totals\n{done.stderr}")
        return max(totals)


def cost(folder: pathlib.Path, gate: str) -> float:
    few, many = GATES[gate]
    program = folder / f"gate_{gate}"
    # Time stands in the way of the lower ones: valgrind runs one thread at a time, and the monitor's turns stretch stints.
    least = [min(instructions(program, n) for _ in range(2)) for n in (few, many)]
    return (least[1] - least[0]) / (many - few)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the gate programs are, for example build/bench")
    parser.add_argument("--limits", type=pathlib.Path, default=pathlib.Path(__file__).with_name("gate_limits.json"))
    parser.add_argument("--build", required=True, help="which set of limits, for example x86_64-gcc-12-O2")
    parser.add_argument("--update", action="store_true", help="set the limits from what is measured now")
    parser.add_argument("gates", nargs="*", help=f"default: all of {' '.join(GATES)}")
    options = parser.parse_intermixed_args()
    for gate in options.gates:
        if gate not in GATES:
            parser.error(f"there is no gate '{gate}'; there are: {' '.join(GATES)}")
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: skipped")
        return SKIPPED
    all_limits = json.loads(options.limits.read_text()) if options.limits.exists() else {}
    limits = all_limits.get(options.build, {})
    if not limits and not options.update:
        print(f"{options.limits.name} has no limits for {options.build}: skipped")
        return SKIPPED

    above = False
    print(f"{'gate':<12} {'instructions':>12} {'limit':>9}")
    for gate in options.gates or GATES:
        try:
            measured = cost(options.folder, gate)
        except RuntimeError as error:
            print(f"{gate:<12} failed: {error}")
            above = True
            continue
        if options.update:
            limits[gate] = {"measured": round(measured, 1), "limit": round(measured * TOLERANCE, 1)}
        limit = limits.get(gate, {}).get("limit")
        if limit is None:
            remark = "no limit yet"
        elif measured > limit:
            remark = f"ABOVE its limit, by {100 * (measured / limit - 1):.1f} %"
            above = True
        else:
            remark = "much cheaper than its limit: set a new one with --update" if measured < STALE * limit else ""
        print(f"{gate:<12} {measured:>12.1f} {limit if limit is not None else '-':>9} {remark}".rstrip(), flush=True)
    if options.update and not above:
        all_limits[options.build] = limits
        options.limits.write_text(json.dumps(all_limits, indent=2, sort_keys=True) + "\n")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
