"""Proves that every lint catches a planted violation and stays silent on a clean tree."""

import json
import shutil
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import banned
import definitions
import format as format_lint
import forward
import headers
import includes
import length
import macros
import notes
import paths
import tidy
from common import EXCEPTIONS_FILE, Tree, blank_comments_and_literals

HERE = Path(__file__).resolve().parent


class LintTest(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="tensora lint "))
        self.addCleanup(shutil.rmtree, self.root)

    def findings(self, lint, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.root / "build").mkdir(exist_ok=True)
        self.tree = Tree(self.root, jobs=2, everything=True)
        return [str(f) for f in lint.run(self.tree)]

    def expect(self, lint, files, *starts):
        """The findings begin with these texts, in order, and there are no others."""
        found = self.findings(lint, files)
        self.assertEqual(len(found), len(starts), found)
        for finding, start in zip(found, starts):
            self.assertTrue(finding.startswith(start), f"{finding!r} does not start with {start!r}")


class Forward(LintTest):
    def test_upward_declaration(self):
        self.expect(forward, {"tensora/core/a.h": "class Node;\nstruct Here;\n",
                              "tensora/autograd/node.h": "class Node : public X {\n};\n",
                              "tensora/base/b.h": "struct Here {\n};\n"},
                    "tensora/core/a.h:1: 'Node' belongs to tensora/autograd/")

    def test_own_and_lower_folders(self):
        self.expect(forward, {"tensora/ops/a.h": "class Node;\nstruct Mine;\n",
                              "tensora/ops/b.h": "struct Mine final {\n};\n",
                              "tensora/autograd/node.h": "class Node {\n};\n"})

    def test_exception(self):
        self.expect(forward, {"tensora/core/a.h": "class Node;\n", "tensora/autograd/n.h": "class Node {\n};\n",
                              EXCEPTIONS_FILE: "forward tensora/core/a.h:Node for a reason\n"})


class Notes(LintTest):
    def test_dangling_citation(self):
        self.expect(notes, {"tensora/a.h": "// Note [Tiles]\n// why\n", "tensora/b.h": "// See Note [Tile].\n",
                            "docs/c.md": "see Note [Tiles]\n"},
                    "tensora/b.h:1: there is no Note [Tile]")

    def test_two_of_one_title(self):
        self.expect(notes, {"tensora/a.h": "// Note [Tiles]\n", "tensora/b.h": "\n// Note [Tiles]\n"},
                    "tensora/b.h:2: Note [Tiles] is also in tensora/a.h")


class Includes(LintTest):
    def test_upward_include(self):
        self.expect(includes, {"tensora/core/a.h": '// first\n#include "tensora/ops/b.h"\n'},
                    "tensora/core/a.h:2: tensora/core/ includes tensora/ops/b.h")

    def test_relative_upward_include(self):
        self.expect(includes, {"tensora/base/a.cpp": '#include "../nn/b.h"\n', "tensora/nn/b.h": "\n"},
                    "tensora/base/a.cpp:1: tensora/base/ includes tensora/nn/b.h")

    def test_umbrella_of_a_later_folder(self):
        self.expect(includes, {"tensora/core/a.h": '#include "tensora/ops.h"\n'}, "tensora/core/a.h:1: ")

    def test_library_includes_a_test(self):
        self.expect(includes, {"tensora/llm/a.cpp": '#include "tests/b.h"\n'}, "tensora/llm/a.cpp:1: ")

    def test_library_includes_the_umbrella(self):
        self.expect(includes, {"tensora/llm/a.cpp": "#include <tensora/tensora.h>\n"}, "tensora/llm/a.cpp:1: ")

    def test_folder_without_a_place(self):
        self.expect(includes, {"tensora/attic/a.cpp": '#include "tensora/base/b.h"\n'}, "tensora/attic/a.cpp:1: ")

    def test_kernel_that_sees_tensor(self):
        self.expect(includes, {
            "tensora/core/tensor.h": "\n",
            "tensora/ops/a/a.h": '#include "tensora/core/tensor.h"\n',
            "tensora/ops/a/a.cpp": '#include "tensora/ops/a/a.h"\n',
            "tensora/ops/a/a_cuda.cu": '#include "tensora/ops/a/a.h"\n'},
            "tensora/ops/a/a_cuda.cu:1: a kernel sees tensora/core/tensor.h")

    def test_what_is_allowed(self):
        self.expect(includes, {
            "tensora/ops/a.cpp": '#include "tensora/base/b.h"\n#include "tensora/ops/c.h"\n#include <vector>\n',
            "tensora/tensora.h": '#include "tensora/llm/b.h"\n',
            "tensora/core/a.h": '// #include "tensora/ops/b.h"\n',
            "tensora/ops/a_cases.cpp": '#include "tests/suite/cases.h"\n',
            "tests/a.cpp": '#include "tensora/tensora.h"\n',
        })


class Length(LintTest):
    def test_long_file(self):
        self.expect(length, {"tensora/base/a.h": "\n" * 501}, "tensora/base/a.h:501: the file has 501 lines")

    def test_file_at_the_limit(self):
        self.expect(length, {"tensora/base/a.h": "\n" * 500})

    def test_long_function(self):
        body = "  f();\n" * 69
        text = f"namespace a {{\nstruct S : B<int()> {{\n  int g() const noexcept {{\n{body}  }}\n}};\n}}\n"
        self.expect(length, {"tensora/base/a.cpp": text}, "tensora/base/a.cpp:3: 'g' has 71 lines")

    def test_long_lambda_in_a_description(self):
        text = "auto op = define(Op{\n.infer = [](const T& x) -> T {\n" + "  f();\n" * 69 + "},\n});\n"
        self.expect(length, {"tensora/ops/a.cpp": text}, "tensora/ops/a.cpp:2: 'infer' has 71 lines")

    def test_long_class_of_short_functions(self):
        text = "struct S {\n" + "  int f() { return 1; }\n" * 100 + "};\n"
        self.expect(length, {"tensora/base/a.h": text})

    def test_exception_and_unused_exception(self):
        self.expect(length, {
            "tensora/base/a.h": "\n" * 501,
            EXCEPTIONS_FILE: "length tensora/base/a.h a table\nlength tensora/base/b.h a table\nlength tensora/c.h\n",
        })
        self.assertEqual([f.line for f in self.tree.exceptions.unused(["length"])], [2])
        self.assertEqual([f.line for f in self.tree.exceptions.malformed], [3])


class Macros(LintTest):
    def test_too_many(self):
        text = "".join(f"#define TENSORA_{i} {i}\n" for i in range(10))
        found = self.findings(macros, {"tensora/base/a.h": text})
        self.assertEqual(len(found), 10)
        self.assertTrue(found[3].startswith("tensora/base/a.h:4: macro TENSORA_3"))

    def test_few_and_repeated(self):
        text = "".join(f"#define TENSORA_{i % 9} {i}\n" for i in range(30))
        self.expect(macros, {"tensora/base/a.h": text, "tests/a.cpp": "#define ONE_MORE\n"})


class Definitions(LintTest):
    def test_two_definitions(self):
        self.expect(definitions, {
            "tensora/ops/a.cuh": "namespace tensora::cuda {\ntemplate <int K>\nstruct Rows {\n};\n}\n",
            "tensora/ops/b.h": "namespace tensora {\nnamespace cuda {\nclass Rows final : A {\n};\n}\n}\n"},
                    "tensora/ops/b.h:3: tensora::cuda::Rows is defined in tensora/ops/a.cuh too")

    def test_types_that_differ(self):
        own = "struct %s {\n  struct Part { int x; };\n};\nstruct Known;\n"
        self.expect(definitions, {
            "tensora/ops/a.h": "namespace tensora {\n" + own % "A" + "}\n",
            "tensora/ops/b.h": "namespace tensora {\n" + own % "B" + "}\n",
            "tensora/ops/a.cpp": "namespace tensora {\nnamespace {\nstruct A {};\n}\nvoid f() { struct A {}; }\n}\n",
            "tensora/ops/b.cpp": "namespace tensora::b {\nstruct A {};\n}\nnamespace tensora { struct Known {}; }\n"})


class Banned(LintTest):
    def test_every_rule(self):
        text = textwrap.dedent("""\
            void f() {
              std::abort();
              exit(1);
              assert(x);
              printf("x");
              std::fprintf(stderr, "x");
              void* p = malloc(8);
              auto* q = new float[8];
              cudaMalloc(&p, 8);
              cudaEventSynchronize(e);
            }
            """)
        found = sorted(self.findings(banned, {"tensora/core/a.cpp": text}),
                       key=lambda finding: int(finding.split(":")[1]))
        words = [finding.split(": ")[1] for finding in found]
        self.assertEqual(words, ["abort", "exit", "assert", "printf", "fprintf", "malloc", "new", "cudaMalloc",
                                 "cudaEventSynchronize"])
        self.assertEqual([finding.split(":")[1] for finding in found], [str(line) for line in range(2, 11)])

    def test_what_is_allowed(self):
        self.expect(banned, {
            "tensora/core/a.cpp": 'static_assert(1); snprintf(b, 1, ""); x.exit(1); // abort()\n'
                                  'auto s = "exit(1)"; auto p = new Thing(3); on_exit(2); new (p) T();\n',
            "tests/a.cpp": "void f() { exit(1); }\n",
        })


class Paths(LintTest):
    def test_machine_path(self):
        self.expect(paths, {"docs/a.md": "see\n/wo" + "rk/main/x\n"}, "docs/a.md:2: '/wo" + "rk/' is a path")

    def test_what_is_allowed(self):
        self.expect(paths, {"docs/a.md": "/usr/local/cuda, ../wo" + "rk/x, https://a.b/wo" + "rk/y, network/x\n"})


class Format(LintTest):
    def setUp(self):
        super().setUp()
        if not shutil.which(format_lint.PROGRAM):
            self.skipTest(f"{format_lint.PROGRAM} is not installed")
        shutil.copy(HERE.parents[1] / ".clang-format", self.root)

    def test_unformatted(self):
        self.expect(format_lint, {"tensora/a.cu": "int x;\nint   y;\n", "tensora/b.h": "int x;\n"},
                    "tensora/a.cu:2: not formatted")


class Headers(LintTest):
    def test_header_that_leans_on_another(self):
        self.expect(headers, {"tensora/base/a.h": "#pragma once\n\nstd::vector<int> f();\n"},
                    "tensora/base/a.h:3: does not compile alone")

    def test_header_that_the_build_proves(self):
        broken = {"tensora/base/a.h": "std::vector<int> f();\n", "tensora/base/a.cpp": '#include "tensora/base/a.h"\n'}

        def with_command(command):
            entry = {"directory": str(self.root / "build"), "file": str(self.root / "tensora/base/a.cpp")}
            return {**broken, "build/compile_commands.json": json.dumps([{**entry, "command": command}])}

        self.expect(headers, with_command("g++ -c a.cpp"))
        self.expect(headers, with_command("g++ -include all.h -c a.cpp"), "tensora/base/a.h:1: ")
        broken["tensora/base/a.cpp"] = "#include <vector>\n" + broken["tensora/base/a.cpp"]
        self.expect(headers, with_command("g++ -c a.cpp"), "tensora/base/a.h:1: ")

    def test_generated_header(self):
        self.expect(headers, {"build/generated/include/tensora/core/a.h": "\nstd::vector<int> f();\n"},
                    "build/generated/include/tensora/core/a.h:2: does not compile alone")

    def test_clean_is_remembered_until_an_include_changes(self):
        self.expect(headers, {
            "tensora/base/a.h": "#pragma once\n#include <vector>\nstruct A {};\n",
            "tensora/base/b.h": '#pragma once\n#include "tensora/base/a.h"\nstd::vector<A> f();\n',
        })
        self.expect(headers, {"tensora/base/a.h": "#pragma once\n#include <vector>\n"},
                    "tensora/base/b.h:3: does not compile alone")


class Tidy(LintTest):
    def setUp(self):
        super().setUp()
        if not shutil.which(tidy.PROGRAM):
            self.skipTest(f"{tidy.PROGRAM} is not installed")
        shutil.copy(HERE.parents[1] / ".clang-tidy", self.root)

    def test_source_and_header(self):
        self.expect(tidy, {
            "tensora/base/a.h": "#pragma once\nint* f();\ninline int* g() { return 0; }\n",
            "tensora/base/a.cpp": '#include "tensora/base/a.h"\nint* f() { return 0; }\n',
        }, "tensora/base/a.cpp:2: use nullptr", "tensora/base/a.h:3: use nullptr")


class Blanking(unittest.TestCase):
    def test_lines_and_code_survive(self):
        text = 'int a = 1\'000; /* {\n */ auto s = R"x({"\n)x"; char c = \'"\'; // }\n#include "a.h"\n'
        blanked = blank_comments_and_literals(text)
        self.assertEqual(blanked.count("\n"), text.count("\n"))
        self.assertNotIn("{", blanked)
        self.assertIn("char c", blanked)
        self.assertIn('#include "a.h"', blanked)


if __name__ == "__main__":
    unittest.main()
