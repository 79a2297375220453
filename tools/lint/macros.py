"""The whole library gets by with a handful of macros."""

import re

from common import Finding

NAME = "macros"
LIMIT = 10
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


def run(tree):
    seen = {}
    for path in tree.sources("tensora/"):
        code = tree.code(path)
        for match in _DEFINE.finditer(code):
            if not tree.exceptions.allows(NAME, match.group(1)):
                seen.setdefault(match.group(1), (path, code.count("\n", 0, match.start()) + 1))
    if len(seen) < LIMIT:
        return []
    return [Finding(path, line, f"macro {name}: the library has {len(seen)} macros, fewer than {LIMIT} are allowed")
            for name, (path, line) in sorted(seen.items(), key=lambda item: item[1])]
