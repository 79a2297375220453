#!/usr/bin/env python3
"""Performs the steps of docs/add-an-op.md in a scratch copy and runs the op suite on the new ops.

Only what the new op changes is compiled; everything else is linked from the finished build, since
new functions and methods leave the layout of all classes as it is.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ISAS = ("baseline", "avx2", "avx512")


def code_blocks(document):
    """(kind, path, text) of every block that starts with `// file:` or `// append:`."""
    pattern = r"```cpp\n// (file|append): (\S+)\n(.*?)```"
    return re.findall(pattern, document.read_text(), re.S)


def apply_blocks(blocks, tree):
    written = []
    for kind, name, text in blocks:
        path = tree / name
        if kind == "file":
            path.write_text(text)
            written.append(path)
        else:  # before the closing line of the namespace
            old = path.read_text()
            head, tail = old.rsplit("}  // namespace", 1)
            path.write_text(f"{head}{text}\n}}  // namespace{tail}")
    return written


class Builder:
    """A scratch copy of the sources in the build tree, in which a page's steps are performed."""

    def __init__(self, root, build, scratch):
        self.root, self.build, self.scratch = root, build, scratch
        self.tree, self.generated = scratch / "src", scratch / "generated"
        self.commands = json.loads((build / "compile_commands.json").read_text())

    @classmethod
    def from_arguments(cls, page, parts=("tensora",)):
        """For the page of this name in docs/, with a copy of these folders."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--root", type=pathlib.Path, required=True)
        parser.add_argument("--build", type=pathlib.Path, required=True)
        arguments = parser.parse_args()
        root, build = arguments.root.resolve(), arguments.build.resolve()
        scratch = build / page.replace("-", "_")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        builder = cls(root, build, scratch)
        builder.page = root / f"docs/{page}.md"
        for part in parts:
            shutil.copytree(root / part, builder.tree / part)
        return builder

    def perform(self):
        """Writes the page's blocks and runs the generator; the files that were written."""
        written = apply_blocks(code_blocks(self.page), self.tree)
        subprocess.run([sys.executable, str(self.root / "cmake/generate.py"), str(self.tree),
                        str(self.generated)], check=True)
        return written

    def expect_output(self, command):
        """Runs a program, which must print the page's block of text."""
        result = subprocess.run([str(word) for word in command], text=True, capture_output=True)
        print(result.stdout, result.stderr)
        expected = re.search(r"```text\n(.*?)```", self.page.read_text(), re.S).group(1)
        if result.returncode != 0 or result.stdout != expected:
            raise SystemExit(f"the page says\n{expected}")

    def flags_like(self, sample, contains):
        """The compiler call of an existing file, without its input, outputs and precompiled header."""
        for entry in self.commands:
            if entry["file"].endswith(sample) and contains in entry["command"]:
                words = shlex.split(entry["command"])
                break
        else:
            raise SystemExit(f"no compile command like {sample} ({contains})")
        while words[0].endswith("ccache"):
            words = words[1:]
        kept, skip = [], False
        for word in words:
            if skip or word in ("-c", entry["file"]):
                skip = False
                continue
            if word in ("-o", "-MF", "-MT", "-include", "-MD", "-Winvalid-pch"):
                skip = word not in ("-MD", "-Winvalid-pch")
                continue
            word = word.replace(f"-I{self.build}/generated", f"-I{self.generated}")
            kept.append(f"-I{self.tree}" if word == f"-I{self.root}" else word)
        return kept

    def compile(self, source, flags, tag):
        target = self.scratch / "objects" / f"{tag}.{source.name}.o"
        target.parent.mkdir(exist_ok=True)
        subprocess.run([*flags, "-c", str(source), "-o", str(target)], check=True)
        return target

    def objects_of(self, folder, replaced):
        """Those of the present build; an older one may have left others behind."""
        known = {(self.build / path).resolve() for entry in self.commands
                 for path in re.findall(r" -o (\S+)", entry["command"])}
        return [str(o) for o in sorted(folder.rglob("*.o"))
                if o.name[:-len(".o")] not in replaced and o.resolve() in known]

    def sanitizers(self):
        return [f for f in self.flags_like("dispatch/apply.cpp", "") if f.startswith("-fsanitize")]

    def changed_sources(self):
        """The generated sources of the scratch tree that differ from those of the build."""
        old = self.build / "generated/src"
        return [p for p in sorted((self.generated / "src").glob("*.cpp"))
                if not (old / p.name).exists() or (old / p.name).read_text() != p.read_text()]

    def link_library(self, compiler, fresh, replaced):
        """libtensora and libtensora_llm as one, of the finished build's objects, but for those of
        `replaced` sources, and of fresh(tag) for each of its parts."""
        objects = []
        # In the order of Note [One kernel, several instruction sets].
        for tag in ("plain", "upper", "calling", "reading", *ISAS, "avx512vnni", "avx512bf16", "amx"):
            folder = self.build / f"CMakeFiles/tensora_{tag}.dir"
            objects += fresh(tag) + self.objects_of(folder, replaced)
        library = self.scratch / "libtensora.so.0"
        formats = {"ZLIB": "-lz", "PNG": "-lpng", "JPEG": "-ljpeg"}
        formats = [flag for name, flag in formats.items()
                   if any(f"-DTENSORA_HAS_{name}" in e["command"] for e in self.commands)]
        subprocess.run([compiler, "-shared", *self.sanitizers(), "-Wl,-soname,libtensora.so.0",
                        *objects, "-o", str(library), *formats, "-lmvec", "-lm", "-ldl",
                        "-lpthread"], check=True)
        return library


def main():
    b = Builder.from_arguments("add-an-op", ("tensora", "tests/suite"))
    written = b.perform()
    changed = b.changed_sources()

    jobs = []
    for source in written + changed:
        if source.suffix != ".cpp" or source.name == "register_cuda_kernels.cpp":
            continue
        if source.name.endswith("_cpu.cpp"):
            for isa in ISAS:
                if any(f"TENSORA_ISA={isa}" in e["command"] for e in b.commands):
                    flags = b.flags_like("copy/copy_cpu.cpp", f"TENSORA_ISA={isa} ")
                    jobs.append((source, flags, isa))
        elif source.name.endswith("_cases.cpp") or source.name == "register_cases.cpp":
            jobs.append((source, b.flags_like("matmul_cases.cpp", ""), "cases"))
        else:
            jobs.append((source, b.flags_like("dispatch/apply.cpp", ""), "plain"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda job: (job[2], b.compile(*job)), jobs))

    replaced = {p.name for p in changed}
    compiler = jobs[0][1][0]
    sanitize = b.sanitizers()
    fresh = lambda tag: [str(o) for t, o in results if t == tag]
    library = b.link_library(compiler, fresh, replaced)
    suite = [o for target in ("tensora-ops", "tensora_suite")
             for o in b.objects_of(b.build / f"tests/CMakeFiles/{target}.dir", replaced)]
    program = b.scratch / "tensora-ops"
    subprocess.run([compiler, *sanitize, *suite, *fresh("cases"), str(library), "-o", str(program),
                    f"-Wl,-rpath,{b.scratch}", "-lpthread"], check=True)

    ops = re.findall(r'name = "(\w+)"', "".join(text for _, _, text in code_blocks(b.page)))
    for op in ops:
        print(f"--- the suite on {op}", flush=True)
        result = subprocess.run([str(program), "--filter", op], text=True, capture_output=True)
        print(result.stdout[-2000:], result.stderr[-2000:])
        count = re.findall(r"(\d+) passed, (\d+) failed", result.stdout)
        if result.returncode != 0 or not count or int(count[-1][0]) < 10:
            raise SystemExit(f"the suite did not pass on {op}")


if __name__ == "__main__":
    main()
