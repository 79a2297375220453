"""The package as a whole: documentation, other names, processes, exchange with PyTorch."""
import doctest
import importlib
import math
import os
import pkgutil
import re
import subprocess
import sys

import pytest

import tensora
from tensora import nn

SEARCH = os.path.dirname(os.path.dirname(tensora.__file__))


def run(program, *arguments):
    """A new interpreter that sees this package."""
    environment = {**os.environ, "PYTHONPATH": SEARCH}
    return subprocess.run([sys.executable, *arguments, "-c", program] if program else [sys.executable, *arguments],
                          env=environment, capture_output=True, text=True, timeout=120)


def modules():
    for found in pkgutil.walk_packages(tensora.__path__, "tensora."):
        if found.name not in ("tensora._C", "tensora._cuda", "tensora.compat", "tensora.backends.cudnn",
                              "tensora._compat.site.sitecustomize"):
            yield importlib.import_module(found.name)


def test_examples_in_documentation():
    failures = tried = 0
    for module in [tensora, *modules()]:
        result = doctest.testmod(module, extraglobs={"tensora": tensora, "nn": nn})
        failures, tried = failures + result.failed, tried + result.attempted
    assert failures == 0 and tried > 20


def test_compat(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, torch, torch.nn as nn\nfrom torch.utils.data import DataLoader\n"
                      "from torch.nn import functional as F\nimport torch.cuda.amp\n"
                      "assert torch.__name__ == 'torch' and nn.Linear.__module__.startswith('tensora')\n"
                      "print(F.relu(torch.tensor([-1., 1.])).tolist(), sys.argv[1:])\n")
    done = run(None, "-m", "tensora.compat", str(script), "a", "b")
    assert done.stdout.strip() == "[0.0, 1.0] ['a', 'b']", done.stderr


def test_compat_has_what_programs_import_and_do_not_use(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import torch, torch.onnx, torch.jit, torch.nn.parallel, torch.distributed as dist
from torch.distributions.normal import Normal
from torch.distributed import init_process_group
from torch.nn.parallel import DistributedDataParallel
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
assert dist.is_available() and not dist.is_initialized()
model = torch.nn.DataParallel(torch.jit.script(torch.nn.Linear(2, 2))).to(device)
assert list(model.state_dict()) == ["module.weight", "module.bias"]
assert torch.nn.modules.dropout.Dropout is torch.nn.Dropout
x = torch.zeros(3, 3)
x[range(3), range(3)] = 1
assert torch.equal(x, torch.eye(3))
many = torch.utils.data.RandomSampler([1, 2], replacement=True, num_samples=10 ** 12)
assert next(iter(many)) in (0, 1)
for wrong, kind in ((lambda: init_process_group("gloo", world_size=2, rank=2), ValueError),
                    (dist.get_rank, ValueError), (lambda: DistributedDataParallel(model), ValueError),
                    (lambda: torch.onnx.export(model, x, custom_opsets={"mine": 1}), NotImplementedError)):
    try:
        wrong()
    except kind as error:
        assert "rank must be in [0, 2)" in str(error) or "custom_opsets" in str(error) or "not been initialized" in str(error)
    else:
        raise SystemExit("no error")
""")
    done = run(None, "-m", "tensora.compat", str(script))
    assert done.returncode == 0, done.stdout + done.stderr


def test_guide():
    with open(os.path.join(ROOT, "docs/python.md")) as guide:
        blocks = re.findall(r"```python\n(.*?)```", guide.read(), re.S)
    assert blocks
    for block in blocks:
        done = run(block)
        assert done.returncode == 0, done.stderr


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = sorted(name for name in os.listdir(os.path.join(ROOT, "examples/python")) if name.endswith(".py"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    """Each checks what it learned; 77 says that its data is missing."""
    done = run(None, os.path.join(ROOT, "examples/python", name), "--brief")
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr


def test_version_has_one_source():
    """CMakeLists.txt states it; the package, its metadata and the program take it from there."""
    with open(os.path.join(ROOT, "CMakeLists.txt")) as file:
        stated = re.search(r"project\(Tensora VERSION (\S+)", file.read()).group(1)
    assert tensora.__version__ == tensora.version.__version__ == stated
    with open(os.path.join(ROOT, "pyproject.toml")) as file:
        metadata = file.read()
    pattern = re.search(r"^regex = '(.*)'$", metadata, re.M).group(1)
    assert 'dynamic = ["version"]' in metadata and not re.search(r"^version", metadata, re.M)
    with open(os.path.join(ROOT, "CMakeLists.txt")) as file:
        assert re.search(pattern, file.read()).group("value") == stated
    if os.environ.get("TENSORA_CLI"):
        done = subprocess.run([os.environ["TENSORA_CLI"], "--version"], capture_output=True, text=True)
        assert done.stdout.strip() == f"tensora {stated}"
    for folder, _, files in os.walk(os.path.join(ROOT, "python")):
        for name in files:
            if name.endswith(".py"):
                with open(os.path.join(folder, name)) as file:
                    assert f'"{stated}"' not in file.read(), f"{name} repeats the version"


def test_stubs_cover_the_functions():
    import ast
    path = os.path.join(os.path.dirname(tensora.__file__), "_C.pyi")
    tree = ast.parse(open(path).read())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    functions = {n for n, v in vars(tensora._C).items() if type(v).__name__ == "builtin_function"}
    assert functions <= names and len(functions) > 600


def test_exits_cleanly_with_live_objects():
    done = run("import tensora, threading\n"
               "x = tensora.ones(3, requires_grad=True); x.tag = x; y = (x * 2).sum(); h = x.register_hook(print)\n"
               "g = tensora.nn.Parameter(tensora.ones(2)); o = tensora.optim.Adam([g]); y.backward()\n"
               "a = tensora.from_numpy(__import__('numpy').ones(3))")
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_missing_names_say_what_to_do():
    with pytest.raises(AttributeError, match="Tensor.quantize"):
        tensora.quantization
    with pytest.raises(AttributeError):
        tensora.cuda.no_such_thing


def test_state_dicts_travel_to_pytorch_and_back(tmp_path):
    torch = pytest.importorskip("torch")
    pairs = [(nn.Linear(3, 4), torch.nn.Linear(3, 4), (2, 3)), (nn.Conv2d(3, 4, 3), torch.nn.Conv2d(3, 4, 3), (1, 3, 5, 5)),
             (nn.BatchNorm1d(3).eval(), torch.nn.BatchNorm1d(3).eval(), (4, 3)),
             (nn.MultiheadAttention(4, 2).out_proj, torch.nn.MultiheadAttention(4, 2).out_proj, (2, 4)),
             (nn.TransformerEncoderLayer(8, 2, 16).eval(), torch.nn.TransformerEncoderLayer(8, 2, 16).eval(), (3, 2, 8)),
             (nn.LSTM(3, 4, 2, bidirectional=True), torch.nn.LSTM(3, 4, 2, bidirectional=True), (5, 2, 3)),
             (nn.GRU(3, 4), torch.nn.GRU(3, 4), (5, 2, 3)), (nn.LayerNorm(3), torch.nn.LayerNorm(3), (2, 3)),
             (nn.ConvTranspose1d(3, 4, 2), torch.nn.ConvTranspose1d(3, 4, 2), (1, 3, 5))]
    for ours, theirs, shape in pairs:
        path = str(tmp_path / "weights.pt")
        torch.save(theirs.state_dict(), path)
        ours.load_state_dict(tensora.load(path))
        x = torch.randn(*shape)
        expected, got = theirs(x), ours(tensora.from_dlpack(x))
        if isinstance(expected, tuple):
            expected, got = expected[0], got[0]
        assert torch.allclose(torch.from_dlpack(got.detach()), expected, atol=1e-5), type(ours)
        tensora.save(ours.state_dict(), path)
        theirs.load_state_dict(torch.load(path, weights_only=True))


def test_safetensors_package(tmp_path):
    pytest.importorskip("safetensors")
    from safetensors.numpy import load_file, save_file
    import numpy
    path = str(tmp_path / "x.safetensors")
    tensora.save_safetensors({"a": tensora.arange(6.).reshape(2, 3)}, path, {"note": "ours"})
    assert load_file(path)["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    save_file({"b": numpy.ones(3, numpy.float16)}, path)
    assert tensora.load_safetensors(path)["b"].dtype is tensora.float16


def test_special_functions_of_awkward_arguments():
    special = tensora.special
    # Whole numbers are computed as floats: 2 * 0 - 1 would wrap in uint8.
    assert special.ndtri(tensora.tensor([0, 1], dtype=tensora.uint8)).tolist() == [-math.inf, math.inf]
    x = tensora.tensor([0.5, -2.0], dtype=tensora.float64, requires_grad=True)
    special.entr(x).sum().backward()
    assert x.grad[0].item() == pytest.approx(math.log(2) - 1) and math.isnan(x.grad[1].item())
    assert special.xlog1py(tensora.tensor([0.0, 2.0]), -1).tolist() == [0, -math.inf]
    assert special.xlog1py(3, tensora.tensor([0.0, 1e-9], dtype=tensora.float64)).tolist() == [0, pytest.approx(3e-9)]
    assert special.xlog1py(tensora.ones(1, dtype=tensora.bfloat16), tensora.tensor([1])).dtype is tensora.bfloat16
    wide = special.xlog1py(tensora.tensor([1.0], dtype=tensora.float64), tensora.tensor([1]))
    assert wide.item() == pytest.approx(math.log(2), rel=1e-15)
    zero = tensora.zeros(1, requires_grad=True)
    special.xlog1py(zero, tensora.tensor([1.0])).sum().backward()
    assert zero.grad.item() == pytest.approx(math.log(2))
    # PyTorch's own gradients where the logarithm is infinite, or is of a negative number.
    zeros = tensora.zeros(3, requires_grad=True)
    y = tensora.tensor([math.inf, -1.0, -2.0], requires_grad=True)
    special.xlog1py(zeros, y).sum().backward()
    assert zeros.grad.tolist() == [math.inf, 0, 0] and y.grad.tolist() == [0, pytest.approx(math.nan, nan_ok=True), 0]
    assert tensora.autograd.gradcheck(special.xlog1py, (
        tensora.tensor([[0.5], [-2.0]], dtype=tensora.float64, requires_grad=True),
        tensora.tensor([0.1, 3.0, -0.5], dtype=tensora.float64, requires_grad=True)))


def test_linalg_diagonal_is_of_the_last_dims():
    x = tensora.arange(24).reshape(2, 3, 4)
    assert tensora.linalg.diagonal(x).tolist() == [[0, 5, 10], [12, 17, 22]]
    assert tensora.linalg.diagonal(x, offset=-1, dim1=0, dim2=1).tolist() == [[12], [13], [14], [15]]
