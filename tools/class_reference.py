"""The pages of the API reference about classes: modules, optimizers, data, files, training, models, engine.

A page shows what a header makes public: its functions, and its classes without bodies of functions,
private parts and names in namespace detail, with the comments that the header has.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Page, title, and what names the public headers: a header that includes them, or for a folder without such
# a header the programs, the Python package, the examples and the documents that include them.
PAGES = {
    "modules": ("Modules: `tensora::nn`", "nn.h"),
    "optimizers": ("Optimizers and schedulers: `tensora::optim`", "optim.h"),
    "sparse-tensors": ("Sparse tensors: `tensora::sparse`", "sparse.h"),
    "mixed-precision": ("Gradient scaling: `tensora::amp`", "amp.h"),
    "data-sets": ("Data sets and loaders: `tensora::data`", "data.h"),
    "files": ("Files: `tensora::io`", "io.h"),
    "onnx": ("ONNX: `tensora::onnx`", "onnx.h"),
    "training": ("Training runs: `tensora::train`", "train.h"),
    "models": ("Models: `tensora::models`", "models.h"),
    "language-models": ("Language models: `tensora::llm`", "llm"),
}
# What only the library or the build needs.
INTERNAL = re.compile(r"^(extern template|template (class|struct)|friend|static_assert)"
                      r"|\b(describe|names_of)\(std::type_identity|operator=\([^)]*(\) = default|&& )|= delete$")
SKIP = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', re.S)
LABEL = re.compile(r"\s*(public|protected|private):")
COMMENT = re.compile(r"[ \t]*//[^\n]*\n")
INCLUDE = re.compile(r'#include ["<]([^">]+)[">]')
FORWARD = re.compile(r"(template <.*> )?(class|struct|enum class) [\w:]+$")
CLASS = re.compile(r"(?:template\s*<.*>\s*(?:requires.*?)?)?(class|struct|union|enum(?: class)?)\s+\w[^;()]*$", re.S)


def skip_block(text, at):
    """The position after the bracket that closes the one at `at`."""
    depth = 0
    while at < len(text):
        if skipped := SKIP.match(text, at):
            at = skipped.end()
            continue
        depth += (text[at] in "{([") - (text[at] in "})]")
        at += 1
        if depth == 0:
            return at
    return at


def read_declaration(text, at):
    """(declaration, body or None, end): up to its `;`, or to the body it has."""
    start, initialised = at, False
    while at < len(text):
        if skipped := SKIP.match(text, at):
            at = skipped.end()
        elif text[at] in "([" or (text[at] == "{" and initialised):
            at = skip_block(text, at)
        elif text[at] == "{":
            end = skip_block(text, at)
            declaration, body = text[start:at], text[at + 1:end - 1]
            # A field that is initialised by braces, or the braces of a member in a constructor's list.
            if re.match(r"\s*;", text[end:]) and not CLASS.match(declaration.strip()):
                at = end
                continue
            if re.match(r"\s*,", text[end:]) or (re.search(r"\)\s*(noexcept\s*)?:[^:]", declaration)
                                                 and re.match(r"\s*\{", text[end:])):
                at = end
                continue
            after = re.compile(r"\s*;").match(text, end)
            return declaration, body, after.end() if after else end
        elif text[at] == ";":
            return text[start:at], None, at + 1
        elif text[at] == "=" and text[at - 1] not in "=!<>" and not text[start:at].rstrip().endswith("operator"):
            initialised = True
            at += 1
        else:
            at += 1
    return text[start:], None, len(text)


def tidy(declaration):
    """One line, without a constructor's list of members."""
    declaration = re.sub(r"//[^\n]*", "", declaration)
    declaration = " ".join(declaration.split()).replace("inline constexpr ", "constexpr ").removeprefix("inline ")
    return re.sub(r"(\)(?: noexcept)?) : [A-Za-z_].*$", r"\1", declaration)


def items(text):
    """(comment lines, declaration, body, remark behind it, access) of what stands in a namespace or class."""
    at, comment, access = 0, [], None
    while True:
        at = re.compile(r"[ \t]*(?:\n|#[^\n]*(?:\\\n[^\n]*)*)?").match(text, at).end() if at < len(text) else at
        if at >= len(text):
            return
        if text[at] in " \t\n#":
            comment = [] if text[at] == "\n" else comment
            at += text[at] != "#"
            continue
        if found := COMMENT.match(text, at):
            line = found.group(0).strip()
            # A comment that is followed by an empty line is about what follows as a whole.
            comment.append(line.lstrip("/").removeprefix(" "))
            at = found.end()
            continue
        if found := LABEL.match(text, at):
            access, at, comment = found.group(1), found.end(), []
            continue
        if text[at] in "};":
            at += 1
            continue
        declaration, body, at = read_declaration(text, at)
        remark = re.compile(r"[ \t]*//(?! NOLINT)([^\n]*)").match(text, at)
        yield comment, declaration, body, remark.group(1).strip() if remark else "", access
        at, comment = remark.end() if remark else at, []


def is_internal(declaration, body):
    is_forward = body is None and FORWARD.match(declaration)
    is_class = body is not None and CLASS.match(declaration)
    return bool(is_forward or INTERNAL.search(declaration) or ("detail::" in declaration and not is_class))


def interface(declaration, body, indent=""):
    """The lines of a class: its public members without their bodies."""
    head = tidy(declaration)
    if re.match(r"enum", head):
        values = " ".join(re.sub(r"//[^\n]*", "", body).split()).rstrip(",")
        return [f"{indent}{head} {{ {values} }};"]
    shown = "public" if re.search(r"\bstruct\b|\bunion\b", head) else "private"
    lines = []
    for comment, member, inner, remark, access in items(body):
        shown_now = access or shown
        text = tidy(member)
        if shown_now != "public" or not text or is_internal(text, inner):
            continue
        lines += [f"{indent}  // {line}".rstrip() for line in comment if "NOLINT" not in line]
        if inner is not None and CLASS.match(member.strip()):
            lines += interface(member, inner, indent + "  ")
        else:
            lines.append(f"{indent}  {text};" + (f"  // {remark}" if remark else ""))
    return [f"{indent}{head} {{", *lines, f"{indent}}};"] if lines else [f"{indent}{head};"]


def blocks(text):
    """(comment, code lines) of what a header makes public, in its order."""
    for comment, declaration, body, _, _ in items(text):
        head = tidy(declaration)
        if re.match(r"namespace\b", head):
            if body is not None and not re.search(r"\bdetail\b", head) and head != "namespace":
                yield from blocks(body)
            continue
        if not head or is_internal(head, body):
            continue
        if body is not None and CLASS.match(declaration.strip()):
            yield comment, interface(declaration, body)
        else:
            yield comment, [head + ";"]


def prose(comment):
    """A comment as Markdown: an indented part is code."""
    lines, code = [], False
    for line in comment:
        is_code = line.startswith("    ") or (code and not line)
        if is_code != code:
            lines.append("```c++" if is_code else "```")
        lines.append(line[4:] if is_code else line)
        code = is_code
    return "\n".join(lines + ["```"] * code).replace("\n\n```", "\n```").replace("```c++\n\n", "```c++\n")


def header_section(path):
    text = path.read_text()
    if "// Internal header" in text:
        return ""
    parts, open_code = [], []

    def close():
        if open_code:
            parts.append("```c++\n" + "\n".join(open_code) + "\n```\n")
            open_code.clear()
    for comment, code in blocks(text):
        if comment:
            close()
            parts.append("```c++\n" + "\n".join(code) + "\n```\n" + prose(comment) + "\n")
        else:
            open_code.extend(code)
    close()
    return f"\n## `{path.relative_to(ROOT)}`\n\n" + "\n".join(parts) if parts else ""


def headers_of(source):
    users = [ROOT / "tensora" / source]
    if users[0].is_dir():
        users = [p for folder in ("apps", "python/src", "examples", "docs") for p in (ROOT / folder).rglob("*")
                 if p.suffix in (".h", ".cpp", ".md") and "reference" not in p.parts]
    folder = "tensora/" + source.removesuffix(".h") + "/"
    found = set()
    while users:  # what a public header includes from its folder is public too
        named = {ROOT / name for user in users for name in INCLUDE.findall(user.read_text())
                 if name.startswith(folder) and (ROOT / name).exists()}
        users = sorted(named - found)
        found |= named
    return sorted(found)


def pages(notice):
    result = {}
    for name, (title, source) in PAGES.items():
        include = f"`#include <tensora/{source}>` brings everything on this page.\n" if source.endswith(".h") else ""
        result[name] = f"{notice}# {title}\n{include}" + "".join(map(header_section, headers_of(source)))
    return result
