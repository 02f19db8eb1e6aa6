#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The policy is pure: compiles scheduler/ and the pure half of topology/ and looks at what the objects need and hold.

It compiles for itself, at -O2 without LTO, sanitizers or coverage, because those add symbols of their own.

usage: check_purity.py [--self-test] ROOT COMPILER [COMPILER ARGUMENTS]
"""

import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

import sources

FLAGS = ["-std=c++20", "-O2", "-fPIC", "-fno-lto", "-fno-sanitize=all", "-w", "-c"]

# What every pure object may need: its own kind, memory functions, the assertion, the compiler's arithmetic (128-bit
# division, counting bits), the stack protector.
ARITHMETIC = r"mem(cpy|move|set|cmp|chr)|__assert_fail|__(u?div|u?mod|udivmod|divmod)ti[34]|__(popcount|clz|ctz)[dt]i2|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_"
# topology/ also builds strings and vectors and throws; it runs once, at start.
LIBRARY = (
    r"_ZN[KVr]*S[tsabio]\w*|_ZS[t]\w*|_Z(nw|na|dl|da)\w*|_ZT[IVS]\w*|__cxa_\w+|__gxx_personality_v0|_Unwind_Resume"
    r"|strlen|strto\w+|DW\.ref\.__gxx_personality_v0|_Z\w*Lb\w*"
)
# Even from the standard library: no clock, thread, lock, file or stream in topology's plain values.
NEVER = r"chrono|thread|mutex|condition_variable|filesystem|[io]fstream|basic_filebuf|future|random_device"

FORBIDDEN_HEADERS = set(
    """atomic barrier chrono condition_variable ctime filesystem fstream future iostream latch memory memory_resource
    mutex new random semaphore shared_mutex stop_token thread deque forward_list list map queue set string
    unordered_map unordered_set vector functional any ostream istream sstream""".split()
)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]+)>", re.MULTILINE)


class Module:
    def __init__(self, name, impure, allowed, never, forbidden_headers):
        self.name, self.impure = name, impure
        self.allowed, self.never = re.compile(r"^(%s)$" % allowed), re.compile(never)
        self.forbidden_headers = forbidden_headers
        # Every symbol of the module's own namespace, mangled.
        self.own = re.compile(r"^_Z\w*?5lagom%d%s" % (len(name), name))


MODULES = [
    Module("scheduler", set(), ARITHMETIC, r"^$", FORBIDDEN_HEADERS),
    Module("topology", {"discover.cpp", "bind.cpp"}, ARITHMETIC + "|" + LIBRARY, NEVER, set()),
]


def symbols(object_file):
    """(name, section) of all symbols; an undefined one has the section *UND*."""
    listing = subprocess.run(["nm", "--format=sysv", object_file], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 7:
            yield cells[0], cells[6], cells[2]


def check_object(module, name, object_file):
    for symbol, section, kind in symbols(object_file):
        if section == "*UND*":
            if module.never.search(symbol) or not (module.allowed.match(symbol) or module.own.match(symbol)):
                yield "%s: needs %s" % (name, symbol)
        elif re.match(r"\.(t?data(?!\.rel\.ro)|t?bss)", section) or section == "*COM*":
            if not symbol.startswith("DW.ref."):
                yield "%s: holds writable data %s (GCC puts a std::array with deduced arguments there)" % (name, symbol)
        elif re.match(r"\.(init_array|ctors)", section):
            yield "%s: runs code before main" % name


def compile_one(command, source, folder):
    target = pathlib.Path(folder) / (source.as_posix().replace("/", "_") + ".o")
    done = subprocess.run(command + FLAGS + [str(source), "-o", str(target)], capture_output=True, text=True)
    return source, target, done


def check_headers(root, module):
    for path in sources.cpp_files(root, [module.name]):
        if path.name in module.impure:
            continue
        for header in INCLUDE.findall(sources.read(root, path)):
            if header in module.forbidden_headers:
                yield "%s: includes <%s>" % (path, header)


def violations(root, command):
    found, compiled = [], 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for module in MODULES:
            found += check_headers(root, module)
            wanted = sorted(p for p in (root / module.name).glob("*.cpp") if p.name not in module.impure)
            for source, target, done in pool.map(lambda s: compile_one(command, s, folder), wanted):
                name = "%s/%s" % (module.name, source.name)
                if done.returncode != 0:
                    found.append("%s: does not compile on its own:\n%s" % (name, done.stderr))
                    continue
                compiled += 1
                found += check_object(module, name, target)
    return found, compiled


BODY = "namespace lagom::%s {\n%s\n}\n"
SEEDS = [  # (module, includes, code, words of the complaint)
    ("scheduler", "#include <chrono>", "long f() { return std::chrono::steady_clock::now().time_since_epoch().count(); }", "now"),
    ("scheduler", "#include <mutex>", "int f() { return 1; }", "includes <mutex>"),
    ("scheduler", "", "int* f() { return new int(1); }", "needs _Znwm"),
    ("scheduler", "", "int counter; int f() { return ++counter; }", "writable data"),
    ("scheduler", "", "int f() { static int calls = 3; return ++calls; }", "writable data"),
    ("scheduler", "", "thread_local int calls; int f() { return ++calls; }", "writable data"),
    ("scheduler", "#include <cstdio>", "int f() { return std::puts(\"x\"); }", "needs puts"),
    ("scheduler", "", "} namespace lagom::runtime { int park(); } namespace lagom::scheduler { int f() { return runtime::park(); }", "park"),
    ("topology", "#include <cstdlib>", "char* f() { return std::getenv(\"HWLOC_SYNTHETIC\"); }", "needs getenv"),
    ("topology", "#include <thread>", "unsigned f() { return std::thread::hardware_concurrency(); }", "hardware_concurrency"),
]
CLEAN = [
    ("scheduler", "#include <cassert>", "__int128 f(__int128 a, __int128 b) { assert(b != 0); return a / b; }\nconst int table[] = {1, 2};"),
    ("scheduler", "", "int g(int); int f(int a) { return g(a); }"),
    ("topology", "#include <string>\n#include <vector>", "std::string f(int n) { std::vector<int> v(n); return std::to_string(v.size()); }"),
]


def self_test(command):
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for module in MODULES:
            (root / module.name).mkdir()
        for number, (module, includes, code) in enumerate(CLEAN):
            (root / module / ("good%d.cpp" % number)).write_text(includes + "\n" + BODY % (module, code))
        for number, (module, includes, code, _) in enumerate(SEEDS):
            (root / module / ("seed%d.cpp" % number)).write_text(includes + "\n" + BODY % (module, code))
        found, _ = violations(root, command)
        wrong += ["false alarm: " + line for line in found if "/good" in line]
        for number, (module, _, code, complaint) in enumerate(SEEDS):
            name = "%s/seed%d.cpp" % (module, number)
            if not any(line.startswith(name + ":") and complaint in line for line in found):
                wrong.append("not caught: %s (%s)" % (code, complaint))
    return wrong


def main(arguments):
    testing_itself = "--self-test" in arguments
    arguments = [a for a in arguments if a != "--self-test"]
    root, command = pathlib.Path(arguments[0]), arguments[1:]
    if testing_itself:
        found, compiled = self_test(command), len(SEEDS)
    else:
        found, compiled = violations(root, command)
    print("\n".join(found))
    print("purity: %d files checked, %d violations" % (compiled, len(found)))
    return 1 if found or compiled == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
