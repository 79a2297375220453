"""Memory after many calls: --leak-calls=1000000 makes a million, as the tests usually make a tenth of that.

Each row is one way into the package. The resident memory is read after a warm-up and at the end; whatever a row
leaves behind at every call, be it one small object, shows as a slope.
"""
import gc

import pytest

import tensora as torch
from tensora import nn

numpy = pytest.importorskip("numpy")

KIB_ALLOWED = 1536  # of noise: the collector's and the allocators' own lists
ROUNDS = {}  # name -> (a round of calls, how many calls it makes)


def row(calls):
    def add(function):
        ROUNDS[function.__name__] = function, calls
        return function
    return add


def resident_kib():
    gc.collect()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


X = torch.ones(4)
LEAF = torch.ones(4, requires_grad=True)
MATRIX = torch.ones(4, 4)
ARRAY = numpy.ones(4, numpy.float32)
MODEL = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.BatchNorm1d(4))
OPTIMIZER = torch.optim.Adam(MODEL.parameters())


@row(8)
def ops():
    y = (X + 1).mul(2) - X
    y.add_(1).tag = "an attribute"
    torch.tensor([1., 2.]).max(dim=0)
    torch.cat([X, y], dim=0)
    X.shape, X.dtype


@row(8)
def indexing():
    MATRIX[1], MATRIX[1:, None, ..., 2], MATRIX[X > 2], MATRIX[[0, 2]]
    MATRIX[1, 2] = 1.0
    MATRIX[:, 1] = X
    MATRIX.view(2, 8), list(MATRIX)


@row(5)
def autograd():
    y = (LEAF * 2).sum()
    y.backward()
    LEAF.grad = None
    torch.autograd.grad((LEAF ** 3).sum(), LEAF, create_graph=True)


@row(5)
def hooks():
    leaf = torch.ones(3, requires_grad=True)
    handle = leaf.register_hook(lambda g: g * 2)
    y = leaf * 3
    itself = y.register_hook(lambda g, y=y: None)  # a cycle until it is removed
    y.sum().backward()
    handle.remove(), itself.remove()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        context.note = x
        return x * x

    @staticmethod
    def backward(context, gradient):
        return 2 * context.saved_tensors[0] * gradient


@row(4)
def functions():
    Square.apply(LEAF).sum().backward()
    LEAF.grad = None
    Square.apply(LEAF)  # never differentiated


@row(12)
def modules():
    OPTIMIZER.zero_grad()
    MODEL(MATRIX).sum().backward()
    OPTIMIZER.step()
    layer = nn.Linear(2, 2)
    layer.itself = [layer]
    layer.state_dict()


@row(4)
def hooked_modules():
    layer = nn.Linear(4, 4)
    layer.register_forward_hook(lambda module, inputs, output: output * 2)
    layer.register_full_backward_hook(lambda module, inputs, outputs: None)
    layer(LEAF[None]).sum().backward()
    LEAF.grad = None


def fails(gradient):
    raise KeyError("a hook")


@row(7)
def exceptions():
    for wrong in (lambda: X.view(3), lambda: X[9], lambda: X + torch.ones(3), lambda: torch.add(1, 2, 3, 4),
                  lambda: X.nothing, lambda: torch.tensor([[1], [1, 2]])):
        with pytest.raises(Exception):
            wrong()
    leaf = torch.ones(2, requires_grad=True)
    leaf.register_hook(fails)
    with pytest.raises(KeyError):
        (leaf * 2).sum().backward()


@row(8)
def exchange():
    torch.from_numpy(ARRAY).numpy()
    numpy.asarray(X)
    torch.from_dlpack(ARRAY), numpy.from_dlpack(X)
    X.__dlpack__()  # a capsule that nobody takes
    memoryview(X)
    torch.tensor(X.tolist())


@row(4)
def modes():
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        LEAF @ LEAF
    with torch.inference_mode():
        LEAF + 1
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (t,), lambda packed: packed[0]):
        (LEAF * LEAF).sum().backward()
    LEAF.grad = None


@pytest.mark.parametrize("name", ROUNDS)
def test_does_not_leak(name, request):
    function, calls = ROUNDS[name]
    rounds = max(50, request.config.getoption("--leak-calls") // len(ROUNDS) // calls)
    for _ in range(max(rounds // 5, 200)):
        function()
    before = resident_kib()
    for _ in range(rounds):
        function()
    grown = resident_kib() - before
    print(f"{name}: {rounds * calls} calls, {grown} KiB more")
    assert grown < KIB_ALLOWED
