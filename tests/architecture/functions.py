# SPDX-License-Identifier: BSL-1.0
"""Finds function bodies in C++ text well enough to measure them: it counts braces and looks at what stands before."""

import re

import sources

TYPE_WORD = re.compile(r"\b(class|struct|union|enum)\b")
AFTER_PARAMETERS = {"const", "noexcept", "override", "final", "mutable", "try", "volatile"}
NO_FUNCTION = {"if", "for", "while", "switch", "catch", "return", "do", "else"}


class Function:
    def __init__(self, name, first, last, start, end):
        self.name, self.first, self.last = name, first, last  # lines, both counted
        self.start, self.end = start, end  # offsets into the text

    @property
    def lines(self):
        return self.last - self.first + 1


def functions(text):
    """All function bodies of the text, in order of their end; a lambda belongs to the function around it."""
    code = _without_directives(sources.blank_comments_and_strings(text))
    found, stack = [], []
    head_start = 0
    for position, character in enumerate(code):
        if character == "{":
            kind = _kind(code[head_start:position], stack[-1][0] if stack else "namespace")
            stack.append((kind, head_start))
            if kind != "braces":
                head_start = position + 1
        elif character == "}" and stack:
            kind, start = stack.pop()
            if kind == "function":
                found.append(_function(code, start, position))
            if kind != "braces":
                head_start = position + 1
        elif character == ";" and not (stack and stack[-1][0] == "braces") and _balanced(code[head_start:position]):
            head_start = position + 1
    return found


def _without_directives(code):
    """Preprocessor lines blanked out, continuation lines too."""
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), code, flags=re.MULTILINE)


def _balanced(head):
    return head.count("(") <= head.count(")")


def _kind(head, around):
    """What a brace opens: namespace, type, function, block (inside a function) or braces (an initializer)."""
    head = re.sub(r"\[\[.*?\]\]", " ", head, flags=re.DOTALL).strip()
    if around in ("function", "block", "braces"):
        return "braces" if around == "braces" else "block"
    if re.match(r"(inline\s+)?namespace\b", head) or head.startswith("extern") and "(" not in head:
        return "namespace"
    plain = re.sub(r"^(template\s*<[^{]*?>\s*)+(?=(class|struct|union)\b)", "", head)
    if TYPE_WORD.match(plain) and not re.search(r"\)\s*(const|noexcept)?\s*$", plain):
        return "type"
    return "function" if _opens_body(head) else "braces"


def _opens_body(head):
    if "(" not in head or not _balanced(head) or head.endswith(("=", ",", "(", "return")):
        return False
    last_word = re.search(r"(\w+)$", head)
    if last_word is None or last_word.group(1) in AFTER_PARAMETERS:
        return True
    # "name(…) : member_" before a brace starts a member initializer, not the body.
    return re.search(r"\)[^()]*(?<!:):(?!:)", head) is None and "=" not in head.split("(", 1)[0]


def _function(code, start, end):
    head = code[start : code.index("{", start)]
    first = code.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
    last = code.count("\n", 0, end) + 1
    names = [n for n in re.findall(r"([~\w:]+|operator\s*\S+)\s*\(", head) if n not in NO_FUNCTION]
    return Function(names[0] if names else "?", first, last, start, end)
