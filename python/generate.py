#!/usr/bin/env python3
"""Writes the tables of the Python module's functions, from the declarations in tensora/ops.

The C++ functions have PyTorch's names, argument names and defaults, so each declaration is an
overload of a Python function, and, where its first parameter is called `self`, of a method. Written:
functions_N.cpp (tables and the calls behind them) and signatures.json (what stubs are made of).
"""
import argparse
import json
import pathlib
import re
import sys

# ---- what differs from the C++ declarations ---------------------------------------------------

# Parameters that PyTorch's Python functions call otherwise: (function, parameter), or all functions.
RENAMED = {"sizes": "size", ("full", "value"): "fill_value", ("full_like", "value"): "fill_value",
           ("new_full", "value"): "fill_value", ("reshape", "size"): "shape",
           ("dot", "other"): "tensor", ("lu_solve", "self"): "b"}
# Defaults that C++ expresses by another overload, or cannot express.
DEFAULTS = {("clamp", "min"): "{}", ("clamp_", "min"): "{}", ("clip", "min"): "{}",
            ("clip_", "min"): "{}", ("is_contiguous", "memory_format"): "MemoryFormat::contiguous", ("unfold", "dilation"): "1", ("unfold", "padding"): "0",
            ("unfold", "stride"): "1"}
# The names of several results; PyTorch's named tuples.
PAIR = ("values", "indices")
RESULTS = {name: PAIR for name in
           ("max", "min", "sort", "topk", "median", "nanmedian", "mode", "kthvalue", "cummax", "cummin")}
RESULTS |= {"svd": ("U", "S", "V"), "linalg.svd": ("U", "S", "Vh"), "qr": ("Q", "R"),
            "linalg.qr": ("Q", "R"), "linalg.eigh": ("eigenvalues", "eigenvectors"),
            "slogdet": ("sign", "logabsdet"), "linalg.slogdet": ("sign", "logabsdet"),
            "aminmax": ("min", "max"), "histogram": ("hist", "bin_edges"),
            "linalg.lstsq": ("solution", "residuals", "rank", "singular_values"),
            "linalg.lu_factor": ("LU", "pivots"), "linalg.lu_factor_ex": ("LU", "pivots", "info"),
            "linalg.lu": ("P", "L", "U"), "lu_unpack": ("P", "L", "U"),
            "linalg.cholesky_ex": ("L", "info"), "linalg.inv_ex": ("inverse", "info"),
            "linalg.solve_ex": ("result", "info"), "geqrf": ("a", "tau"),
            "linalg.eig": ("eigenvalues", "eigenvectors"), "linalg.ldl_factor": ("LD", "pivots"),
            "linalg.ldl_factor_ex": ("LD", "pivots", "info"),
            "triangular_solve": ("solution", "cloned_coefficient")}
# Keywords of PyTorch's functions that change nothing here: gradients are dense with sparse_grad, too.
UNUSED = {"gather": ("sparse_grad",)}
# Functions that are also overloads of another one: x.view(dtype).
ALSO = {"view_dtype": "view"}
# For C++ alone, or given another form in Python.
SKIPPED = {"from_blob", "tensor_from", "tensor", "empty_for", "reduce_loss", "broadcast_dims",
           "diagonal_geometry", "band_dims", "pointwise_op", "to_vector", "adam_", "fused_adam_",
           "fused_adamw_", "fused_sgd_", "nonnegative", "at", "numpy_T", "product_of_others"}

# ---- types --------------------------------------------------------------------------------------

# The C++ type without const and &: (kind, type that `get` gives, Python's type for stubs).
TYPES = {"Tensor": ("tensor", None, "Tensor"), "Scalar": ("number", "Scalar", "Number"),
         "int64_t": ("integer", "int64_t", "int"), "int": ("integer", "int64_t", "int"),
         "bool": ("boolean", "bool", "bool"), "double": ("real", "double", "float"),
         "Shape": ("sizes", "Shape", "int | Sequence[int]"), "Dims": ("sizes", "Shape", "int | Sequence[int]"),
         "Strides": ("sizes", "Shape", "int | Sequence[int]"),
         "std::vector<Tensor>": ("tensors", "std::vector<Tensor>", "Sequence[Tensor]"),
         "std::span<const Tensor>": ("tensors", "std::vector<Tensor>", "Sequence[Tensor]"),
         "std::vector<int64_t>": ("integers", "std::vector<int64_t>", "Sequence[int]"),
         "std::vector<double>": ("numbers", "std::vector<double>", "float | Sequence[float]"),
         "std::string_view": ("text", "std::string_view", "str"), "Reduction": ("text", "Reduction", "str"),
         "DType": ("dtype", "DType", "dtype"), "Device": ("device", "Device", "device | str | int"),
         "MemoryFormat": ("format", "MemoryFormat", "memory_format"),
         "ConvPadding": ("padding", "ConvPadding", "int | Sequence[int] | str"),
         "NormOrder": ("norm_order", "linalg::NormOrder", "Number | str"),
         "std::pair<double, double>": ("range", "std::pair<double, double>", "tuple[float, float]")}
RETURNED = {"Tensor": "Tensor", "bool": "bool", "int64_t": "int", "Scalar": "Number", "void": "None",
            "std::vector<Tensor>": "tuple[Tensor, ...]"}


class Parameter:
    def __init__(self, function, text):
        declaration, _, default = (part.strip() for part in text.partition("="))
        kind, self.cpp_name = declaration.rsplit(" ", 1)
        self.type = re.sub(r"^const ", "", kind).rstrip("&").strip()
        self.is_options = self.type == "TensorOptions"
        self.optional = self.type.startswith("std::optional<")
        inner = self.type[len("std::optional<"):-1] if self.optional else self.type
        self.known = self.is_options or inner in TYPES
        self.name = RENAMED.get((function, self.cpp_name), RENAMED.get(self.cpp_name, self.cpp_name))
        self.default = DEFAULTS.get((function, self.cpp_name), default)
        if self.known and not self.is_options:
            self.kind, self.got, self.python = TYPES[inner]

    @property
    def required(self):
        return not (self.default or self.optional or self.is_options)

    def value(self, at):
        """The C++ expression for the argument at this place of the call."""
        place = f"call.arguments[{at}]"
        if self.is_options:
            return f"get_options(&{place}, TensorOptions{self.default or '{}'})"
        if self.kind == "tensor":
            return f"tensor_argument({place})"
        if self.optional:
            return f"get_optional<{self.got}>({place})"
        if not self.default:
            return f"get<{self.got}>({place})"
        default = self.default if self.default.startswith("{") else f"({self.default})"
        return f"{place} ? get<{self.got}>({place}) : {self.got}{default}"


class Declaration:
    def __init__(self, namespace, result, name, parameters, text):
        self.namespace, self.result, self.name, self.text = namespace, result, name, text
        self.parameters = [Parameter(name, p) for p in parameters]

    @property
    def usable(self):
        return (all(p.known for p in self.parameters) and self.name not in SKIPPED
                and self.python_result is not None)

    @property
    def python_result(self):
        result = self.result.replace("const ", "").rstrip("&")
        if result.startswith("std::tuple<"):
            return "tuple[" + ", ".join(["Tensor"] * result.count("Tensor")) + "]"
        return RETURNED.get(result)

    @property
    def is_method(self):
        return bool(self.parameters) and self.parameters[0].cpp_name == "self" \
            and self.parameters[0].type == "Tensor"


# ---- reading ------------------------------------------------------------------------------------

DECLARATION = re.compile(r"^((?:const )?[\w:]+(?:<[^;{}()]*?>)?&?) (\w+)\("
                         r"((?:[^;{}()]|\{[^{}]*\})*)\);", re.M | re.S)


def split_parameters(text):
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += letter in "({<[" and 1 or letter in ")}>]" and -1 or 0
        if letter == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return parts + [current.strip()] if current.strip() else parts


def namespace_at(text, position):
    """The namespace that is open there, below tensora: "", or "linalg", …"""
    opened = []
    for match in re.finditer(r"namespace ([\w:]+) \{|\{|\}", text[:position]):
        if match.group(0) == "}":
            opened.pop()
        else:
            opened.append(match.group(1) or "")
    return "::".join(filter(None, opened)).removeprefix("tensora").removeprefix("::")


def comment_before(text, position):
    """The /// lines above a declaration, or above the declarations without a comment before it."""
    lines = text[:position].rstrip("\n").split("\n")
    while lines and not lines[-1].startswith("///"):
        if not lines[-1].strip() or lines[-1].startswith(("}", "namespace", "struct", "extern")):
            return ""
        lines.pop()
    found = []
    while lines and lines[-1].startswith("///"):
        found.insert(0, lines.pop()[3:].strip())
    return " ".join(found)


def read(header):
    text = header.read_text()
    if "// Internal header" in text:
        return
    blank = re.sub(r"//[^\n]*", lambda m: " " * len(m.group(0)), text)
    for match in DECLARATION.finditer(blank):
        parameters = split_parameters(" ".join(match.group(3).split()))
        yield Declaration(namespace_at(blank, match.start()), match.group(1), match.group(2), parameters,
                          comment_before(text, match.start()))


def relax(declarations):
    """Tensors that a shorter form of the same function does without may be left out."""
    for longer in declarations:
        for shorter in declarations:
            count = len(shorter.parameters)
            names = [p.cpp_name for p in longer.parameters]
            if count < len(names) and [p.cpp_name for p in shorter.parameters] == names[:count]:
                for parameter in longer.parameters[count:]:
                    if parameter.type == "Tensor" and not parameter.default:
                        parameter.default = "{}"


# ---- writing ------------------------------------------------------------------------------------

def python_default(parameter):
    text = parameter.default
    if parameter.optional or text in ("{}", ""):
        return "None"
    named = {"true": "True", "false": "False", "Reduction::mean": "'mean'", "DType::float32": "float32", "MemoryFormat::contiguous": "contiguous_format",
             "1. / 8": "0.125", "1. / 3": "0.3333333333333333"}
    if text.startswith("{"):
        return "(" + text.strip("{}") + ")"
    return named.get(text, text.replace('"', "'"))


def signature(declaration):
    """name(self, dim=None, keepdim=False, *, dtype=None)"""
    parts, starred = [], False
    for parameter in declaration.parameters:
        if parameter.is_options:
            parts += ([] if starred else ["*"]) + ["dtype=None", "device=None", "requires_grad=False"]
            starred = True
        else:
            parts.append(parameter.name + ("" if parameter.required else "=" + python_default(parameter)))
    for keyword in UNUSED.get(declaration.name, ()):
        parts += ([] if starred else ["*"]) + [f"{keyword}=False"]
        starred = True
    return f"{declaration.name}({', '.join(parts)})"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def write_overload(name, declaration):
    """(definitions, table entry) of one overload."""
    rows, values, places = [], [], 0
    for parameter in declaration.parameters:
        values.append(parameter.value(places))
        if parameter.is_options:
            rows += ['{"dtype", Kind::dtype, false, true}', '{"device", Kind::device, false, true}',
                     '{"requires_grad", Kind::boolean, false, true}']
            places += 3
        else:
            rows.append(f'{{"{parameter.name}", Kind::{parameter.kind}, '
                        f'{"true" if parameter.required else "false"}}}')
            places += 1
    for keyword in UNUSED.get(declaration.name, ()):
        rows.append(f'{{"{keyword}", Kind::boolean, false, true}}')
        places += 1
    scope = f"tensora::{declaration.namespace}::" if declaration.namespace else "tensora::"
    body = ""
    for i, (parameter, value) in enumerate(zip(declaration.parameters, values)):
        kind = "const Tensor&" if not parameter.is_options and parameter.kind == "tensor" else "const auto"
        body += f"  {kind} p{i} = {value};\n"
    arguments = ", ".join(f"p{i}" for i in range(len(values)))
    result = " -> Tensor" if declaration.result == "const Tensor&" else ""
    text = f"PyObject* {name}([[maybe_unused]] const Call& call) {{\n{body}"
    text += f"  return run(call, [&](){result} {{ return {scope}{declaration.name}({arguments}); }});\n}}\n"
    if rows:
        text += f"const Parameter {name}_p[] = {{{', '.join(rows)}}};\nPyObject* {name}_n[{places}];\n"
    method = "true" if declaration.is_method else "false"
    factory = "true" if any(p.is_options for p in declaration.parameters) else "false"
    tables = (f"{name}_p", f"{name}_n") if rows else ("nullptr", "nullptr")
    return text, f"{{{tables[0]}, {places}, {name}, {method}, {factory}, {tables[1]}}}"


def write_function(index, module, name, declarations):
    definitions, entries = "", []
    for number, declaration in enumerate(declarations):
        text, entry = write_overload(f"f{index}_{number}", declaration)
        definitions += text
        entries.append(entry)
    definitions += f"const Overload f{index}_o[] = {{{', '.join(entries)}}};\n"
    results = RESULTS.get(f"{module}.{name}" if module else name)
    fields = "nullptr"
    if results:
        fields = f"f{index}_f"
        definitions += (f"const char* const {fields}[] = {{"
                        + ", ".join(f'"{r}"' for r in results) + ", nullptr};\n")
    documents = list(dict.fromkeys(d.text for d in declarations if d.text))
    text = "\n".join(signature(d) for d in declarations) + "\n\n" + "\n\n".join(documents)
    entry = (f'{{"{module}", "{name}", {quoted(text)}, f{index}_o, {len(entries)}, {fields}}}')
    return definitions, entry


HEAD = """// Generated by python/generate.py; do not edit.
#include "python/src/function.h"
#include "python/src/tensor_object.h"
#include "tensora/tensora.h"
"""


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def groups_of(declarations):
    """{(module, name): overloads}. Of a name that has forms for tensors' methods and others, such as
    unfold, nn.functional gets the others."""
    groups = {}
    for declaration in declarations:
        if declaration.namespace in ("", "linalg", "fft", "special") and declaration.usable:
            groups.setdefault((declaration.namespace, declaration.name), []).append(declaration)
            if declaration.name in ALSO:
                groups.setdefault(("", ALSO[declaration.name]), []).append(declaration)
    for (module, name), forms in list(groups.items()):
        others = [d for d in forms if d.parameters and d.parameters[0].cpp_name == "input"]
        if not module and others and len(others) < len(forms):
            groups["nn", name] = others
    for forms in groups.values():
        forms.sort(key=lambda d: not d.is_method)  # what tensors' methods mean comes first
        relax(forms)
    return groups


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("generated", type=pathlib.Path, help="where cmake/generate.py wrote")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--parts", type=int, default=6)
    arguments = parser.parse_args()
    headers = sorted((arguments.root / "tensora/ops").rglob("*.h"))
    headers += [arguments.generated / "include/tensora/ops" / h for h in ("pointwise/functions.h", "aliases.h")]
    declarations = {header: list(read(header)) for header in headers}
    groups = groups_of([d for found in declarations.values() for d in found])
    # tensora.h includes these too, unless TENSORA_KEEP_METHODS kept it as it was.
    rooms = [h.relative_to(arguments.root) for h, found in declarations.items()
             if found and h.is_relative_to(arguments.root)]
    includes = "".join(f'#include "{room.as_posix()}"\n' for room in rooms) + "\n"
    arguments.out.mkdir(parents=True, exist_ok=True)
    parts = [("", []) for _ in range(arguments.parts)]
    for index, ((module, name), forms) in enumerate(sorted(groups.items())):
        definitions, entry = write_function(index, module, name, forms)
        text, entries = parts[index % arguments.parts]
        parts[index % arguments.parts] = (text + definitions, entries + [entry])
    for number, (text, entries) in enumerate(parts):
        write(arguments.out / f"functions_{number}.cpp",
              HEAD + includes + "namespace tensora::python {\nnamespace {\n\n" + text + "\n}  // namespace\n\n"
              + f"std::span<const FunctionTable> tables_{number}() {{\n"
              + "  static const FunctionTable tables[] = {\n      " + ",\n      ".join(entries) + "};\n"
              + "  return tables;\n}\n\n}  // namespace tensora::python\n")
    numbers = range(arguments.parts)
    write(arguments.out / "function_tables.cpp",
          HEAD + "\nnamespace tensora::python {\n\n"
          + "".join(f"std::span<const FunctionTable> tables_{n}();\n" for n in numbers)
          + "\nstd::vector<std::span<const FunctionTable>> function_tables() {\n  return {"
          + ", ".join(f"tables_{n}()" for n in numbers) + "};\n}\n\n}  // namespace tensora::python\n")
    listed = {".".join(filter(None, key)): [
        {"signature": signature(d), "method": d.is_method, "returns": d.python_result, "doc": d.text,
         "parameters": [[p.name, "options" if p.is_options else p.python, p.required,
                         "" if p.required or p.is_options else python_default(p)] for p in d.parameters]}
        for d in forms] for key, forms in sorted(groups.items())}
    write(arguments.out / "signatures.json", json.dumps(listed, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
