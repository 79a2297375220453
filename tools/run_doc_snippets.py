"""Compiles and runs every ```cpp block of README.md and docs/*.md against the built library.

A block with a main is taken as it stands. A block without one is the body of a main that includes
<tensora/tensora.h> and uses namespace tensora; functions and types defined in it move in front.
A comment on the line before the fence changes that:
  <!-- no-run -->    compile only
  <!-- fragment -->  not C++ that stands alone: skip
A ```text block announced by <!-- prints --> must equal what the block before it printed.

All blocks are one translation unit, each in a namespace of its own, and one process each.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent / "lint"))
from common import blank_comments_and_literals
from length import is_function_head

SECONDS_PER_BLOCK = 60
_FENCE = re.compile(r"^(?P<indent>[ \t]*)```(?P<language>[\w+]*)[ \t]*$")
_NOTE = re.compile(r"^\s*<!--\s*(no-run|fragment|prints)\s*-->\s*$")
_MAIN = re.compile(r"\bint\s+main\s*\(([^)]*)\)")
_DEFINITION = re.compile(r"(template|struct|class|union|enum|namespace|constexpr|inline|static)\b|using\s+\w+\s*=")
_CONTROL = re.compile(r"(if|else|for|while|do|switch|try|catch|return)\b")


@dataclasses.dataclass
class Block:
    path: str
    line: int  # of the first line of code
    code: str
    run: bool
    prints: str | None = None

    @property
    def place(self):
        return f"{self.path}:{self.line}"


def blocks_of(path, text):
    """The C++ blocks of a Markdown text, without the fragments."""
    blocks, lines, number, note = [], text.split("\n"), 0, ""
    while number < len(lines):
        fence, marker = _FENCE.match(lines[number]), _NOTE.match(lines[number])
        number += 1
        if marker or not fence:
            note = marker.group(1) if marker else (note if not lines[number - 1].strip() else "")
            continue
        start, indent = number, len(fence["indent"])
        while number < len(lines) and lines[number].strip() != "```":
            number += 1
        body = "\n".join(line[indent:] if not line[:indent].strip() else line for line in lines[start:number])
        number += 1
        if fence["language"] == "cpp" and note != "fragment":
            blocks.append(Block(path, start + 1, body, run=note != "no-run"))
        elif note == "prints" and blocks:
            blocks[-1].prints = body
        note = ""
    return blocks


def translation_unit(blocks):
    includes = ["#include <tensora/tensora.h>", "#include <cstdio>", "#include <cstdlib>",
                "#include <exception>"]
    parts = []
    for index, block in enumerate(blocks):
        code = re.sub(r"^[ \t]*#[ \t]*include\b.*$", lambda m: includes.append(m.group(0).strip()) or "", block.code,
                      flags=re.MULTILINE)
        parts.append(f"namespace snippet_{index} {{\n{_as_function(block, code)}}}\n")
    cases = "".join(f"    case {index}: return snippet_{index}::snippet_main();\n" for index in range(len(blocks)))
    return "\n".join(dict.fromkeys(includes)) + "\n" + "".join(parts) + f"""
#line 1 "main of the documentation's blocks"
static int run(int index) {{
  switch (index) {{
{cases}    default: return 2;
  }}
}}
int main(int, char** arguments) try {{
  return run(std::atoi(arguments[1]));
}} catch (const std::exception& error) {{
  std::fprintf(stderr, "threw: %s\\n", error.what());
  return 1;
}}
"""


def _as_function(block, code):
    """The text of a namespace with `int snippet_main()` in it; #line makes errors name the document."""
    blanked = blank_comments_and_literals(code)
    main = _MAIN.search(blanked)
    if main:
        end = _end_of_braces(blanked, blanked.index("{", main.end()))
        takes_arguments = main.group(1).strip() not in ("", "void")
        before, head, body = code[:main.start()], code[main.start():main.end()], code[main.end():end]
        head = head.replace("main", "document_main", 1)
        call = "static char* none[] = {nullptr}; return document_main(0, none);" if takes_arguments else \
            "return document_main();"
        # Only the real main may end without a return.
        text = f"{before}{head}{body} return 0; {code[end:]}"
        return f'#line {block.line} "{block.path}"\n{text}\nint snippet_main() {{ {call} }}\n'
    definitions, statements = [], []
    for start, end in _top_level(blanked):
        line = block.line + code.count("\n", 0, start)
        target = definitions if _is_definition(blanked[start:end]) else statements
        target.append(f'#line {line} "{block.path}"\n{code[start:end]}\n')
    return (f"using namespace tensora;\n{''.join(definitions)}"
            f"int snippet_main() {{\n{''.join(statements)}return 0;\n}}\n")


def _end_of_braces(code, opening):
    depth = 0
    for at in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return len(code) - 1


def _top_level(code):
    """Cuts code into its outermost statements and definitions; yields (start, end)."""
    depth, start = 0, 0
    for match in re.finditer(r"[(){}\[\];]", code):
        symbol, after = match.group(0), match.end()
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(symbol, 0)
        closes = symbol == "}" and not re.match(r"\s*[;),.(\[]", code[after:])
        if depth == 0 and (symbol == ";" or closes):
            yield start + _leading_space(code[start:after]), after
            start = after
    if code[start:].strip():
        yield start + _leading_space(code[start:]), len(code)


def _leading_space(text):
    return len(text) - len(text.lstrip())


def _is_definition(chunk):
    if _DEFINITION.match(chunk):
        return True
    head, brace, _ = chunk.partition("{")
    return bool(brace) and "=" not in head and not _CONTROL.match(head) and \
        re.match(r"[\w:<>,&*\s]+\s[&*]?[\w:]+\s*\(", head) is not None and is_function_head(head)


def compile_blocks(blocks, arguments, work):
    source, program = work / "snippets.cpp", work / "snippets"
    source.write_text(translation_unit(blocks))
    command = [arguments.compiler, "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-Wno-unused",
               "-Wno-unused-parameter", "-Wno-unused-but-set-variable", *filter(None, arguments.flag),
               str(source), "-o", str(program)]
    for folder in arguments.include:
        command += ["-I", folder]
    for library in arguments.library:
        command += [library, f"-Wl,-rpath,{os.path.dirname(library)}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        return None
    return program


def run_block(program, index, block):
    """None when all is well, else a sentence."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run([str(program), str(index)], capture_output=True, text=True, cwd=folder,
                                  timeout=SECONDS_PER_BLOCK, check=False)
        except subprocess.TimeoutExpired:
            return f"ran longer than {SECONDS_PER_BLOCK} s"
    if done.returncode:
        return f"ended with status {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}"
    if block.prints is not None and done.stdout.rstrip() != block.prints.rstrip():
        return f"printed\n{done.stdout.rstrip()}\nbut the document says\n{block.prints.rstrip()}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, help="the folder with README.md and docs/")
    parser.add_argument("--work", required=True, help="a folder for the generated source and program")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--include", action="append", default=[], help="an include folder; may be repeated")
    parser.add_argument("--library", action="append", default=[],
                        help="the full path of a library; may be repeated")
    parser.add_argument("--flag", action="append", default=[], help="a further compiler flag; may be repeated")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()

    root = Path(arguments.root)
    documents = [p for p in [root / "README.md", *sorted((root / "docs").glob("**/*.md"))] if p.exists()]
    blocks = [b for p in documents for b in blocks_of(str(p.relative_to(root)), p.read_text())]
    if not blocks:
        sys.exit("doc snippets: README.md and docs/ have no C++ block")
    work = Path(arguments.work)
    work.mkdir(parents=True, exist_ok=True)
    program = compile_blocks(blocks, arguments, work)
    if program is None:
        sys.exit("doc snippets: a block does not compile")

    runs = [(index, block) for index, block in enumerate(blocks) if block.run]
    with concurrent.futures.ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        outcomes = list(pool.map(lambda item: run_block(program, *item), runs))
    failures = [(block, outcome) for (_, block), outcome in zip(runs, outcomes) if outcome]
    for block, outcome in failures:
        print(f"{block.place}: the block {outcome}")
    print(f"doc snippets: {len(blocks)} compiled, {len(runs) - len(failures)} ran, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
