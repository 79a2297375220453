#!/usr/bin/env python3
"""Checks the Markdown pages: links lead to files and headings that exist, and tables are whole."""
import argparse
import pathlib
import re

_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#+[ \t]+(.+?)[ \t]*$", re.MULTILINE)


def prose_of(path):
    """The text without its code blocks, line for line."""
    return _FENCE.sub(lambda block: "\n" * block.group().count("\n"), path.read_text())


def anchors_of(path):
    """The anchors that GitHub gives the headings of a page."""
    anchors, seen = set(), {}
    for heading in _HEADING.findall(prose_of(path)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = seen[anchor] = seen.get(anchor, -1) + 1
        anchors.add(f"{anchor}-{count}" if count else anchor)
    return anchors


def broken_links(path):
    prose = prose_of(path)
    for match in _LINK.finditer(prose):
        target, _, anchor = match.group(1).partition("#")
        if ":" in target:  # another site
            continue
        file = path.parent / target if target else path
        line = prose.count("\n", 0, match.start()) + 1
        if not file.exists():
            yield line, f"there is no {target}"
        elif anchor and file.suffix == ".md" and anchor not in anchors_of(file):
            yield line, f"{file.name} has no heading #{anchor}"


def broken_tables(path):
    """Rows that no head belongs to, behind a blank line, say: they are shown as they stand."""
    lines = prose_of(path).split("\n")
    for number, (before, line, after) in enumerate(zip([""] + lines, lines, lines[1:] + [""]), 1):
        is_first = line.startswith("| ") and not before.startswith("|")
        if is_first and not re.fullmatch(r"\|(\s*:?-+:?\s*\|)+", after):
            yield number, "a row of a table without a head"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    root = parser.parse_args().root.resolve()
    pages = sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "examples").rglob("*.md")])
    problems = [f"{page.relative_to(root)}:{line}: {complaint}" for page in pages
                for line, complaint in [*broken_links(page), *broken_tables(page)]]
    if len(pages) < 40:
        problems.append(f"only {len(pages)} pages were found")
    if problems:
        raise SystemExit("\n".join(problems))
    print(f"links and tables of {len(pages)} pages are whole")


if __name__ == "__main__":
    main()
