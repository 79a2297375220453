"""Dual tensors, and modes that see every function."""
import threading

import pytest

import tensora
import tensora.autograd.forward_ad as fwAD
from tensora.overrides import TorchFunctionMode

W = tensora.arange(6.).view(3, 2)
FUNCTIONS = [lambda x: x * x, lambda x: x.sin() @ W, lambda x: tensora.softmax(x, -1), lambda x: x.sum(), lambda x: x.T @ x,
             lambda x: 3 / x, lambda x: x[0], lambda x: tensora.cat([x, x * 2]), lambda x: x.max(1)[0], lambda x: x.mT.real,
             lambda x: tensora.where(x > 2, x * 3, x), lambda x: x.clone().mul_(2).add_(x), lambda x: tensora.stack([x, W.t()]),
             lambda x: tensora.nn.functional.layer_norm(x ** 2, (3,))]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_tangents(function):
    x, t = tensora.arange(1., 7.).view(2, 3), tensora.tensor([[0.5, -1, 2], [0.1, 0, 1]])
    with fwAD.dual_level():
        primal, tangent = fwAD.unpack_dual(function(fwAD.make_dual(x, t)))
    expected, direction = tensora.func.jvp(function, (x,), (t,))
    assert tensora.allclose(primal, expected) and tensora.allclose(tangent, direction, atol=1e-6)
    assert not isinstance(primal.requires_grad and primal, tensora.Tensor)


def test_levels_and_parameters():
    x, t = tensora.ones(2, 3), tensora.ones(2, 3)
    with pytest.raises(RuntimeError, match="outside of a level"):
        fwAD.make_dual(x, t)
    model = tensora.nn.Linear(3, 2)
    with fwAD.dual_level():
        with pytest.raises(RuntimeError, match="Nested"):
            fwAD.enter_dual_level()
        with pytest.raises(RuntimeError, match="tangent of shape"):
            fwAD.make_dual(x, tensora.ones(3))
        for name, parameter in list(model.named_parameters()):
            delattr(model, name)
            setattr(model, name, fwAD.make_dual(parameter, tensora.ones_like(parameter)))
        result = model(x)
        assert fwAD.unpack_dual(result).tangent.tolist() == [[4, 4], [4, 4]]
        fwAD.unpack_dual(result).tangent.sum(), fwAD.unpack_dual(result).primal.sum().backward()  # both modes together
        assert fwAD.unpack_dual(x).tangent is None
        with pytest.raises(NotImplementedError, match="__setitem__"):
            model.weight[0] = 1
    assert fwAD.unpack_dual(result).tangent is None


class Record(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


class DoubleSums(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is tensora.add else result


def test_modes():
    own = tensora.Tensor.__dict__["__add__"]
    with Record() as record:
        x = tensora.ones(3)
        y = tensora.relu(x + 1)
        y[0] = 5
        assert (2 * y).sum().item() == 18
    assert record.names == ["ones", "__add__", "relu", "__setitem__", "__rmul__", "sum"]
    seen = []
    with DoubleSums(), Record() as inner:
        assert tensora.add(tensora.ones(1), 1).item() == 4
        other = threading.Thread(target=lambda: seen.append(tensora.add(tensora.ones(1), 1).item()))
        other.start()
        other.join()
    assert inner.names == ["ones", "add"] and seen == [2]
    assert tensora.add(tensora.ones(1), 1).item() == 2 and tensora.Tensor.__dict__["__add__"] is own
    with pytest.raises(ZeroDivisionError), Record():
        1 / 0
    assert tensora.Tensor.__dict__["__add__"] is own and (tensora.ones(1) + 1).item() == 2


def test_adaptive_softmax():
    tensora.manual_seed(0)
    layer = tensora.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2)
    x, target = tensora.randn(7, 8), tensora.tensor([0, 4, 5, 9, 10, 19, 3])
    every = layer.log_prob(x)
    assert tensora.allclose(every.exp().sum(1), tensora.ones(7), atol=1e-5)
    output, loss = layer(x, target)
    assert tensora.allclose(output, every.gather(1, target[:, None])[:, 0], atol=1e-6)
    assert tensora.allclose(loss, -output.mean()) and layer.predict(x).tolist() == every.argmax(1).tolist()
    assert list(layer.state_dict()) == ["head.weight", "tail.0.0.weight", "tail.0.1.weight", "tail.1.0.weight", "tail.1.1.weight"]
    with pytest.raises(RuntimeError, match="Target values"):
        layer(x, target + 1)


def test_a_profile_ends_with_its_scope():
    for _ in range(2):
        with tensora.profiler.profile() as profile:
            tensora.ones(4).exp()
        tensora.ones(4).sin()
    assert "exp" in profile.table() and "sin" not in profile.table() and len(profile.table(row_limit=1).splitlines()) == 2


def test_functions_with_a_derivative_of_their_own():
    class Scaled(tensora.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, scale):
            ctx.scale = scale
            ctx.save_for_backward(x)
            ctx.save_for_forward(y)
            return x * scale, scale

        @staticmethod
        def jvp(ctx, x, y, scale):
            assert y is None and scale is None
            other, = ctx.saved_tensors
            return x * 10 * ctx.scale + other, None

        @staticmethod
        def backward(ctx, gradient, of_scale):
            assert len(ctx.saved_tensors) == 1
            return gradient * ctx.scale, None, None
    x = tensora.tensor(2., requires_grad=True)
    with fwAD.dual_level():
        result, scale = Scaled.apply(fwAD.make_dual(x, tensora.tensor(1.)), tensora.tensor(3.), 5)
        primal, tangent = fwAD.unpack_dual(result)
    assert primal.item() == 10 and tangent.item() == 53 and scale == 5
    primal.backward()
    assert x.grad.item() == 5


def test_functions_without_one_are_differentiated_twice():
    class Cube(tensora.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.detach() ** 3

        @staticmethod
        def backward(ctx, gradient):
            x, = ctx.saved_tensors
            return 3 * x ** 2 * gradient
    with fwAD.dual_level():
        assert fwAD.unpack_dual(Cube.apply(fwAD.make_dual(tensora.tensor(2.), tensora.tensor(1.)))).tangent.item() == 12
