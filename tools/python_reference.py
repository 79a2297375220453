"""The pages of docs/reference/python, for tools/reference.py: written from the package's sources and from the ops'
declarations, so that neither a build nor an import is needed."""
import ast
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/tensora"
NOTICE = "<!-- Written by ./dev docs from the Python package; do not edit. -->\n"
PAGES = {  # title, files or folders of the package
    "tensora": ("tensora", ["_functions.py", "_dtypes.py", "_modes.py", "serialization.py", "random.py", "amp.py"]),
    "tensor": ("tensora.Tensor, beside the ops", ["_tensor.py"]),
    "autograd": ("tensora.autograd", ["autograd", "func.py"]),
    "nn": ("tensora.nn", ["nn/modules", "nn/parameter.py", "nn/utils", "nn/parallel.py"]),
    "functional": ("tensora.nn.functional, beside the ops", ["nn/functional.py", "nn/_losses.py", "nn/_attention.py"]),
    "optim": ("tensora.optim", ["optim"]),
    "data": ("tensora.utils", ["utils"]),
    "cuda": ("tensora.cuda and tensora.accelerator", ["cuda", "accelerator.py"]),
    "distributions": ("tensora.distributions", ["distributions"]),
    "llm": ("tensora.llm", ["llm.py"]),
    "array_api": ("tensora.array_api", ["array_api"]),
    "others": ("Further modules", ["linalg.py", "special.py", "profiler.py", "testing", "compat.py", "jit.py",
                                   "distributed.py", "backends"]),
}


def summary(node):
    """The docstring without its examples, as one paragraph."""
    text = (ast.get_docstring(node) or "").split(">>>")[0].strip()
    return " ".join(text.split())


def example(node):
    lines = [line for line in (ast.get_docstring(node) or "").splitlines()]
    first = next((i for i, line in enumerate(lines) if line.startswith(">>>")), None)
    return "" if first is None else "\n```pycon\n" + "\n".join(lines[first:]).rstrip() + "\n```\n"


def signature(node, is_method):
    arguments = ast.unparse(node.args)
    if is_method:
        arguments = arguments.partition(", ")[2] if ", " in arguments else ""
    return f"{node.name}({arguments})"


def function_entry(node, is_method=False):
    text = summary(node)
    return f"- `{signature(node, is_method)}`" + (f": {text}" if text else "") + "\n"


def class_entry(node):
    made = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    title = signature(made, True).replace("__init__", node.name, 1) if made else node.name
    methods = [n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")
               and n.name != "forward" and summary(n)]
    return (f"\n### `{title}`\n\n{summary(node)}\n{example(node)}"
            + ("\n" + "".join(function_entry(n, not is_static(n)) for n in methods) if methods else ""))


def is_static(node):
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)


def file_entries(path):
    tree = ast.parse(path.read_text())
    public = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))
              and not n.name.startswith("_") and summary(n)]
    if not public:
        return ""
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    functions = "".join(function_entry(n) + example(n) for n in public if isinstance(n, ast.FunctionDef))
    classes = "".join(class_entry(n) for n in public if isinstance(n, ast.ClassDef))
    heading = "" if name.startswith("_") else f"\n## {name}\n\n{summary(tree)}\n"
    return heading + ("\n" + functions if functions else "") + classes


def page(title, places):
    files = []
    for place in places:
        at = PACKAGE / place
        files += sorted(at.rglob("*.py")) if at.is_dir() else [at] if at.exists() else []
    return f"{NOTICE}# {title}\n" + "".join(file_entries(file) for file in files)


def op_page():
    """All ops, with the forms that Python accepts."""
    with tempfile.TemporaryDirectory() as folder:
        for arguments in (["cmake/generate.py", ".", folder], ["python/generate.py", ".", folder, folder + "/python"]):
            subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)
        functions = json.loads((pathlib.Path(folder) / "python/signatures.json").read_text())
    text = (f"{NOTICE}# The ops\n\nFunctions of `tensora`; those whose first parameter is `self` are methods of `Tensor` "
            "too, and `name_` is the form that writes in place.\n\n")
    for name, forms in functions.items():
        if name.endswith("_") and name[:-1] in functions:
            continue
        shown = "<br>".join(f"`{form['signature']}`" for form in forms)
        documents = " ".join(dict.fromkeys(" ".join(form["doc"].split()) for form in forms if form["doc"]))
        text += f"- {shown}" + (f": {documents}" if documents else "") + "\n"
    return text


def pages():
    """{path below docs/reference: text}"""
    result = {f"python/{name}.md": page(title, places) for name, (title, places) in PAGES.items()}
    result["python/ops.md"] = op_page()
    listed = "".join(f"- [{title}]({name}.md)\n" for name, (title, _) in PAGES.items())
    result["python/README.md"] = (f"{NOTICE}# Python reference\n\nThe guide is [python.md](../../python.md).\n\n"
                                  f"- [The ops](ops.md)\n{listed}")
    return result
