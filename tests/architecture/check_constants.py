#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""docs/constants.md tells the truth: each row's value stands in the file the row names, and no constant is missing.

usage: check_constants.py ROOT
       check_constants.py --self-test ROOT   spoil the document and the code in a copy and see it caught
"""

import pathlib
import re
import shutil
import sys
import tempfile

DOCUMENT = "docs/constants.md"
# Here every constant must have a row.
COMPLETE = {
    "runtime/worker/constants.hpp": re.compile(r"^inline constexpr [\w:]+ (\w+) = ([^;]+);", re.MULTILINE),
    "scheduler/features.hpp": re.compile(r"^    f\.(\w+) = ([\d']+);", re.MULTILINE),
}
ROW = re.compile(r"^\| `(\w+)` \| `([^`]+)` \|[^|]*\| `([^`]+)` \| *(.*?) *\|$", re.MULTILINE)


def runtime_preset(text):
    """Of features.hpp only what lagom itself runs with counts."""
    start = text.find("features runtime()")
    return text[start : text.find("  }", start)]


def read(root, name):
    file = pathlib.Path(root) / name
    if not file.is_file():
        return None
    text = file.read_text(encoding="utf-8")
    return runtime_preset(text) if name == "scheduler/features.hpp" else text


def violations(root):
    rows = ROW.findall(read(root, DOCUMENT) or "")
    found = [] if rows else ["%s: no rows" % DOCUMENT]
    for name, value, where, why in rows:
        text = read(root, where)
        if text is None:
            found.append("%s: %s: no file %s" % (DOCUMENT, name, where))
        elif not re.search(r"\b%s = %s *[;,]" % (re.escape(name), re.escape(value)), text):
            found.append("%s: %s: %s does not say '%s = %s'" % (DOCUMENT, name, where, name, value))
        if len(why) < 15:
            found.append("%s: %s: no reason" % (DOCUMENT, name))
    documented = {(name, where) for name, _, where, _ in rows}
    for where, pattern in COMPLETE.items():
        for name, _ in pattern.findall(read(root, where) or ""):
            if (name, where) not in documented:
                found.append("%s: %s of %s has no row" % (DOCUMENT, name, where))
    return found


def self_test(root):
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for name in [DOCUMENT, *COMPLETE, *{where for _, _, where, _ in ROW.findall(read(root, DOCUMENT))}]:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, copy / name)
        clean = violations(copy)
        number = COMPLETE["runtime/worker/constants.hpp"].findall(read(root, "runtime/worker/constants.hpp"))[0][0]
        knob = COMPLETE["scheduler/features.hpp"].findall(read(root, "scheduler/features.hpp"))[0][0]
        spoilings = [
            (DOCUMENT, r"^\| `%s` .*\n" % number, "", number + " of runtime/worker/constants.hpp has no row"),
            (DOCUMENT, r"^(\| `%s` \| `)" % number, r"\g<1>9", "does not say '%s = 9" % number),
            ("runtime/worker/constants.hpp", r"\b%s = " % number, number + " = 7", "does not say '" + number),
            ("scheduler/features.hpp", r"(runtime\(\) \{(?:.|\n)*?)f\.%s = " % knob, r"\1f.%s = 7" % knob, "'" + knob),
            (DOCUMENT, r"^(\| `%s` .*\|)[^|\n]+\|$" % number, r"\1 |", number + ": no reason"),
        ]
        for name, pattern, replacement, complaint in spoilings:
            original = (copy / name).read_text(encoding="utf-8")
            (copy / name).write_text(re.sub(pattern, replacement, original, count=1, flags=re.MULTILINE), encoding="utf-8")
            if not any(complaint in line for line in violations(copy) if line not in clean):
                wrong.append("not caught: %s in %s: %s" % (complaint, name, violations(copy)))
            (copy / name).write_text(original, encoding="utf-8")
    return wrong


def main(arguments):
    testing_itself = "--self-test" in arguments
    root = pathlib.Path([a for a in arguments if not a.startswith("--")][0])
    found = self_test(root) if testing_itself else violations(root)
    print("\n".join(found))
    print("constants: %d violations" % len(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
