"""Files and functions that a reader can hold in the head."""

import re

from common import Finding, line_of

NAME = "length"
FILE_LIMIT = 500
FUNCTION_LIMIT = 70
_LABELS = re.compile(r"\s*(?:(?:public|protected|private)\s*:\s*)*")
_TYPE = re.compile(r"^(?:inline\s+|typedef\s+|static\s+|constexpr\s+)*(class|struct|union|enum|namespace)\b")
_TAIL = re.compile(r"[\])]\s*(?:(?:const|noexcept|override|final|mutable|try|&&?)\s*)*(?:(?:->|:|requires).*)?$",
                   re.DOTALL)
_LAMBDA = re.compile(r"(?<!operator)\[[^\[\]]*\]\s*(?:<[^>]*>\s*)?(?:\([^()]*\))?[^()]*$")
_CALLED = re.compile(r"(operator\s*(?:\(\s*\)|\[\s*\]|[^\s\w(]+|\w[\w\s:&*]*)|[~\w]+)\s*(?:<[^<>()]*>)?\s*\(")
_NOT_A_NAME = {"decltype", "noexcept", "requires", "alignas", "explicit", "__launch_bounds__", "__attribute__"}

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
                label = _LABELS.match(code, head).end()
                header = " ".join(code[label:at].split())
                if is_function_head(header):
                    depth_of_function, start, name = depth, label, _name(header)
            depth += 1
        elif symbol == "}":
            depth -= 1
            if depth == depth_of_function:
                first = line_of(code, start)
                yield name, first, line_of(code, at) - first + 1
                depth_of_function = None
        head = at + 1


def is_function_head(header):
    header = re.sub(r"\[\[.*?\]\]|alignas\s*\([^)]*\)", "", header, flags=re.DOTALL)
    bare = _without_template(header.strip())
    # The tail is what may stand between parameters and body: qualifiers, a return type, initialisers.
    return not _TYPE.match(bare) and _TAIL.search(bare) is not None


def _name(header):
    bare = _without_template(header.strip())
    if _LAMBDA.search(bare):
        field = re.search(r"(\w+)\s*=\s*\[[^\[\]]*\][^\[\]]*$", bare)
        return field.group(1) if field else "lambda"
    names = [m.group(1) for m in _CALLED.finditer(bare) if m.group(1) not in _NOT_A_NAME]
    return re.sub(r"\s+", " ", names[0]).strip() if names else "function"


def _without_template(header):
    """The header behind its `template <...>` and the `requires (...)` that may follow it."""
    match = re.match(r"(template\s*<|requires\s*\()", header)
    if not match:
        return header
    opening, closing = ("<", ">") if match.group(0)[-1] == "<" else ("(", ")")
    depth = 0
    for at in range(match.end() - 1, len(header)):
        depth += {opening: 1, closing: -1}.get(header[at], 0)
        if depth == 0:
            return _without_template(header[at + 1:].strip())
    return header
