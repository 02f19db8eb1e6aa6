#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""lagom's gdb commands on a live process and on its core. Exit code 77 (skipped) where gdb cannot be used.

usage: gdb_test.py SCRIPT DEBUGGEE
"""

import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
BASE = ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set width 0", "-iex", "set pagination off"]


def gdb(*words):
    done = subprocess.run(
        [*BASE, *[str(w) for w in words]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240
    )
    return done.stdout.decode(errors="replace")


def each(commands):
    return [word for command in commands for word in ("-ex", command)]


def section(text, begin):
    """What `echo BEGIN` announced, up to the next announcement."""
    found = re.search(r"^== %s\n(.*?)(?=^== |\Z)" % re.escape(begin), text, re.M | re.S)
    return found.group(1) if found else ""


def frames(text):
    """Names of the functions, innermost first."""
    return [m.group(1) for m in re.finditer(r"^ *#\d+ +(?:0x[0-9a-f]+ in )?(.*?) \(", text, re.M)]


def looks(ids):
    digger, waiter, spinner = ids
    steps = [
        ("fibers", ["lagom fibers"]),
        ("all", ["lagom bt all"]),
        ("switched", ["lagom fiber %s" % digger, "bt"]),
        ("spinner", ["lagom fiber %s" % spinner, "bt"]),
        ("one", ["lagom bt %s" % waiter]),
        ("wrong", ["python\ntry:\n  gdb.execute('lagom fiber 999999999')\nexcept gdb.error as e:\n  print('refused:', e)\nend"]),
        ("back", ["lagom fiber", "bt"]),
    ]
    return steps


def script_of(folder, ids, last):
    lines = ["source %s" % SCRIPT]
    for name, commands in looks(ids):
        lines += ["echo == %s\\n" % name, *commands]
    lines += ["echo == end\\n", *last]
    path = folder / "commands.gdb"
    path.write_text("\n".join(lines) + "\n")
    return path


def check(text, ids):
    digger, waiter, spinner = ids
    wrong = []

    def expect(what, condition, shown):
        if not condition:
            wrong.append("%s:\n%s" % (what, shown))

    listed = section(text, "fibers")
    expect("the list", re.search(r"^ *%s +parked +mutex +.*digger$" % digger, listed, re.M), listed)
    expect("the list", re.search(r"^ *%s +parked +event +.*a name too long for the string to keep it in itself$" % waiter, listed, re.M), listed)
    expect("the list", re.search(r"^ *%s +running +.*spinner$" % spinner, listed, re.M), listed)
    expect("three fibers", len(listed.strip().splitlines()) == 4, listed)

    every = section(text, "all")
    for number, function, times in ((digger, "wait_in_the_depth", 5), (waiter, "wait_for_an_event", 1), (spinner, "spin_until_told", 1)):
        part = re.search(r"^fiber %s,.*?(?=^fiber |\Z)" % number, every, re.M | re.S)
        names = frames(part.group(0)) if part else []
        expect("frames of " + function, sum(function in n for n in names) == times, every)
        expect("the first frame of fiber " + number, bool(names) and "begin" in names[-1], every)

    switched = frames(section(text, "switched"))
    expect("gdb's own bt of a fiber", sum("wait_in_the_depth" in n for n in switched) >= 5, section(text, "switched"))
    expect("its end", bool(switched) and "begin" in switched[-1], section(text, "switched"))
    expect("bt of the one that runs", any("spin_until_told" in n for n in frames(section(text, "spinner"))), section(text, "spinner"))
    expect("bt of one", any("wait_for_an_event" in n for n in frames(section(text, "one"))), section(text, "one"))
    expect("a wrong id", "refused: no fiber 999999999" in section(text, "wrong"), section(text, "wrong"))
    back = section(text, "back")
    expect("back to the thread", any("raise" in n or "main" == n for n in frames(back)), back)
    return wrong


def check_kernel_core(folder):
    """Where the system writes cores into the working directory."""
    if pathlib.Path("/proc/sys/kernel/core_pattern").read_text().startswith(("|", "/")):
        print("no core to be had from the kernel")
        return []
    place = folder / "kernel"
    place.mkdir()
    wanted = resource.getrlimit(resource.RLIMIT_CORE)[1]
    said = subprocess.run(
        [DEBUGGEE, "stop"], cwd=place, capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (wanted, wanted)),
    ).stdout
    cores = list(place.iterdir())
    if not cores:
        print("the kernel wrote no core")
        return []
    ids = re.search(r"ready (\d+) (\d+) (\d+)", said).groups()
    return check(gdb("-x", script_of(folder, ids, []), DEBUGGEE, cores[0]), ids)


def main():
    if not shutil.which("gdb"):
        print("no gdb here")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="lagom-gdb-") as name:
        folder = pathlib.Path(name)
        first = gdb(*each(["run"]), "--args", DEBUGGEE, "stop")
        if "received signal SIGTRAP" not in first:
            print("gdb cannot run the program here:\n" + first)
            return SKIPPED if re.search(r"ptrace|not permitted|Could not trace", first) else 1
        # Ids are given out by the order of spawning, so they are the same each time; read all the same.
        ids = re.search(r"ready (\d+) (\d+) (\d+)", first).groups()
        core = folder / "core"
        live = gdb("-ex", "run", "-x", script_of(folder, ids, ["lagom gcore %s" % core, "signal 0"]), "--args", DEBUGGEE, "stop")
        wrong = check(live, ids)
        if "exited normally" not in live:
            wrong.append("the process does not go on as if nothing had been:\n" + live[-3000:])
        if not core.exists():
            wrong.append("gcore made no core:\n" + section(live, "end"))
        else:
            dead = gdb("-x", script_of(folder, ids, []), DEBUGGEE, core)
            wrong += ["core: " + w for w in check(dead, ids)]
            if ">= " not in section(dead, "fibers"):
                wrong.append("a core does not know what time it is:\n" + section(dead, "fibers"))
        wrong += ["kernel's core: " + w for w in check_kernel_core(folder)]
    print("\n".join(wrong) or "right")
    return 1 if wrong else 0


if __name__ == "__main__":
    SCRIPT, DEBUGGEE = (pathlib.Path(a).resolve() for a in sys.argv[1:])
    sys.exit(main())
