"""Proves that run_doc_snippets.py runs what it should and catches what is wrong, on a library of one function."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().with_name("run_doc_snippets.py")
LIBRARY = "#pragma once\n#include <stdexcept>\nnamespace tensora { inline int twice(int x) { return 2 * x; } }\n"


def fenced(code, note=""):
    return f"Text.\n\n{note}\n```cpp\n{code}\n```\n"


class DocSnippets(unittest.TestCase):
    def run_on(self, *texts):
        with tempfile.TemporaryDirectory(prefix="tensora docs ") as folder:
            root = Path(folder)
            for name, text in {"include/tensora/tensora.h": LIBRARY, "README.md": texts[0],
                               "docs/a.md": "".join(texts[1:])}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            command = [sys.executable, SCRIPT, "--root", root, "--work", root / "work", "--include", root / "include"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def test_every_form_of_block(self):
        status, output = self.run_on(
            fenced("#include <vector>\nint main(int argc, char** argv) { std::vector<int> v; }"),
            fenced("int x = twice(2);\nif (x != 4) { throw std::runtime_error(\"wrong\"); }"),
            fenced("template <class T>\nT half(T x) { return x / 2; }\n\nint third(int x) {\n  return x / 3;\n}\n"
                   "struct Pair { int a, b; };\nPair p{half(4), third(9)};\nfor (int i = 0; i < p.a; ++i) { p.b++; }"),
            fenced("throw std::runtime_error(\"never run\");", "<!-- no-run -->"),
            fenced("this is not C++", "<!-- fragment -->"),
            "1. A list\n   ```cpp\n   int x = twice(3);\n   std::printf(\"%d\\n\", x);\n   ```\n\n"
            "   <!-- prints -->\n   ```text\n   6\n   ```\n")
        self.assertIn("5 compiled, 4 ran, 0 failed", output)
        self.assertEqual(status, 0)

    def test_a_block_that_throws(self):
        status, output = self.run_on(fenced("int x = 1;"), fenced("throw std::runtime_error(\"alas\");"))
        self.assertIn("docs/a.md:5: the block ended with status 1: threw: alas", output)
        self.assertIn("2 compiled, 1 ran, 1 failed", output)
        self.assertEqual(status, 1)

    def test_a_block_that_does_not_compile(self):
        status, output = self.run_on(fenced("int x = 1;"), fenced("int x = twice(2);\nint y = thrice(2);"))
        self.assertIn("docs/a.md:6:", output)
        self.assertEqual(status, 1)

    def test_a_block_that_prints_something_else(self):
        status, output = self.run_on(fenced('std::printf("1");') + "\n<!-- prints -->\n```text\n2\n```\n")
        self.assertIn("printed\n1\nbut the document says\n2", output)
        self.assertEqual(status, 1)

    def test_no_block_at_all(self):
        status, output = self.run_on("Nothing.\n")
        self.assertIn("no C++ block", output)
        self.assertEqual(status, 1)


if __name__ == "__main__":
    unittest.main()
