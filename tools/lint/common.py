"""What every lint shares: the tree it reads, the findings it returns, the list of exceptions."""

import dataclasses
import os
import re
import shutil
import subprocess
from pathlib import Path

SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
EXCEPTIONS_FILE = "tools/lint/exceptions.txt"


@dataclasses.dataclass(frozen=True)
class Finding:
    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


class Exceptions:
    """Lines `lint subject reason...`; an entry that excuses nothing is itself a finding."""

    def __init__(self, root):
        self._entries = {}
        self._used = set()
        self.malformed = []
        path = root / EXCEPTIONS_FILE
        lines = path.read_text().splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = line.split(None, 2)
            if len(parts) < 3:
                self.malformed.append(
                    Finding(EXCEPTIONS_FILE, number, "an exception needs a lint, a subject and a reason"))
                continue
            self._entries[(parts[0], parts[1])] = number

    def allows(self, lint, subject):
        if (lint, subject) not in self._entries:
            return False
        self._used.add((lint, subject))
        return True

    def unused(self, lints):
        return [Finding(EXCEPTIONS_FILE, number, f"nothing needs the exception '{lint} {subject}' any more")
                for (lint, subject), number in self._entries.items()
                if lint in lints and (lint, subject) not in self._used]


class Tree:
    """A working tree: its files (tracked or new, never ignored ones), their text, its build folder."""

    def __init__(self, root, build=None, jobs=1, everything=False):
        self.root = Path(root).resolve()
        self.build = Path(build).resolve() if build else self.root / "build"
        self.jobs = jobs
        self.everything = everything
        self.exceptions = Exceptions(self.root)
        self.files = sorted(self._list())
        self._code = {}

    def git(self, *words):
        """What git prints, or None where there is no git or no repository (a tarball, a bare machine)."""
        if not (self.root / ".git").exists() or not shutil.which("git"):
            return None
        done = subprocess.run(["git", "-C", str(self.root), *words], capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else None

    def _list(self):
        listed = self.git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        if listed is not None:
            return {f for f in listed.split("\0") if f and (self.root / f).is_file()}
        found = set()
        for folder, folders, files in os.walk(self.root):
            folders[:] = [f for f in folders if f not in {"build", "dist", ".git", ".cache", "__pycache__"}]
            found.update(str((Path(folder) / f).relative_to(self.root)) for f in files)
        return found

    def sources(self, under="", suffixes=SOURCE_SUFFIXES):
        return [f for f in self.files if f.startswith(under) and Path(f).suffix in suffixes]

    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def code(self, path):
        """The text with comments and the insides of literals blanked; every position stays the same."""
        if path not in self._code:
            self._code[path] = blank_comments_and_literals(self.text(path))
        return self._code[path]


_BLANKED = re.compile(
    r'//[^\n]*|/\*.*?\*/'
    r'|R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.DOTALL)


def blank_comments_and_literals(text):
    def blank(match):
        piece = match.group(0)
        spaces = re.sub(r"[^\n]", " ", piece)
        return spaces if piece.startswith("/") else piece[-1] + spaces[1:-1] + piece[-1]

    # An include's path is a literal too, but the include lint has to read it.
    return _BLANKED.sub(lambda m: m.group(0) if _is_include(text, m.start()) else blank(m), text)


def _is_include(text, position):
    line = text[text.rfind("\n", 0, position) + 1:position]
    return re.fullmatch(r"\s*#\s*include\s*", line) is not None


def line_of(text, position):
    return text.count("\n", 0, position) + 1
