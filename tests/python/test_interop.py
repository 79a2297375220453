"""Behaviour that scripts run into: NumPy, .data, copies that keep sharing, processes, signals, nested gradients."""
import copy
import io
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy
import pytest

import tensora
from tensora import nn


# ---- NumPy -----------------------------------------------------------------------------------------

def is_tensor(value, expected, dtype):
    assert type(value) is tensora.Tensor and value.dtype is dtype, value
    assert value.tolist() == expected, value


def test_operators_between_tensors_and_arrays():
    x, a = tensora.ones(2), numpy.array([1., 2.])
    for value in (x == a, a == x):
        is_tensor(value, [True, False], tensora.bool)
    is_tensor(x != a, [False, True], tensora.bool)
    is_tensor(x < a, [False, True], tensora.bool)
    for value in (x + a, a + x):
        is_tensor(value, [2., 3.], tensora.float64)
    is_tensor(x - a, [0., -1.], tensora.float64)
    is_tensor(a / x, [1., 2.], tensora.float64)
    is_tensor(x * numpy.arange(2), [0., 1.], tensora.float64)  # NumPy's promotion, as in PyTorch
    is_tensor(x @ a, 3., tensora.float64)
    is_tensor(numpy.float64(2) * x, [2., 2.], tensora.float32)  # a number yields to tensors
    is_tensor(x + numpy.float64(2), [3., 3.], tensora.float32)
    is_tensor(numpy.array(2.) * x, [2., 2.], tensora.float64)
    assert (x == None) is False and (x == "a") is False  # noqa: E711
    for wrong in ("a", [1, 2]):
        with pytest.raises(TypeError):
            x + wrong
    a += x
    assert type(a) is numpy.ndarray and a.tolist() == [2., 3.]


def test_numpy_functions_of_tensors():
    x = tensora.tensor([0., 1.])
    is_tensor(numpy.exp(x), numpy.exp(x.numpy()).tolist(), tensora.float32)
    is_tensor(numpy.add(x, x), [0., 2.], tensora.float32)
    is_tensor(numpy.maximum(x, 0.5), [0.5, 1.], tensora.float32)
    is_tensor(numpy.isnan(x), [False, False], tensora.bool)
    is_tensor(numpy.add.reduce(x), 1., tensora.float32)
    fraction, whole = numpy.modf(x)
    is_tensor(whole, [0., 1.], tensora.float32)
    out = tensora.empty(2)
    assert numpy.exp(x, out=out) is out and out.tolist() == numpy.exp(x.numpy()).tolist()
    assert type(numpy.concatenate([x, x])) is numpy.ndarray
    with pytest.raises(RuntimeError, match="requires grad"):
        numpy.exp(x.clone().requires_grad_())


# ---- tensor() --------------------------------------------------------------------------------------

def test_tensors_in_lists_are_their_elements():
    one, two = tensora.tensor([1.]), tensora.tensor([[2.]])
    assert tensora.tensor([one, two]).tolist() == [1., 2.]
    assert tensora.tensor([[one], [two]]).tolist() == [[1.], [2.]]
    assert tensora.tensor([tensora.tensor(1), 2.5]).tolist() == [1., 2.5]
    assert tensora.tensor([tensora.tensor(1)]).dtype is tensora.int64
    assert tensora.tensor([tensora.tensor(1.).double(), 2]).dtype is tensora.float64
    assert tensora.tensor([numpy.ones(1), numpy.zeros(1)]).tolist() == [[1.], [0.]]
    with pytest.raises(ValueError, match="only one element tensors"):
        tensora.tensor([tensora.ones(2), tensora.ones(2)])


@pytest.mark.parametrize("value, dtype", [
    (300, "uint8"), (-300, "uint8"), ([300.], "uint8"), ([2 ** 40], "int32"), (2 ** 31, "int32"), (float("nan"), "int64"),
    (1e30, "int64"), (float("inf"), "int32"), ([-129], "int8"), (128, "int8"), ([[1], [70000]], "int16")])
def test_numbers_that_do_not_fit_raise(value, dtype):
    for make in (tensora.tensor, tensora.as_tensor):
        with pytest.raises(RuntimeError, match="without overflow"):
            make(value, dtype=getattr(tensora, dtype))


def test_numbers_that_fit():
    assert tensora.tensor(-1, dtype=tensora.uint8).item() == 255
    assert tensora.tensor([1.7, -1.7], dtype=tensora.int64).tolist() == [1, -1]
    assert tensora.tensor(1e10, dtype=tensora.float16).item() == float("inf")
    assert tensora.tensor(2 ** 70, dtype=tensora.float32).item() == 2. ** 70
    assert tensora.tensor([0.5, 0.], dtype=tensora.bool).tolist() == [True, False]
    assert tensora.tensor(numpy.array([300]), dtype=tensora.uint8).tolist() == [44]
    for value in (2 ** 63, [-2 ** 64]):
        with pytest.raises(ValueError, match="Overflow"):
            tensora.tensor(value)
    with pytest.raises(TypeError, match="real number"):
        tensora.tensor(1j, dtype=tensora.float32)


# ---- keywords --------------------------------------------------------------------------------------

def test_split_and_copy_keywords():
    x = tensora.arange(4)
    assert [p.tolist() for p in x.split(split_size=[1, 3])] == [[0], [1, 2, 3]]
    assert [p.tolist() for p in x.split(split_size=3, dim=0)] == [[0, 1, 2], [3]]
    assert len(tensora.split(tensor=x, split_size_or_sections=2)) == 2
    assert [p.tolist() for p in tensora.split(x, [1, 3], dim=0)] == [[0], [1, 2, 3]]
    assert tensora.zeros(4).long().copy_(x, non_blocking=True).equal(x)
    assert tensora.zeros(4).long().copy_(x, True).equal(x)


# ---- .data -----------------------------------------------------------------------------------------

def test_data_has_a_version_of_its_own():
    x = tensora.ones(3, requires_grad=True)
    y = x.exp()  # saves its result
    y.data[0] = 5.
    assert y[0].item() == 5.
    y.sum().backward()
    assert x.grad[0].item() == 5.
    z = x.exp()
    z.detach()[0] = 5.
    with pytest.raises(RuntimeError, match="changed in place"):
        z.sum().backward()


def test_data_shares_memory():
    x = tensora.arange(4.)
    assert x.data.data_ptr() == x.data_ptr() and x._shares_storage(x.data.data)
    x.data[1:].copy_(x.data[:-1])  # overlaps: as if the source were copied first
    assert x.tolist() == [0., 0., 1., 2.]
    p = nn.Parameter(tensora.ones(2))
    for _ in range(1000):
        p.data = p.data
    held = tensora.ones(2)
    for _ in range(100_000):  # no chain of storages, whose end would overflow the stack
        held = held.data
    del held
    p.data += 1
    assert p.tolist() == [2., 2.]


# ---- sharing between views -------------------------------------------------------------------------

def shares(first, second):
    first.fill_(7)
    return bool((second == 7).any())


def test_deepcopy_keeps_sharing():
    base = tensora.arange(6.)
    first, second, other = copy.deepcopy([base, base[2:].view(2, 2), tensora.ones(2)])
    assert second.shape == (2, 2) and shares(first, second) and not shares(first, other)
    assert base.tolist() == [0., 1., 2., 3., 4., 5.]
    layer = nn.Linear(2, 2)
    layer.tied = nn.Parameter(layer.weight.data[0])
    twin = copy.deepcopy(layer)
    assert shares(twin.weight.data, twin.tied) and not shares(layer.weight.data, twin.tied.data * 0)
    channels = tensora.randn(1, 2, 3, 4).to(memory_format=tensora.channels_last)
    assert copy.deepcopy(channels).stride() == channels.stride()


def test_files_keep_sharing(tmp_path):
    base = tensora.arange(6.)
    data = {"base": base, "view": base[2:].view(2, 2), "data": base.data[:1], "other": tensora.ones(2)}
    tensora.save(data, tmp_path / "x.pt")
    loaded = tensora.load(tmp_path / "x.pt")
    assert loaded["view"].tolist() == [[2., 3.], [4., 5.]] and loaded["data"].tolist() == [0.]
    assert shares(loaded["base"], loaded["view"]) and loaded["data"].item() == 7.
    assert loaded["other"].tolist() == [1., 1.]
    first, second = pickle.loads(pickle.dumps((base, base[1:])))
    assert shares(first, second)
    layer = nn.Linear(2, 2)
    layer.tied = nn.Parameter(layer.weight.data[0])
    file = io.BytesIO()
    tensora.save(layer, file)
    file.seek(0)
    twin = tensora.load(file, weights_only=False)
    assert twin.tied.tolist() == layer.tied.tolist() and shares(twin.weight.data, twin.tied.data)


def test_pickled_subclasses_and_odd_tensors():
    weight = nn.Parameter(tensora.arange(4.).reshape(2, 2).t())
    weight.note = "kept"
    again = pickle.loads(pickle.dumps(weight))
    assert type(again) is nn.Parameter and again.note == "kept" and again.requires_grad
    assert again.tolist() == weight.tolist() and again.stride() == weight.stride()
    for x in (tensora.empty(0, 3), tensora.tensor(True), tensora.ones(2, dtype=tensora.bfloat16),
              tensora.ones(3).expand(2, 3)):
        twin = pickle.loads(pickle.dumps(x))
        assert twin.shape == x.shape and twin.dtype is x.dtype and twin.equal(x)


# ---- processes -------------------------------------------------------------------------------------

def run(script, timeout=120):
    package = os.path.dirname(os.path.dirname(tensora.__file__))
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]))
    return subprocess.run([sys.executable, str(script)], env=environment, timeout=timeout, capture_output=True, text=True)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_share_memory(tmp_path, method):
    script = tmp_path / "hogwild.py"
    script.write_text(textwrap.dedent(f"""
        import tensora
        import tensora.multiprocessing as mp
        from tensora import nn

        def train(model, view):
            assert model.weight.is_shared() and view.is_shared()
            optimizer = tensora.optim.SGD(model.parameters(), lr=0.5)
            model(tensora.ones(1, 2)).sum().backward()
            optimizer.step()
            view.add_(1)

        if __name__ == "__main__":
            mp.set_start_method({method!r}, force=True)
            model = nn.Linear(2, 1)
            model.share_memory()
            shared = tensora.zeros(4).share_memory_()
            before = model.weight.detach().clone()
            for _ in range(2):
                process = mp.Process(target=train, args=(model, shared[2:]))
                process.start()
                process.join()
                assert process.exitcode == 0
            assert (before - model.weight).allclose(tensora.ones(1, 2)), (before, model.weight)
            assert shared.tolist() == [0., 0., 2., 2.]
            print("shared")
    """))
    done = run(script)
    assert done.stdout == "shared\n", done.stderr


def test_shared_memory():
    x = tensora.arange(4.)
    assert not x.is_shared() and x.share_memory_() is x and x.is_shared()
    assert x.tolist() == [0., 1., 2., 3.] and x[1:].is_shared() and not x.clone().is_shared()
    place = x.data_ptr()
    assert x.share_memory_().data_ptr() == place
    weight = nn.Parameter(tensora.ones(2))
    assert weight.share_memory_().requires_grad and weight.is_shared() and weight.is_leaf
    with pytest.raises(ValueError, match="strategy"):
        tensora.multiprocessing.set_sharing_strategy("telepathy")


# ---- signals ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("size, dtype", [(3000, "int64"), (6000, "float32")])
def test_a_product_can_be_interrupted(size, dtype):
    x = tensora.ones(size, size, dtype=getattr(tensora, dtype))
    began = time.monotonic()
    sent = []

    def interrupt():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(0.3, interrupt)
    timer.start()
    try:
        x @ x
        timer.cancel()
        if sent:
            time.sleep(0.1)  # the signal came at the very end
    except KeyboardInterrupt:
        assert time.monotonic() - sent[0] < 4
        assert (x[:2, :2] @ x[:2, :2]).tolist() == [[2, 2], [2, 2]]  # and all works afterwards
        return
    pytest.skip(f"the product took {time.monotonic() - began:.1f} s")


# ---- gradients of gradients ------------------------------------------------------------------------

def test_nested_gradients_of_functions():
    grad = tensora.func.grad
    x = tensora.tensor(2.)
    cube = lambda x: x ** 3  # noqa: E731
    assert grad(cube)(x).item() == 12. and grad(grad(cube))(x).item() == 12. and grad(grad(grad(cube)))(x).item() == 6.
    assert not grad(grad(cube))(x).requires_grad and not x.requires_grad
    assert grad(lambda x: (grad(cube)(x) * x))(x).item() == 36.
    with tensora.no_grad():
        assert grad(grad(cube))(x).item() == 12.
    tracked = tensora.tensor(2., requires_grad=True)
    grad(cube)(tracked).backward()
    assert tracked.grad.item() == 12.
    both, value = tensora.func.grad_and_value(lambda x, y: x * y, argnums=(0, 1))(x, tensora.tensor(3.))
    assert [g.item() for g in both] == [3., 2.] and value.item() == 6. and not value.requires_grad
    layer = nn.Linear(2, 1)
    loss = lambda p, x: tensora.func.functional_call(layer, p, (x,)).sum()  # noqa: E731
    found = grad(loss)(dict(layer.named_parameters()), tensora.ones(3, 2))
    assert found["weight"].tolist() == [[3., 3.]] and found["bias"].tolist() == [3.] and layer.weight.grad is None
    nested, aux = grad(lambda p: ((p[0][0] * 2).sum(), p), has_aux=True)([(x,)])
    assert nested[0][0].item() == 2. and not aux[0][0].requires_grad
    vector = tensora.tensor([1., 2.])
    assert grad(lambda v: tensora.func.jacrev(lambda u: u ** 3)(v).sum())(vector).tolist() == [6., 12.]
    assert tensora.func.jacrev(grad(lambda v: (v ** 3).sum()))(vector).diagonal().tolist() == [6., 12.]
    assert tensora.func.hessian(lambda v: (v ** 3).sum())(vector).diagonal().tolist() == [6., 12.]


# ---- distributions ---------------------------------------------------------------------------------

D = tensora.distributions
WRONG = [lambda v: D.Normal(0., -1., v), lambda v: D.Normal(float("nan"), 1., v), lambda v: D.LogNormal(0., 0., v),
         lambda v: D.HalfNormal(-1., v), lambda v: D.Uniform(1., 0., v), lambda v: D.Exponential(-1., v),
         lambda v: D.Laplace(0., 0., v), lambda v: D.Cauchy(0., -1., v), lambda v: D.Gumbel(0., -1., v),
         lambda v: D.Gamma(-1., 1., v), lambda v: D.Chi2(-1., v), lambda v: D.StudentT(0., validate_args=v),
         lambda v: D.Dirichlet(tensora.tensor([1., -1.]), v), lambda v: D.Beta(0., 1., v),
         lambda v: D.MultivariateNormal(tensora.zeros(2), scale_tril=tensora.ones(2, 2), validate_args=v),
         lambda v: D.Bernoulli(1.5, validate_args=v), lambda v: D.Bernoulli(-0.5, validate_args=v),
         lambda v: D.Geometric(2., validate_args=v), lambda v: D.Poisson(-1., v),
         lambda v: D.Binomial(-1, 0.5, validate_args=v), lambda v: D.Binomial(1, 1.5, validate_args=v),
         lambda v: D.Categorical(logits=tensora.tensor([float("nan"), 0.]), validate_args=v)]


@pytest.mark.parametrize("make", WRONG)
def test_parameters_of_distributions_are_checked(make):
    with pytest.raises(ValueError):
        make(None)
    with pytest.raises(ValueError):
        make(True)
    make(False)


@pytest.mark.parametrize("make, value", [
    (lambda: D.Exponential(1.), -1.), (lambda: D.Uniform(0., 1.), 2.), (lambda: D.Bernoulli(0.5), 2.),
    (lambda: D.Categorical(tensora.ones(3)), 3), (lambda: D.Poisson(1.), 0.5), (lambda: D.Beta(1., 1.), -1.),
    (lambda: D.Normal(0., 1.), float("nan")), (lambda: D.Binomial(3, 0.5), 4.), (lambda: D.Gamma(1., 1.), -1.)])
def test_samples_are_checked(make, value):
    with pytest.raises(ValueError, match="support"):
        make().log_prob(tensora.tensor(value))


def test_distributions_accept_what_is_valid():
    D.Categorical(logits=tensora.tensor([0., float("-inf")])).log_prob(tensora.tensor(0))
    D.Categorical(logits=tensora.randn(3, 50_000) * 5).log_prob(tensora.tensor([1, 2, 3]))
    D.Bernoulli(tensora.tensor([0., 1.])).log_prob(tensora.tensor([0., 1.]))
    D.MultivariateNormal(tensora.zeros(2), tensora.eye(2)).log_prob(tensora.zeros(2))
    D.MultivariateNormal(tensora.zeros(2), precision_matrix=tensora.eye(2)).rsample()
    for name in ("Normal", "Laplace", "Cauchy", "Gumbel", "Gamma", "Beta", "LogNormal"):
        law = getattr(D, name)(tensora.tensor(1.5), tensora.tensor(2.))
        law.log_prob(law.sample((5,)))
    D.OneHotCategorical(tensora.ones(3)).log_prob(tensora.tensor([0., 1., 0.]))
    D.Multinomial(2, tensora.ones(3)).log_prob(tensora.tensor([0., 1., 1.]))


def test_arrays_of_leaves_where_no_gradient_is_recorded():
    x = tensora.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with tensora.no_grad():
        assert x.cpu().numpy().tolist() == [1, 1] and numpy.add(x, 1).tolist() == [2, 2]
