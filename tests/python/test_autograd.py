"""Gradients: modes, hooks, functions, checkpoints, checks."""
import gc
import weakref

import pytest

import tensora as torch
from tensora.autograd import Function, grad, gradcheck, gradgradcheck


class Cube(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x ** 3

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return 3 * ctx.scale * x ** 2 * gradient, None


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_backward_and_grad():
    x = torch.tensor([1., 2.], requires_grad=True)
    (x ** 2).sum().backward()
    assert x.grad.tolist() == [2, 4]
    first, = grad((x ** 3).sum(), x, create_graph=True)
    second, = grad(first.sum(), x)
    assert second.tolist() == [6, 12]
    assert grad(x.sum(), [x, torch.ones(1, requires_grad=True)], allow_unused=True)[1] is None
    with pytest.raises(RuntimeError):
        (x * 2).backward()
    with pytest.raises(RuntimeError):
        torch.ones(1).backward()


def test_modes_as_scopes_and_decorators():
    x = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad

    @torch.no_grad()
    def silent():
        return x * 2

    @torch.no_grad
    def silent_too():
        return x * 2

    @torch.inference_mode()
    def inferred():
        return x * 2

    @torch.no_grad()
    def numbers():
        yield (x * 2).requires_grad
    assert not silent().requires_grad and not silent_too().requires_grad and inferred().is_inference()
    assert list(numbers()) == [False] and torch.is_grad_enabled()
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    with pytest.raises(ZeroDivisionError), torch.no_grad():
        1 / 0
    assert torch.is_grad_enabled()


def test_flags_of_results_and_of_views_without_history():
    x = leaf(4)
    y = x * 2
    assert y.requires_grad_() is y
    with pytest.raises(RuntimeError, match="leaf"):
        y.requires_grad = True
    with torch.no_grad():
        view = y.view(2, 2)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="no_grad"):
        view.requires_grad  # noqa: B018


def test_function():
    x = leaf(4)
    assert gradcheck(lambda t: Cube.apply(t, 2.0), (x,)) and gradgradcheck(lambda t: Cube.apply(t, 2.0), (x,))
    with torch.no_grad():
        assert not Cube.apply(x, 1.0).requires_grad

    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient, gradient

    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        Wrong.apply(x).sum().backward()


def test_function_contexts_die_with_their_graph():
    contexts = []

    class Watched(Function):
        @staticmethod
        def forward(ctx, x):
            contexts.append(weakref.ref(ctx))
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            return gradient
    y = Watched.apply(leaf(2))
    y.sum().backward()
    del y
    gc.collect()
    assert contexts[0]() is None


def test_hooks():
    x = torch.ones(2, requires_grad=True)
    handle = x.register_hook(lambda g: g * 10)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [20, 20]
    handle.remove()
    x.grad = None
    seen = []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p is x))
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2] and seen == [True]


def test_exceptions_pass_through_backward():
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        x.sum().backward()

    class Raises(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        Raises.apply(torch.ones(1, requires_grad=True)).backward()


def test_checkpoint():
    x, w = leaf(3), leaf(3)
    from tensora.utils.checkpoint import checkpoint
    checkpoint(lambda t, k: (t * w).exp() * k, x, 2.0, use_reentrant=False).sum().backward()
    expected = grad(((x * w).exp() * 2).sum(), [x, w])
    assert torch.allclose(x.grad, expected[0]) and torch.allclose(w.grad, expected[1])
    with pytest.raises(ZeroDivisionError):
        checkpoint(lambda t: 1 / 0, x)


def test_gradcheck_finds_a_wrong_gradient():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3
    with pytest.raises(RuntimeError, match="mismatch"):
        gradcheck(Wrong.apply, (leaf(2),))
    assert not gradcheck(Wrong.apply, (leaf(2),), raise_exception=False)


def test_functional():
    x = leaf(3)
    from tensora.autograd import functional as F
    assert torch.allclose(F.jacobian(lambda t: t ** 2, x), torch.diag(2 * x.detach()))
    assert torch.allclose(F.hessian(lambda t: (t ** 3).sum(), x), torch.diag(6 * x.detach()))
    v = torch.randn(3, dtype=torch.float64)
    assert torch.allclose(F.jvp(lambda t: t ** 2, x, v)[1], 2 * x.detach() * v)
    assert torch.allclose(F.vjp(lambda t: t ** 2, x, v)[1], 2 * x.detach() * v)


def test_inputs_of_backward():
    x, y = leaf(2), leaf(2)
    (x * y).sum().backward(inputs=[x])
    assert x.grad is not None and y.grad is None


def test_autocast():
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a @ b).dtype is torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            assert (a @ b).dtype is torch.float32
    assert (a @ b).dtype is torch.float32
