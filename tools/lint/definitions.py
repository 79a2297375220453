"""A type with a name of its own is defined in one file: two definitions of one name break the program unseen."""

import re

from common import Finding, line_of

NAME = "definitions"
_PARTS = re.compile(
    r"[{}]"
    r"|\bnamespace\b\s*(?P<space>[\w:]*)\s*\{"
    r"|\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+"
    r"(?:(?:__\w+|alignas)\([^)]*\)\s+|\[\[[^\]]*\]\]\s*|[A-Z]+_[A-Z_]+\s+)*"
    r"(?P<type>\w+)\s*(?:final\s*)?(?::[^:;{}()][^;{}()]*)?\{")


def types_of(code):
    """(name with its namespaces, position) of each type outside unnamed namespaces, functions and types."""
    scopes = []
    for match in _PARTS.finditer(code):
        if match.group() == "}":
            if scopes:
                scopes.pop()
        elif match.group("space") is not None:
            scopes.append(match.group("space"))
        elif match.group("type"):
            if all(scopes):
                yield "::".join(scopes + [match.group("type")]), match.start("type")
            scopes.append("")
        else:
            scopes.append("")


def run(tree):
    places = {}
    for path in tree.sources("tensora/"):
        code = tree.code(path)
        for name, position in types_of(code):
            places.setdefault(name, {}).setdefault(path, line_of(code, position))
    findings = []
    for name, files in sorted(places.items()):
        if len(files) < 2 or tree.exceptions.allows(NAME, name):
            continue
        first = min(files)
        findings += [Finding(path, line, f"{name} is defined in {first} too; the linker keeps one of both")
                     for path, line in sorted(files.items()) if path != first]
    return findings
