#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""House rules that a line-by-line look can decide; docs/hacking.md says why each exists.

usage: tidy.py ROOT              check the tree
       tidy.py --self-test ROOT  seed a violation of each rule and see it caught
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import functions
import sources

FILE_LINES = 500
FUNCTION_LINES = 70
COMMENT_WITHIN = 3
STRICT = ["scheduler", "topology", "runtime", "examples", "tools"]
SPDX = "SPDX-License-Identifier: BSL-1.0"
# Files that may ask the preprocessor: the machine, the switch, the assertion, the one lock with clang's annotations, and
# what is exported.
MAY_BRANCH = re.compile(r"^runtime/os/|^runtime/fiber/context\.[ch]pp$|(^|/)assert\.hpp$|/lagom/detail/(spin_lock|export)\.hpp$")
# Built from pieces, so that this file passes its own check.
MACHINE_PATH = re.compile(r"(?<![\w.])/(" + "|".join(["work" + "/", "root" + "/", "home" + r"/\w", "tmp" + "/build"]) + ")")
COMMIT_ID = re.compile(r"(?<![\w#.])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9]{2})(?:[0-9a-f]{12}|[0-9a-f]{40})(?!\w)")
TEXT_SUFFIXES = {".cpp", ".hpp", ".py", ".md", ".build", ".txt", ".sh", ".ini", ".yml", ".supp", ".wrap", ""}


def is_comment(line):
    return line.lstrip().startswith(("//", "/*", "*"))


def check_size(path, lines):
    if len(lines) > FILE_LINES:
        yield FILE_LINES, "file has %d lines, at most %d" % (len(lines), FILE_LINES)


def check_licence(path, lines):
    if not any(SPDX in line for line in lines[:2]):
        yield 1, "no line with " + SPDX


def check_functions(path, lines):
    for function in functions.functions("\n".join(lines)):
        if function.lines > FUNCTION_LINES:
            yield function.first, "%s has %d lines, at most %d" % (function.name, function.lines, FUNCTION_LINES)


def check_memory_order(path, lines):
    """An ordering says what it pairs with. Relaxed says nothing about others and needs no words."""
    for number, line in enumerate(lines):
        if re.search(r"memory_order(_|::)(?!relaxed)\w", line.split("//")[0]):
            near = lines[max(0, number - COMMENT_WITHIN) : number + 1]
            if not any("//" in other or is_comment(other) for other in near):
                yield number + 1, "no comment on this memory order or within %d lines above" % COMMENT_WITHIN


def check_preprocessor(path, lines):
    if MAY_BRANCH.search(path.as_posix()):
        return
    for number, line in enumerate(lines):
        if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line):
            yield number + 1, "conditional compilation outside os/, fiber/context and assert.hpp"


def check_pragma_once(path, lines):
    if path.suffix == ".hpp" and "#pragma once" not in lines:
        yield 1, "header without #pragma once"


CPP_CHECKS = [check_size, check_licence, check_pragma_once]
STRICT_CHECKS = [check_functions, check_memory_order, check_preprocessor]


def check_words(path, lines):
    """No path of anybody's machine, no commit id: both mean nothing to the next reader."""
    for number, line in enumerate(lines):
        if MACHINE_PATH.search(line):
            yield number + 1, "path of a particular machine"
        elif COMMIT_ID.search(line) and path.suffix != ".wrap":
            yield number + 1, "looks like a commit id"


def check_state_writes(root):
    """The state of a fiber is written by one function only (rule 5 of docs/architecture.md): transition()."""
    for path in sources.cpp_files(root, ["runtime"]):
        text = sources.read(root, path)
        code = sources.blank_comments_and_strings(text)
        bodies = functions.functions(text)
        for match in re.finditer(r"(\w+)(?:->|\.)state\.(store|exchange|compare_exchange\w*)\s*\(", code):
            around = [f.name for f in bodies if f.start <= match.start() <= f.end]
            if around[:1] != ["transition"]:
                number = code.count("\n", 0, match.start()) + 1
                yield "%s:%d: the state of a fiber is written outside transition()" % (path, number)


def check_features(root):
    """Each knob says why it exists, on its line or directly above, and the files named as witnesses exist."""
    path = pathlib.Path("scheduler/features.hpp")
    if not (root / path).is_file():
        return
    inside = False
    lines = sources.read(root, path).splitlines()
    for number, line in enumerate(lines):
        inside = line.startswith("struct features {") or (inside and not line.startswith("}"))
        field = re.match(r"  [\w:<>]+ \w+\s*(=[^()]+|\{[^()]*\})?;", line)
        if inside and field and "//" not in line and not is_comment(lines[number - 1]):
            yield "%s:%d: a knob without its reason" % (path, number + 1)
        for witness in re.findall(r"(?:tests|bench|docs)/[\w/.-]+\w", line):
            if not (root / witness).exists():
                yield "%s:%d: names %s, which does not exist" % (path, number + 1, witness)


def text_files(root):
    """What git would keep; without git, everything that is not hidden."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True
    )
    names = listing.stdout.splitlines() if listing.returncode == 0 else None
    if names is None:
        names = [p.relative_to(root).as_posix() for p in pathlib.Path(root).rglob("*") if p.is_file()]
        names = [n for n in names if not n.startswith(("build", "."))]
    # Vectors are data; a wrap carries hashes.
    kept = [n for n in names if pathlib.Path(n).suffix in TEXT_SUFFIXES and not n.startswith("tests/golden/")]
    return [pathlib.Path(n) for n in kept if (root / n).is_file()]


def violations(root):
    found = []
    for path in sources.cpp_files(root):
        lines = sources.read(root, path).splitlines()
        checks = CPP_CHECKS + (STRICT_CHECKS if path.parts[0] in STRICT else [])
        found += ["%s:%d: %s" % (path, number, what) for check in checks for number, what in check(path, lines)]
    for path in text_files(root):
        try:
            lines = sources.read(root, path).splitlines()
        except UnicodeDecodeError:
            continue
        found += ["%s:%d: %s" % (path, number, what) for number, what in check_words(path, lines)]
        if path.suffix == ".py":
            found += ["%s:%d: %s" % (path, number, what) for number, what in check_licence(path, lines)]
    found += list(check_state_writes(root)) + list(check_features(root))
    return found


HEAD = "// " + SPDX + "\n"
SEEDS = [  # (file, text, words of the complaint)
    ("runtime/worker/long.cpp", HEAD + "int x;\n" * 500, "file has"),
    ("tests/unit/bare.cpp", "int x;\n", "no line with"),
    ("tests/tool.py", "print(1)\n", "no line with"),
    ("runtime/io/bare.hpp", HEAD + "int x;\n", "#pragma once"),
    ("scheduler/f.cpp", HEAD + "int f(int a) {\n" + "  a++;\n" * 70 + "  return a;\n}\n", "f has 73 lines"),
    ("tools/m.cpp", HEAD + "struct a {\n  a() : b_{1} {\n" + "    b_++;\n" * 80 + "  }\n  int b_;\n};\n", "a has 82 lines"),
    ("tools/n.cpp", HEAD + "namespace n {\nauto g() -> std::size_t {\n" + "  h();\n" * 80 + "}\n}\n", "g has 82 lines"),
    ("runtime/sync/o.cpp", HEAD + "\n\n\n\nint f(std::atomic<int>& a) {\n  return a.load(std::memory_order_acquire);\n}\n", "order"),
    ("topology/i.cpp", HEAD + "#ifdef __linux__\nint x;\n#endif\n", "conditional"),
    ("examples/j.cpp", HEAD + "#  if 1\nint x;\n#  endif\n", "conditional"),
    ("docs/where.md", "see /" + "work/main/x\n", "path of"),
    ("runtime/os/who.cpp", HEAD + "// since 0123456789" + "ab\n", "commit id"),
    ("scheduler/features.hpp", HEAD + "#pragma once\nstruct features {\n  // why\n  bool a = true;\n\n  bool b = true;\n};\n", ":7: a knob"),
    ("scheduler/features.hpp", HEAD + "#pragma once\nstruct features {\n  // tests/none.cpp\n  bool a = true;\n};\n", "names tests"),
    ("runtime/worker/s.cpp", HEAD + "void worker::hurry(fiber_block& f) {\n  f.state.store(x);\n}\n", "outside transition"),
]
CLEAN = [
    ("runtime/worker/good.cpp", HEAD + "int x;\n" * 499),
    ("scheduler/g.cpp", HEAD + "int f(int a) {\n" + "  a++;\n" * 67 + "  return a;\n}\n"),
    ("tools/types.cpp", HEAD + "struct options {\n" + "  int x = f(1);\n" * 90 + "};\nint table[] = {\n" + "  1,\n" * 90 + "};\n"),
    ("runtime/os/ok.cpp", HEAD + "#ifdef __linux__\n#endif\n// 0123456789 and deadbeefcafe are fine\n"),
    ("runtime/sync/p.cpp", HEAD + "// pairs with unlock\nint f() { return a.load(std::memory_order_acquire); }\n"),
    ("runtime/fiber/t.hpp", HEAD + "#pragma once\ninline void transition(fiber_block& f) noexcept {\n  f.state.store(to);\n}\n"),
    ("runtime/sync/q.cpp", HEAD + "int f() { return a.load(std::memory_order_relaxed); }\n"),
]


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def self_test():
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in CLEAN:
            write(root, name, text)
        wrong += ["false alarm: " + line for line in violations(root)]
        for name, text, complaint in SEEDS:
            seeded = write(root, name, text)
            if not any(name in line and complaint in line for line in violations(root)):
                wrong.append("not caught: %s (%s): %s" % (name, complaint, violations(root)))
            seeded.unlink()
    return wrong


def main(arguments):
    testing_itself = "--self-test" in arguments
    root = pathlib.Path([a for a in arguments if not a.startswith("--")][0])
    found = self_test() if testing_itself else violations(root)
    print("\n".join(found))
    print("tidy: %s, %d violations" % ("%d seeds" % len(SEEDS) if testing_itself else "tree checked", len(found)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
