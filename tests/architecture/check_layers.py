#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The layout is a test: checks every #include of the tree against the table in docs/architecture.md.

usage: check_layers.py ROOT           check the tree
       check_layers.py --self-test ROOT   seed violations into a copy of the table's house and see each one caught
"""

import pathlib
import re
import sys
import tempfile

import sources

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]+)>|"([^"\n]+)")', re.MULTILINE)
MARKER = "<!-- include table"
PUBLIC = "runtime/include/lagom/"
# The folders that an include line may name, and where they are.
MODULES = {name: name + "/" for name in ("scheduler", "topology")}
MODULES.update({name: "runtime/" + name + "/" for name in ("os", "trace", "fiber", "sync", "io", "worker")})

STANDARD = set(
    """algorithm any array atomic barrier bit bitset charconv chrono compare complex concepts condition_variable
    coroutine deque exception execution filesystem format forward_list fstream functional future initializer_list
    iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex new
    numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex
    source_location span sstream stack stdexcept stop_token streambuf string string_view syncstream system_error
    thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector version
    cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef cstdint cstdio
    cstdlib cstring ctime cuchar cwchar cwctype""".split()
)


class Row:
    """One line of the table: what the files of a folder may include."""

    def __init__(self, folder, modules, third_party):
        self.direct_only = folder.endswith("*.cpp")
        self.folder = folder.removesuffix("*.cpp")
        self.everything = "everything" in modules
        self.modules = set(re.findall(r"`([^`]+)`", modules))
        self.third_party = []  # (header prefix, file names or None)
        for entry in third_party.split(";"):
            what, _, where = entry.partition(" in ")
            files = set(re.findall(r"`([^`]+)`", where)) or None
            self.third_party += [(prefix, files) for prefix in re.findall(r"`([^`]+)`", what)]

    def allows_third_party(self, header, file_name):
        system = "/" not in header or header.startswith(("sys/", "linux/", "arpa/", "netinet/", "net/"))
        for prefix, files in self.third_party:
            fits = (prefix == "system" and system) or header == prefix or (prefix[-1] == "/" and header.startswith(prefix))
            if fits and (files is None or file_name in files):
                return True
        return False


def read_table(document):
    after = document.split(MARKER, 1)
    if len(after) != 2:
        raise SystemExit("docs/architecture.md: no line with '%s'" % MARKER)
    rows = []
    for line in after[1].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[0].startswith("`"):
            rows += [Row(folder, cells[1], cells[2]) for folder in re.findall(r"`([^`]+)`", cells[0])]
        elif rows and not line.startswith("|"):
            break
    if len(rows) < 10:
        raise SystemExit("docs/architecture.md: the include table has %d rows; it should have 10 or more" % len(rows))
    return rows


def row_of(path, rows):
    text = path.as_posix()
    fitting = [r for r in rows if text.startswith(r.folder) and not (r.direct_only and "/" in text[len(r.folder) :])]
    return max(fitting, key=lambda r: len(r.folder), default=None)


def check_quoted(root, path, target, row):
    """Bare name: my own folder. "module/name.hpp": another module of the table's row."""
    if "/" not in target:
        return None if (root / path.parent / target).is_file() else "bare name is not in its own folder"
    if target.startswith(".") or "/../" in target:
        return "relative path; name the module"
    if row.everything:
        return None
    module = target.split("/", 1)[0]
    if module not in MODULES:
        return "no such module"
    if path.as_posix().startswith(MODULES[module]):
        return "own folder: use the bare name"
    return None if MODULES[module] in row.modules else "%s may not include %s" % (row.folder, MODULES[module])


def check_angled(path, target, row):
    if target in STANDARD:
        return None
    if target.startswith("lagom/"):
        return None if "<lagom/>" in row.modules or row.everything else "%s may not include <lagom/…>" % row.folder
    if row.everything or row.allows_third_party(target, path.name):
        return None
    return "%s may not include this third-party or system header" % row.folder


def violations(root, rows):
    found = []
    for path in sources.cpp_files(root):
        row = row_of(path, rows)
        if row is None:
            found.append("%s: its folder has no row in the include table of docs/architecture.md" % path)
            continue
        text = sources.read(root, path)
        for match in INCLUDE.finditer(text):
            angled, quoted = match.groups()
            why = check_quoted(root, path, quoted, row) if quoted else check_angled(path, angled, row)
            if why:
                line = text.count("\n", 0, match.start()) + 1
                found.append("%s:%d: %s: %s" % (path, line, match.group(0).strip(), why))
    return found


# What must be caught: file, include line. The clean ones must pass.
SEEDS = [
    ("scheduler/seed.cpp", '#include "topology/topology.hpp"'),
    ("scheduler/seed.cpp", '#include "os/clock.hpp"'),
    ("scheduler/seed.hpp", "#include <lagom/fiber.hpp>"),
    ("scheduler/seed.hpp", '#include "scheduler/own.hpp"'),
    ("scheduler/seed.hpp", "#include <boost/context/detail/fcontext.hpp>"),
    ("topology/seed.cpp", '#include "scheduler/own.hpp"'),
    ("topology/seed.cpp", "#include <hwloc.h>"),
    ("runtime/include/lagom/seed.hpp", "#include <boost/intrusive/list.hpp>"),
    ("runtime/include/lagom/seed.hpp", '#include "fiber/own.hpp"'),
    ("runtime/include/lagom/seed.hpp", "#  include <unistd.h>"),
    ("runtime/os/seed.cpp", '#include "trace/own.hpp"'),
    ("runtime/os/seed.cpp", "#include <lagom/fiber.hpp>"),
    ("runtime/trace/seed.cpp", "#include <sys/mman.h>"),
    ("runtime/fiber/seed.cpp", '#include "worker/own.hpp"'),
    ("runtime/fiber/seed.cpp", "#include <boost/context/detail/fcontext.hpp>"),
    ("runtime/sync/seed.cpp", '#include "worker/own.hpp"'),
    ("runtime/sync/seed.cpp", '#include "../worker/own.hpp"'),
    ("runtime/sync/seed.cpp", '#include "scheduler/own.hpp"'),
    ("runtime/io/seed.cpp", '#include "sync/own.hpp"'),
    ("runtime/io/seed.cpp", '#include "absent.hpp"'),
    ("runtime/io/seed.cpp", "#include <sys/epoll.h>"),
    ("runtime/worker/seed.cpp", "#include <hwloc.h>"),
    ("runtime/seed.cpp", "#include <fmt/format.h>"),
    ("examples/seed.cpp", '#include "worker/own.hpp"'),
    ("misc/seed.cpp", "#include <vector>"),
    ("runtime/elsewhere/seed.cpp", "#include <vector>"),
]
CLEAN = [
    ("scheduler/good.cpp", '#include "own.hpp"\n#include <boost/intrusive/rbtree_algorithms.hpp>\n#include <cstdint>'),
    ("topology/discover.cpp", '#include "own.hpp"\n#include <hwloc.h>\n#include <string>'),
    ("runtime/os/good.cpp", "#include <sys/mman.h>\n#include <unistd.h>"),
    ("runtime/trace/good.cpp", '#include "os/own.hpp"'),
    ("runtime/fiber/context.cpp", '#include "own.hpp"\n#include <boost/context/detail/fcontext.hpp>'),
    ("runtime/sync/good.cpp", '#include "fiber/own.hpp"\n#include <lagom/mutex.hpp>'),
    ("runtime/worker/good.cpp", '#include "scheduler/own.hpp"\n#include "topology/own.hpp"\n#include "io/own.hpp"'),
    ("runtime/good.cpp", '#include "worker/own.hpp"\n#include <lagom/lagom.hpp>'),
    ("examples/good.cpp", "#include <lagom/lagom.hpp>\n#include <iostream>"),
    ("tests/unit/good.cpp", '#include "scheduler/own.hpp"\n#include <doctest/doctest.h>\n#include <sys/mman.h>'),
]


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def self_test(rows):
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for place in MODULES.values():
            write(root, place + "own.hpp", "#pragma once")
        for name, text in CLEAN:
            write(root, name, text)
        wrong += ["false alarm: " + line for line in violations(root, rows)]
        for name, text in SEEDS:
            seeded = write(root, name, text)
            if not any(line.startswith(name) for line in violations(root, rows)):
                wrong.append("not caught: %s in %s" % (text, name))
            seeded.unlink()
    return wrong


def main(arguments):
    testing_itself = "--self-test" in arguments
    root = pathlib.Path([a for a in arguments if not a.startswith("--")][0])
    rows = read_table(sources.read(root, "docs/architecture.md"))
    found = self_test(rows) if testing_itself else violations(root, rows)
    print("\n".join(found))
    checked = "%d seeds" % len(SEEDS) if testing_itself else "%d files" % len(sources.cpp_files(root))
    print("layers: %s checked, %d violations" % (checked, len(found)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
