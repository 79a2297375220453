#!/usr/bin/env python3
"""`./dev docs`: the API reference, written from the headers into docs/reference/.

One page per family: each room of tensora/ops, one each for tensors, autograd and the run time, and one
for each folder above the ops (class_reference.py).
What stands on a page is what stands in the headers: the `///` comments and the declarations below
them; for a pointwise functor its formula. `--check` writes nothing and fails if a page is out of date.
"""
import argparse
import pathlib
import re
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "cmake"))
import class_reference  # noqa: E402
import generate  # noqa: E402  (the functors are read as the build reads them)
import python_reference  # noqa: E402

PAGES = {  # pages beside the rooms: title, headers
    "tensor": ("Tensors", ["core/tensor.h", "core/tensor_options.h", "core/shape.h", "core/dtype.h", "core/device.h",
                           "core/scalar.h", "core/accessor.h", "core/print.h", "core/text.h",
                           "ops/operators.h", "ops/libtorch_names.h"]),
    "autograd": ("Autograd", ["autograd/grad_mode.h", "autograd/engine.h", "autograd/function.h",
                              "autograd/checkpoint.h", "autograd/saved_tensor_hooks.h", "dispatch/autocast.h"]),
    "runtime": ("Threads, devices, random numbers, profiling",
                ["base/thread_pool.h", "core/backend.h", "core/random.h", "core/determinism.h",
                 "dispatch/profiler.h", "dispatch/memory_watch.h", "dispatch/build_info.h"]),
    "tracing": ("Compiled functions and tracing", ["jit/lazy.h", "jit/compile.h", "jit/stats.h", "jit/graph.h"]),
    "cuda": ("CUDA", ["backend/cuda/cuda.h", "backend/cuda/runtime/stream.h", "backend/cuda/runtime/graph.h",
                      "backend/cuda/memory/memory.h", "backend/cuda/memory/pinned_tensor.h"]),
}
NOTICE = "<!-- Written by ./dev docs from the headers; do not edit. -->\n"
DOC = re.compile(r"^( *)///[^\n]*\n(?: *///[^\n]*\n)*", re.M)


def statement(text, start):
    """The declaration that begins at `start`: up to its `;`, or to the body it opens."""
    depth = 0
    for at in range(start, len(text)):
        letter = text[at]
        depth += letter in "(" and 1 or letter in ")" and -1 or 0
        if letter == ";" and depth == 0:
            return text[start:at], at + 1
        if letter == "{" and depth == 0 and not text[start:at].rstrip().endswith("="):
            return text[start:at], at + 1
    return text[start:], len(text)


def tidy(declaration):
    declaration = re.sub(r"^\s*(template <[^\n]*>)\s*", r"\1 ", declaration)
    declaration = re.sub(r"\) : .*$", ")", declaration, flags=re.S)
    return " ".join(declaration.split()).replace("inline constexpr ", "constexpr ").removeprefix("inline ")


def is_internal(declaration):
    return re.search(r"Attrs\b|OpDef<|\bdescribe\(|\bdetail::", declaration) is not None


def entries(text):
    """(comment, [declarations]) for each documented block of a header."""
    for match in DOC.finditer(text):
        comment = " ".join(line.strip().removeprefix("///").strip() for line in match.group(0).splitlines())
        declarations, at = [], match.end()
        # The comment covers the declarations that follow without a blank line or another comment.
        while at < len(text) and not re.match(r"\s*(//|$|\}|\n *\n|public:|private:|protected:|#)", text[at:at + 80]):
            declaration, at = statement(text, at)
            declarations.append(tidy(declaration))
            opened = text[at - 1] == "{"
            if opened or re.match(r"[ \t]*\n[ \t]*\n", text[at:]):
                break
        declarations = [d for d in declarations if d]
        if declarations and not is_internal(declarations[0]):
            yield comment, declarations


def header_page(path):
    text = path.read_text()
    blocks = [f"```c++\n{chr(10).join(d + ';' for d in declarations)}\n```\n{comment}\n"
              for comment, declarations in entries(text)]
    if not blocks:
        return ""
    return f"\n## `{path.relative_to(ROOT)}`\n\n" + "\n".join(blocks)


def functor_page(header, functors):
    text = header.read_text()
    lines = []
    for functor in functors:
        if functor.internal:
            continue
        body = re.search(rf"^struct {functor.struct} : .*?^}};", text, re.M | re.S).group(0)
        formula = re.search(r"\bforward\([^)]*\)(?: const)? \{\s*return (.*?);\s*\}", body, re.S)
        shown = " ".join(formula.group(1).split()).replace("|", "\\|") if formula else "see the header"
        shown = re.sub(r"lit<V>\((.*?)\)", r"\1", shown)
        arguments = ", ".join(functor.operands + [f"{n} = {d}" for _, n, d in functor.fields])
        gradient = "no" if "differentiable = false" in body or " vjp_a(" not in body else "yes"
        lines.append(f"| `{functor.name}({arguments})` | `{shown}` | {'yes' if functor.inplace else 'no'} "
                     f"| {gradient} |")
    if not lines:
        return ""
    return (f"\n## `{header.relative_to(ROOT)}`\n\n| function and method | value | in-place form | gradient |\n"
            "|---|---|---|---|\n" + "\n".join(lines) + "\n")


def room_page(room):
    parts = []
    for header in sorted(room.glob("*.h")):
        functors = generate.read_functors(header) if room.name == "pointwise" else []
        parts.append(functor_page(header, functors) if functors else header_page(header)
                     if "// Internal header" not in header.read_text() else "")
    return f"{NOTICE}# {room.name}\n" + "".join(parts)


def pages():
    result = {}
    for name, (title, headers) in PAGES.items():
        result[name] = f"{NOTICE}# {title}\n" + "".join(
            header_page(ROOT / "tensora" / h) for h in headers if (ROOT / "tensora" / h).exists())
    rooms = [p for p in sorted((ROOT / "tensora/ops").iterdir()) if p.is_dir()]
    result.update({room.name: text for room in rooms if "\n## " in (text := room_page(room))})
    families = "".join(f"- [{name}]({name}.md)\n" for name in sorted(result) if name not in PAGES)
    others = "".join(f"- [{title}]({name}.md)\n" for name, (title, _) in PAGES.items())
    above = "".join(f"- [{title}]({name}.md)\n" for name, (title, _) in class_reference.PAGES.items())
    classes = class_reference.pages(NOTICE)
    assert not classes.keys() & result.keys(), "two pages of the reference have one name"
    result.update(classes)
    result["README"] = (f"{NOTICE}# API reference\n\nEverything here is in namespace `tensora`; "
                       "`#include <tensora/tensora.h>` brings the "
                       "ops and the framework, except for the pages about CUDA and tracing.\n"
                       "A function whose first parameter is called `self` is also a method of `Tensor`.\n\n"
                       f"## The framework\n\n{others}- [Python](python/README.md)\n\n## Above the ops\n\n{above}\n"
                       f"## Ops, by family\n\n{families}")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    arguments = parser.parse_args()
    folder = ROOT / "docs/reference"
    wanted = {f"{name}.md": text for name, text in pages().items()} | python_reference.pages()
    present = {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*.md")}
    stale = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    if arguments.check:
        if stale:
            print(f"docs/reference is out of date ({', '.join(stale)}): run ./dev docs")
        return 1 if stale else 0
    (folder / "python").mkdir(parents=True, exist_ok=True)
    for name in stale:
        (folder / name).write_text(wanted[name]) if name in wanted else (folder / name).unlink()
    print(f"docs/reference: {len(wanted)} pages, {len(stale)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
