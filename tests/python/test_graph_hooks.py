"""saved_tensors_hooks: what ops keep for backward goes through the program's hands."""
import numpy
import pytest

import tensora
from tensora.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks


def test_hooks_see_what_is_saved_and_give_it_back():
    packed, unpacked = [], []

    def pack(tensor):
        packed.append(tensor)
        return tensor.detach().numpy().copy()

    def unpack(array):
        unpacked.append(array)
        return tensora.tensor(array)
    x = tensora.randn(3, requires_grad=True)
    w = tensora.randn(3, requires_grad=True)
    with saved_tensors_hooks(pack, unpack):
        y = (x * w).exp().sum()
    before = len(packed)
    (x * w).sum()  # outside: nothing is packed
    assert len(packed) == before and before >= 3 and not unpacked
    y.backward()
    tensora.testing.assert_close(x.grad, (x * w).exp().detach() * w.detach())
    assert len(unpacked) == before


def test_without_recording_nothing_is_packed():
    calls = []
    with saved_tensors_hooks(lambda t: calls.append(t) or t, lambda t: t), tensora.no_grad():
        tensora.ones(2, requires_grad=True).exp()
    assert not calls


def test_inner_scope_wins_and_errors_come_out():
    x = tensora.ones(2, requires_grad=True)
    order = []
    with saved_tensors_hooks(lambda t: order.append("outer") or t, lambda t: t):
        with saved_tensors_hooks(lambda t: order.append("inner") or t, lambda t: t):
            x.exp()
        x.exp()
    assert order == ["inner", "outer"]

    def refuse(tensor):
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"), saved_tensors_hooks(refuse, lambda t: t):
        x.exp()
    with saved_tensors_hooks(lambda t: t, lambda t: 5):
        y = x.exp()
    with pytest.raises(TypeError, match="expected to be a Tensor"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="in place"), saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
        (x * 2).exp()
    x.exp()  # all scopes are closed again
    with disable_saved_tensors_hooks("not now"), pytest.raises(RuntimeError, match="not now"):
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            pass


def test_second_derivatives_and_second_backward():
    x = tensora.tensor([1., 2.], dtype=tensora.float64, requires_grad=True)
    with saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = (x ** 3).sum()
    (first,) = tensora.autograd.grad(y, x, create_graph=True)
    (second,) = tensora.autograd.grad(first.sum(), x, retain_graph=True)
    tensora.testing.assert_close(second, 6 * x.detach())
    y.backward(retain_graph=True)
    y.backward()
    tensora.testing.assert_close(x.grad, 6 * x.detach() ** 2)


def test_functions_save_through_hooks():
    class Square(tensora.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            x, nothing = ctx.saved_tensors
            assert nothing is None
            return 2 * x * grad
    calls = []
    x = tensora.tensor(3., requires_grad=True)
    with saved_tensors_hooks(lambda t: calls.append("pack") or t.item(), lambda n: calls.append("unpack") or tensora.tensor(n)):
        y = Square.apply(x)
    y.backward()
    assert x.grad.item() == 6 and calls == ["pack", "unpack"]


def test_layers_train_the_same_with_saved_tensors_elsewhere():
    grads = []
    for scope in (None, save_on_cpu(), saved_tensors_hooks(lambda t: t.detach().numpy().copy(), tensora.from_numpy)):
        tensora.manual_seed(1)
        net = tensora.nn.Sequential(tensora.nn.Conv2d(1, 2, 3), tensora.nn.BatchNorm2d(2), tensora.nn.ReLU(),
                                    tensora.nn.MaxPool2d(2), tensora.nn.Flatten(), tensora.nn.Linear(18, 3))
        x = tensora.randn(4, 1, 8, 8)
        if scope is None:
            loss = tensora.nn.functional.cross_entropy(net(x), tensora.tensor([0, 1, 2, 0]))
        else:
            with scope:
                loss = tensora.nn.functional.cross_entropy(net(x), tensora.tensor([0, 1, 2, 0]))
        loss.backward()
        grads.append([p.grad.numpy() for p in net.parameters()])
    for other in grads[1:]:
        for a, b in zip(grads[0], other):
            numpy.testing.assert_array_equal(a, b)


def test_saved_tensors_may_be_changed_within_a_scope():
    x = tensora.tensor([1.0, 2.0], requires_grad=True)
    y = x.clone()
    with tensora.autograd.graph.allow_mutation_on_saved_tensors() as kept:
        z = y.square() * y.exp()
        y.mul_(0)
        z.sum().backward()
        kept.clear()
    expected = (x * x + 2 * x) * x.exp()
    assert tensora.allclose(x.grad, expected)
    y = x.clone()
    z = y.square()
    y.mul_(0)
    with pytest.raises(RuntimeError, match="changed in place"):
        z.sum().backward()
