"""Writes the names of all ops into namespace torch, for tensora/libtorch.h: `using tensora::relu;`, the
forms with an output (`relu_out`), and `linalg_inv` for `linalg::inv`."""
import re

# LibTorch's function of this name takes other arguments; tensora/libtorch/names.h has it.
OWN = {"embedding", "embedding_bag", "backward", "grad", "save", "load"}
# The same, but the form with an output is the ordinary one.
OWN_PLAIN = {"binary_cross_entropy", "elu"}
PREFIXES = ("linalg", "fft", "special")
_FUNCTION = re.compile(r"^(?!return|using|else|template|extern|static|struct|class|enum|namespace)"
                       r"(?:inline |constexpr )*(?:const )?[\w:]+(?:<.*?>)?[&*]? (\w+)\(")
_INCLUDE = re.compile(r'^#include "(tensora/[^"]+)"', re.M)


def functions_in(text):
    """{namespace: names of the functions declared in it}."""
    found, spaces, depth = {}, [], 0
    for line in re.sub(r"//[^\n]*", "", text).splitlines():
        opened = re.match(r"namespace ([\w:]+) \{", line)
        if opened:
            spaces.append((opened.group(1), depth))
        elif spaces and depth == spaces[-1][1] + 1:
            names = found.setdefault("::".join(name for name, _ in spaces), set())
            if declared := _FUNCTION.match(line):
                names.add(declared.group(1))
            if len(spaces) > 1 or "::" in spaces[0][0]:
                names.update(re.findall(r"\btensora::(\w+)(?=[,;])", line))
        depth += line.count("{") - line.count("}")
        while spaces and depth <= spaces[-1][1]:
            spaces.pop()
    return {space: {n for n in names if not n.startswith("operator")} for space, names in found.items()}


def generate_libtorch_names(root, out, write, notice):
    umbrella = (out / "include/tensora/ops.h").read_text()
    files = _INCLUDE.findall(umbrella) + ["tensora/ops/special_names.h"]
    names = {}
    for file in files:
        path = root / file if (root / file).exists() else out / "include" / file
        for space, found in functions_in(path.read_text()).items():
            names.setdefault(space, set()).update(found)
    plain = sorted(names["tensora"] - OWN)
    text = notice + "#pragma once\n\n// The ops, by LibTorch's names.\n\n"
    text += '#include "tensora/libtorch/names.h"\n\nnamespace torch {\n\n'
    text += "".join(f"using tensora::{name};\n" for name in plain if name not in OWN_PLAIN)
    text += "\n// Forms that write to a tensor that is there.\n"
    for name in plain:
        if not name.endswith("_"):
            text += form(f"{name}_out", f"tensora::{name}")
    for space in PREFIXES:
        text += f"\nnamespace {space} = tensora::{space};\n"
        for name in sorted(names[f"tensora::{space}"]):
            text += (f"template <class... Arguments>\nauto {space}_{name}(Arguments&&... arguments) {{\n"
                     f"  return tensora::{space}::{name}(std::forward<Arguments>(arguments)...);\n}}\n")
    text += "\n}  // namespace torch\n"
    write(out / "include/tensora/libtorch/op_names.h", text)


def form(name, function):
    return (f"template <class... Arguments>\nTensor& {name}(Tensor& out, Arguments&&... arguments) {{\n"
            f"  return detail::write_out(out, {function}(std::forward<Arguments>(arguments)...));\n}}\n")
