"""Files and functions that a reader can hold in the head."""

import re

from common import Finding, line_of

NAME = "length"
FILE_LIMIT = 500
FUNCTION_LIMIT = 70
_TYPE = re.compile(r"^(?:export\s+|inline\s+|typedef\s+|static\s+|constexpr\s+)*(class|struct|union|enum|namespace)\b")
_CALLED = re.compile(r"([~\w]+|operator\s*[^\s\w(]+|operator\s*\(\s*\))\s*(?:<[^<>()]*>)?\s*\(")


def run(tree):
    findings = []
    for path in tree.sources():
        lines = tree.text(path).count("\n")
        if lines > FILE_LIMIT and not tree.exceptions.allows(NAME, path):
            findings.append(Finding(path, FILE_LIMIT + 1, f"the file has {lines} lines, more than {FILE_LIMIT}"))
        for name, line, length in functions(tree.code(path)):
            if length > FUNCTION_LIMIT and not tree.exceptions.allows(NAME, f"{path}:{name}"):
                findings.append(Finding(path, line, f"'{name}' has {length} lines, more than {FUNCTION_LIMIT}"))
    return findings


def functions(code):
    """Yields (name, first line, lines) of every outermost function or lambda body in blanked code."""
    # A directive is no code, and #if / #else around one brace would unbalance the count anyway.
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group(0).count("\n"), code, flags=re.MULTILINE)
    depth_of_function, start, name = None, 0, ""
    depth, head = 0, 0
    for match in re.finditer(r"[{};]", code):
        at, symbol = match.start(), match.group(0)
        if symbol == "{":
            if depth_of_function is None:
                header = code[head:at]
                if _is_function(header):
                    depth_of_function, name = depth, _name(header)
                    start = head + len(header) - len(header.lstrip())
            depth += 1
        elif symbol == "}":
            depth -= 1
            if depth == depth_of_function:
                first = line_of(code, start)
                yield name, first, line_of(code, at) - first + 1
                depth_of_function = None
        head = at + 1


def _is_function(header):
    header = re.sub(r"\[\[.*?\]\]|alignas\s*\([^)]*\)", "", header, flags=re.DOTALL).strip()
    bare = _without_template(header)
    if ")" not in bare and not re.search(r"\]\s*(mutable|noexcept)?$", bare):
        return False
    if _TYPE.match(bare):
        return False
    # What stands between the parameters and the body: qualifiers, a trailing return, initialisers.
    return re.search(r"[\])]\s*(const|noexcept|override|final|mutable|try|&&?|->.*|:.*|requires.*)*\s*$", bare,
                     re.DOTALL) is not None


def _without_template(header):
    match = re.match(r"template\s*<", header)
    if not match:
        return header
    depth = 0
    for at in range(match.end() - 1, len(header)):
        depth += {"<": 1, ">": -1}.get(header[at], 0)
        if depth == 0:
            return _without_template(header[at + 1:].strip())
    return header


def _name(header):
    bare = _without_template(header.strip())
    if re.search(r"\[[^\]]*\]\s*(<[^>]*>)?\s*(\([^()]*\))?[^()]*$", bare) and "[" in bare:
        field = re.search(r"[.\s](\w+)\s*=\s*\[", bare)
        return field.group(1) if field else "lambda"
    called = _CALLED.search(bare)
    return called.group(1).replace(" ", "") if called else "function"
