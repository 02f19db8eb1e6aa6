# SPDX-License-Identifier: BSL-1.0
"""Finding and reading the project's C++ files; shared by the checks of this folder."""

import pathlib

CPP_SUFFIXES = {".hpp", ".cpp"}
SKIPPED_TOP = {"subprojects", ".git"}


def cpp_files(root, folders=None):
    """All C++ files below root (or below the given folders of it), as paths relative to root, sorted."""
    root = pathlib.Path(root)
    found = []
    for start in [root / folder for folder in folders] if folders else [root]:
        for path in start.rglob("*"):
            relative = path.relative_to(root)
            top = relative.parts[0]
            if path.suffix in CPP_SUFFIXES and top not in SKIPPED_TOP and not top.startswith("build"):
                found.append(relative)
    return sorted(found)


def read(root, relative):
    return (pathlib.Path(root) / relative).read_text(encoding="utf-8")


def blank_comments_and_strings(text):
    """The same text, same length and line breaks, with comments, strings and characters blanked out."""
    out = []
    position = 0
    while position < len(text):
        end = _end_of_opaque(text, position)
        if end == position:
            out.append(text[position])
            position += 1
        else:
            out.append("".join(c if c == "\n" else " " for c in text[position:end]))
            position = end
    return "".join(out)


def _end_of_opaque(text, start):
    """Where the comment or literal that begins at start ends; start itself if none begins there."""
    if text.startswith("//", start):
        end = text.find("\n", start)
        return len(text) if end < 0 else end
    if text.startswith("/*", start):
        end = text.find("*/", start + 2)
        return len(text) if end < 0 else end + 2
    if text.startswith('R"', start) and not _is_word(text, start - 1):
        bracket = text.find("(", start)
        end = text.find(")" + text[start + 2 : bracket] + '"', bracket)
        return len(text) if end < 0 else end + (bracket - start - 2) + 2
    if text[start] == '"' or (text[start] == "'" and not _is_word(text, start - 1)):  # 1'000 is no character
        return _end_of_quoted(text, start)
    return start


def _end_of_quoted(text, start):
    position = start + 1
    while position < len(text) and text[position] not in (text[start], "\n"):
        position += 2 if text[position] == "\\" else 1
    return min(position + 1, len(text))


def _is_word(text, position):
    return position >= 0 and (text[position].isalnum() or text[position] == "_")
