"""Programs that say `import torch`."""
import os
import subprocess
import sys

import pytest

import tensora

SEARCH = os.path.dirname(os.path.dirname(tensora.__file__))


def run(*arguments, cwd=None):
    environment = {**os.environ, "PYTHONPATH": SEARCH}
    return subprocess.run([sys.executable, "-m", "tensora.compat", *arguments], env=environment, cwd=cwd, capture_output=True,
                          text=True, timeout=300)


def test_commands_modules_and_children(tmp_path):
    done = run("-c", "import sys, torch; print(torch.__name__, torch.__version__ >= (2, 6), sys.argv[1:])", "a")
    assert done.stdout.strip() == "torch True ['a']", done.stderr
    (tmp_path / "tool.py").write_text("import sys, torch, subprocess\nprint(torch.ones(2).sum().item(), sys.argv[1:])\n"
                                      "subprocess.run([sys.executable, '-c', 'import torch; print(torch.__name__)'], check=True)\n")
    done = run("-m", "tool", "x", cwd=tmp_path)
    assert done.stdout.split("\n")[:2] == ["2.0 ['x']", "torch"], done.stdout + done.stderr
    (tmp_path / "spawns.py").write_text(
        "import torch, torch.multiprocessing as mp\n\ndef work(i, x):\n    import torch\n    x[i] = torch.tensor(i + 1.)\n\n"
        "if __name__ == '__main__':\n    x = torch.zeros(2).share_memory_()\n    mp.spawn(work, (x,), nprocs=2)\n"
        "    print(x.tolist())\n")
    done = run("spawns.py", cwd=tmp_path)
    assert done.stdout.strip() == "[1.0, 2.0]", done.stdout + done.stderr
    assert run().returncode != 0 and "usage" in run("-m").stderr


PROGRAM = """
import importlib.metadata, importlib.util
import torch, torch._dynamo, torch._inductor.config, torch.fx, torch.hub, torch.library, torch.utils.benchmark
import torch.utils._pytree as pytree, torch.utils.hooks, torch.compiler, torch.distributed as dist, torch.onnx
from torch._C import _log_api_usage_once
from torch.ao.quantization import QuantStub
from torch.autograd.anomaly_mode import detect_anomaly
from torch.autograd.function import InplaceFunction
from torch.autograd.grad_mode import no_grad
from torch.autograd.profiler import record_function
from torch.autograd.variable import Variable
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.distributed.tensor import DTensor, Shard
from torch.nn.utils.parametrizations import weight_norm
from torch.torch_version import TorchVersion
from torch.utils.data.distributed import DistributedSampler
assert importlib.metadata.version("torch") == torch.__version__ and importlib.util.find_spec("torch")
assert TorchVersion("2.10") > "2.9" and torch.__version__ > "2.6" and "Tensora" in torch.__config__.show()
_log_api_usage_once("nothing")
torch._dynamo.config.cache_size_limit = 64
assert not torch.compiler.is_compiling() and torch._dynamo.disable(len) is len
with torch._inductor.config.patch(max_autotune=True):
    assert torch._inductor.config.max_autotune
assert not torch._inductor.config.max_autotune and not torch.xpu.is_available()
isinstance(3, FullyShardedDataParallel), isinstance(3, DTensor), ShardingStrategy.FULL_SHARD, Shard(1).is_shard()
class Mine(QuantStub):
    pass
for refused in (lambda: FullyShardedDataParallel(3), lambda: ShardingStrategy.FULL_SHARD(), lambda: Mine(),
                lambda: torch.nested.nested_tensor([]), lambda: torch.onnx.symbolic_helper.cast(3), lambda: torch.export.export(3)):
    try:
        refused()
    except NotImplementedError as error:
        assert "Tensora" in str(error) or "ONNX" in str(error), error
    else:
        raise SystemExit("not refused")
try:
    import torch.no_such_module
except ModuleNotFoundError as error:
    assert error.name == "torch.no_such_module"
assert not hasattr(torch, "no_such_name")
dist.init_process_group("gloo", world_size=1, rank=0)
x = torch.ones(2)
dist.all_reduce(x), dist.broadcast(x, 0), dist.barrier()
parts = [torch.zeros(2)]
dist.all_gather(parts, x)
assert parts[0].tolist() == [1, 1] and dist.get_rank() == 0 and dist.get_world_size() == 1 and dist.get_backend() == "gloo"
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
assert list(model.state_dict())[0] == "module.weight"
class Twice(InplaceFunction):
    @staticmethod
    def forward(ctx, x):
        return x * 2
assert torch.autograd.grad_mode.no_grad is torch.no_grad is no_grad and isinstance(x, Variable) and detect_anomaly
x.requires_grad_()
assert repr(x.shape) == "torch.Size([2])" and str(torch.channels_last) == "torch.channels_last" and str(x.layout) == "torch.strided"
assert repr(x.clone()) == "tensor([1., 1.], grad_fn=<CloneBackward0>)" and repr(x) == "tensor([1., 1.], requires_grad=True)"
assert str(Twice.apply(x)) == "tensor([2., 2.], grad_fn=<TwiceBackward>)"
dist.destroy_process_group()
assert not dist.is_initialized()
print("done")
"""


def test_names_do_their_job_or_say_no(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    done = run(str(script))
    assert done.stdout.strip() == "done", done.stdout + done.stderr


def test_trees():
    from collections import OrderedDict, namedtuple
    from tensora.utils import _pytree as pytree
    Point = namedtuple("Point", ["x", "y"])
    tree = {"a": [1, (2, 3)], "b": OrderedDict(c=4), "p": Point(5, [6])}
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, 2, 3, 4, 5, 6] and pytree.tree_unflatten(leaves, spec) == tree
    assert spec == pytree.tree_structure(tree) and spec.num_leaves == 6
    assert pytree.tree_map(lambda a, b: a + b, [1, {"k": 2}], [10, {"k": 20}]) == [11, {"k": 22}]
    assert pytree.tree_map_only(int, str, [1, "x", 2.5]) == ["1", "x", 2.5]
    assert pytree.keystr(pytree.tree_flatten_with_path(tree)[0][4][0]) == "['p'].x"
    with pytest.raises(ValueError):
        pytree.tree_unflatten([1], spec)
    with pytest.raises(ValueError):
        pytree.tree_map(lambda a, b: a, [1, 2], [1])

    class Box:
        def __init__(self, content):
            self.content = content
    pytree.register_pytree_node(Box, lambda b: ([b.content], None), lambda values, _: Box(values[0]))
    assert pytree.tree_map(lambda v: v * 2, Box(4)).content == 8
    with pytest.raises(ValueError, match="already"):
        pytree.register_pytree_node(Box, None, None)


def test_ops_of_a_program():
    library = tensora.library

    @library.custom_op("test_compat::scaled", mutates_args=())
    def scaled(x: tensora.Tensor, factor: float) -> tensora.Tensor:
        return x * factor

    @scaled.register_fake
    def _(x, factor):
        return tensora.empty_like(x)

    def setup(ctx, inputs, output):
        ctx.factor = inputs[1]
    scaled.register_autograd(lambda ctx, grad: (grad * ctx.factor * 10, None), setup_context=setup)
    x = tensora.ones(2, requires_grad=True)
    tensora.ops.test_compat.scaled(x, 3.0).sum().backward()
    assert x.grad.tolist() == [30, 30] and tensora.ops.test_compat.scaled(tensora.ones(2, device="meta"), 1.0).is_meta

    @library.custom_op("test_compat::shifted", mutates_args=())
    def shifted(x: tensora.Tensor, by: float = 2.0, *, factor: float = 3.0) -> tensora.Tensor:
        return (x + by) * factor
    given = []

    def note(ctx, inputs, keyword_only_inputs, output):
        given.append((inputs[1], keyword_only_inputs))
    shifted.register_autograd(lambda ctx, grad: (grad * 3, None), setup_context=note)
    shifted(x).sum().backward()
    assert given == [(2.0, {"factor": 3.0})] and shifted(x, 1.0, factor=2.0).tolist() == [4, 4]
    lib = library.Library("test_compat", "FRAGMENT")
    lib.define("plus(Tensor x, int n) -> Tensor")
    with pytest.raises(NotImplementedError, match="no implementation"):
        tensora.ops.test_compat.plus(x, 1)
    library.impl(lib, "plus", "CPU")(lambda x, n: x + n)
    assert tensora.ops.test_compat.plus.default(tensora.ones(1), 2).item() == 3
    assert tensora.ops.aten.add.Tensor(tensora.ones(1), 1).item() == 2
    with pytest.raises(AttributeError):
        tensora.ops.test_compat.nothing
    with pytest.raises(OSError):
        tensora.ops.load_library("x.so")


def test_hub_benchmark_and_schedule(tmp_path):
    (tmp_path / "hubconf.py").write_text("def small(size=2):\n    'A model.'\n    import tensora\n"
                                         "    return tensora.nn.Linear(size, 1)\n")
    assert tensora.hub.list(str(tmp_path), source="local") == ["small"]
    assert tensora.hub.load(str(tmp_path), "small", source="local", size=3).in_features == 3
    with pytest.raises(NotImplementedError, match="clone"):
        tensora.hub.load("owner/repository", "small")
    path = tmp_path / "weights.pt"
    tensora.save({"x": tensora.ones(2)}, str(path))
    loaded = tensora.hub.load_state_dict_from_url(path.as_uri(), model_dir=str(tmp_path / "kept"), progress=False)
    assert loaded["x"].tolist() == [1, 1]
    measured = tensora.utils.benchmark.Timer("x + 1", globals={"x": tensora.ones(2)}).blocked_autorange(min_run_time=0.01)
    assert 0 < measured.median < 1 and "Median" in repr(measured)
    saved = []
    plan = tensora.profiler.schedule(wait=1, warmup=0, active=2, repeat=1)
    with tensora.profiler.profile(schedule=plan, on_trace_ready=lambda p: saved.append(p.step_num)) as profile:
        for _ in range(6):
            tensora.ones(2) + 1
            profile.step()
    assert saved == [3]


def test_nodes_of_graphs_have_the_names_of_pytorch():
    done = run("-c", """
import torch
x = torch.ones(2, requires_grad=True)
y = torch.cat([x, x])
for node in (y.grad_fn, y.grad_fn.next_functions[0][0], x.log_softmax(0).grad_fn):
    print(node.name(), repr(node).split()[0])
""")
    assert done.stdout.splitlines() == ["CatBackward0 <CatBackward0", "torch::autograd::AccumulateGrad <AccumulateGrad",
                                        "LogSoftmaxBackward0 <LogSoftmaxBackward0"], done.stderr
    assert tensora.cat([tensora.ones(1, requires_grad=True)]).grad_fn.name() == "cat"


def test_modules_that_few_programs_need_are_imported_when_named():
    program = """
import sys, tensora
late = ["autograd.functional", "optim.swa_utils", "testing", "utils.data", "distributed", "sparse"]
assert not [name for name in late if f"tensora.{name}" in sys.modules]
tensora.autograd.functional.jacobian, tensora.optim.swa_utils.SWALR, tensora.testing.assert_close, tensora.utils.data.DataLoader
"""
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": SEARCH}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
