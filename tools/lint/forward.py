"""A forward declaration reaches upward no more than an include does."""

import re

from common import Finding, line_of
from includes import ORDER

NAME = "forward"
_DECLARED = re.compile(r"^(?:template <[^;{]*>\n)?(?:class|struct|enum class|enum) (\w+);", re.MULTILINE)
_DEFINED = re.compile(r"^(?:class|struct|enum class|enum) (\w+)\b[^;{(]*\{", re.MULTILINE)


def run(tree):
    declared, defined = [], {}
    for path in tree.sources("tensora/"):
        folder = path.split("/")[1]
        if folder not in ORDER:
            continue
        code = tree.code(path)
        for match in _DEFINED.finditer(code):
            rank = ORDER.index(folder)
            defined[match.group(1)] = min(rank, defined.get(match.group(1), rank))
        declared += [(path, line_of(code, m.start(1)), m.group(1), ORDER.index(folder))
                     for m in _DECLARED.finditer(code)]
    return [Finding(path, line, f"'{name}' belongs to tensora/{ORDER[defined[name]]}/, which comes after "
                                f"{path.split('/')[1]}/ in the order of folders")
            for path, line, name, rank in declared
            if defined.get(name, rank) > rank and not tree.exceptions.allows(NAME, f"{path}:{name}")]
