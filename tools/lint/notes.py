"""A citation of a Note leads to the one Note of that title."""

import re

from common import Finding, line_of

NAME = "notes"
_MENTION = re.compile(r"Note \[([^\]\n]+)\]")
_TITLE = re.compile(r"^\s*(?://+|#|\*|<!--)\s*Note \[([^\]\n]+)\]\s*$", re.MULTILINE)
_SUFFIXES = (".h", ".cpp", ".cu", ".cuh", ".py", ".cmake", ".txt", ".md", ".sh")


def run(tree):
    titles, citations = {}, []
    for path in tree.files:
        if not path.endswith(_SUFFIXES) or path.startswith("tools/lint/"):
            continue
        text = tree.text(path)
        starts = set()
        for match in _TITLE.finditer(text):
            titles.setdefault(match.group(1), []).append((path, line_of(text, match.start(1))))
            starts.add(match.start(1))
        citations += [(path, line_of(text, m.start()), m.group(1)) for m in _MENTION.finditer(text)
                      if m.start(1) not in starts]
    findings = [Finding(path, line, f"there is no Note [{title}]") for path, line, title in citations
                if title not in titles]
    for title, places in titles.items():
        findings += [Finding(path, line, f"Note [{title}] is also in {places[0][0]}") for path, line in places[1:]]
    return findings
