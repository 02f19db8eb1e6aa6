#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Makes the C++ source that holds the built-in workloads.

usage: embed.py OUTPUT.cpp FILE.json ...
"""
import json
import pathlib
import sys

output, *files = map(pathlib.Path, sys.argv[1:])
entries = []
for file in files:
    text = file.read_text()
    name = json.loads(text)["name"]
    if name != file.stem:
        raise SystemExit("%s: its name is %r, it should be that of the file" % (file, name))
    entries.append('    {"%s", R"json(%s)json"},\n' % (name, text))
output.write_text(
    '#include "workload.hpp"\n\nnamespace lagom::sim {\n\n'
    "const std::vector<builtin_workload>& builtin_workloads() {\n"
    "  static const std::vector<builtin_workload> all = {\n" + "".join(entries) + "  };\n  return all;\n}\n\n"
    "}  // namespace lagom::sim\n"
)
