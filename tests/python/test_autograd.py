"""Gradients: modes, hooks, functions, checkpoints, checks."""
import gc
import warnings
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


def test_functions_give_other_outputs_as_they_are():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x, scale, y):
            ctx.scale = scale
            return x * scale, scale, None, y * scale

        @staticmethod
        def backward(ctx, first, of_scale, of_none, second):
            assert of_scale is None and of_none is None
            return first * ctx.scale, None, second * ctx.scale
    x, y = leaf(2), leaf(2)
    first, scale, none, second = Scaled.apply(x, 3, y)
    assert scale == 3 and none is None
    (first + 2 * second).sum().backward()
    assert x.grad.tolist() == [3, 3] and y.grad.tolist() == [6, 6]

    class Text(Function):
        @staticmethod
        def forward(ctx, word):
            return {"word": word}
    assert Text.apply("here") == {"word": "here"}


def test_functions_with_a_setup_take_defaults_and_keywords():
    class Power(Function):
        @staticmethod
        def forward(x, exponent=3):
            return x ** exponent

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.exponent = inputs[1]
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, gradient):
            x, = ctx.saved_tensors
            return gradient * ctx.exponent * x ** (ctx.exponent - 1), None
    x = torch.tensor(2., requires_grad=True)
    assert grad(Power.apply(x), x)[0].item() == 12 and grad(Power.apply(x, exponent=2), x)[0].item() == 4
    with pytest.raises(RuntimeError, match="non-static"):
        Power()(x)


def test_backwards_that_have_no_derivative_say_so():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x ** 3

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, gradient):
            x, = ctx.saved_tensors
            return 3 * x ** 2 * gradient
    x = torch.tensor(2., requires_grad=True)
    assert grad(Once.apply(x), x)[0].item() == 12
    first, = grad(Once.apply(x) * x, x, create_graph=True)
    assert first.item() == 32
    with pytest.raises(RuntimeError, match="differentiate twice"):
        first.backward()


def test_nodes_of_functions_show_their_context():
    x = leaf(2)
    y = Cube.apply(x, 2.0)
    assert y.grad_fn.name() == "CubeBackward" and y.grad_fn.scale == 2.0 and y.grad_fn.saved_tensors[0] is x
    with pytest.raises(AttributeError):
        y.grad_fn.nothing  # noqa: B018
    with pytest.raises(AttributeError):
        (x * 2).grad_fn.scale  # noqa: B018


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


def test_outputs_and_kept_gradients_of_nodes():
    x = leaf(4)
    parts = x.chunk(2)
    assert [part.output_nr for part in parts] == [0, 1] and not parts[0].retains_grad
    parts[0].retain_grad()
    assert parts[0].retains_grad and not x.retains_grad


def test_hooks_on_nodes():
    x, seen = leaf(2), []
    y = x * 2
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 3,))
    handle = y.grad_fn.register_prehook(lambda grads: seen.append("removed"))
    after = y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0][0].item(), outputs[0][0].item())))
    y.grad_fn.register_hook(lambda inputs, outputs: tuple(None if g is None else g * 5 for g in inputs))
    handle.remove()
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [30, 30] and seen == [(6, 3)]
    after.remove()
    with pytest.raises(RuntimeError, match="incorrect number"):
        y.grad_fn.register_prehook(lambda grads: grads * 2)
        y.sum().backward()
    with pytest.raises(TypeError, match="tensors"):
        z = x * 2
        z.grad_fn.register_hook(lambda inputs, outputs: [1])
        z.sum().backward()
    variance, mean = torch.var_mean(x, dim=0)
    mean.grad_fn.register_prehook(lambda grads: seen.append([g is None for g in grads]))
    (variance + mean).backward()
    assert seen[1:] == [[False, False]]


def test_hooks_on_the_nodes_of_leaves():
    x, seen = leaf(2), []
    node = x.expand_as(x).grad_fn.next_functions[0][0]
    handle = node.register_hook(lambda inputs, outputs: seen.append((inputs, outputs[0].tolist(), x.grad.tolist())))
    node.register_prehook(lambda grads: (grads[0] * 2,))
    (x * 3 + x).sum().backward()
    assert seen == [((), [8, 8], [8, 8])]
    handle.remove()
    x.sum().backward()
    assert len(seen) == 1 and x.grad.tolist() == [10, 10]


def test_gradients_at_edges_of_the_graph():
    x = leaf(3)
    y = x * 2
    edge, leaf_edge = torch.autograd.graph.get_gradient_edge(y), torch.autograd.graph.get_gradient_edge(x)
    assert edge.node == y.grad_fn and edge.output_nr == 0
    z = (y ** 2).sum()
    at_y, at_x = grad(z, [edge, leaf_edge], retain_graph=True)
    assert torch.equal(at_y, 2 * y.detach()) and torch.equal(at_x, 2 * at_y)
    assert torch.equal(grad(z, edge)[0], at_y)
    with pytest.raises(RuntimeError, match="does not require"):
        torch.autograd.graph.get_gradient_edge(torch.ones(1))
    with pytest.raises(RuntimeError, match="GradientEdge"):
        grad((x * 2).sum(), leaf_edge, materialize_grads=True)


def test_hooks_on_several_gradients():
    a, b, c = leaf(1), leaf(1), leaf(1)
    seen, first = [], []
    handle = torch.autograd.graph.register_multi_grad_hook([a, b, c], lambda grads: seen.append([g is not None for g in grads]))
    torch.autograd.graph.register_multi_grad_hook([a, b, c], lambda grad: first.append(grad.item()), mode="any")
    (a * 2 + b * 2).sum().backward()
    (a * b * c).sum().backward()
    assert seen == [[True, True, False], [True] * 3] and len(first) == 2
    broken = a.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (a * b).sum().backward()
    broken.remove()
    (a * b).sum().backward()
    assert seen[2:] == [[True, True, False]]
    handle.remove()
    (a * b * c).sum().backward()
    assert len(seen) == 3
    with pytest.raises(ValueError, match="mode"):
        torch.autograd.graph.register_multi_grad_hook([a], print, mode="some")


def test_what_has_no_gradient_is_refused():
    a, x = leaf(2), torch.zeros(2, dtype=torch.float64)
    for call in (lambda: torch.mul(a, 2, out=x), lambda: torch.mul(x, 2, out=a), lambda: torch.max(a[None], 1, out=(x, x.long()))):
        with pytest.raises(RuntimeError, match="out="):
            call()
    with torch.no_grad():
        torch.mul(a, 2, out=x)
    assert torch.equal(x, a.detach() * 2) and torch.argmax(a, out=torch.tensor(0)).item() in (0, 1)
    with pytest.raises(RuntimeError, match="real scalar"):
        (leaf(1).to(torch.complex128) * 1j).sum().backward()
    with pytest.raises(RuntimeError, match="own grad"):
        a.grad = a
    a.register_post_accumulate_grad_hook(lambda p: p)
    with pytest.raises(RuntimeError, match="return None"):
        a.sum().backward()


def test_gradients_of_inner_tensors():
    x = leaf(2)
    y = x * 2
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None
    y.retain_grad()
    y.sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad.tolist() == [1, 1] and x.grad.tolist() == [2, 2] and torch.ones(1).grad is None
    w, a = torch.tensor(.5, requires_grad=True), torch.tensor(1., requires_grad=True)
    first = grad(w * a, w, create_graph=True)
    second = grad(first, w, create_graph=True, materialize_grads=True)
    assert second[0].item() == 0 and grad(second, w, materialize_grads=True)[0].item() == 0
    with pytest.raises(ValueError, match="allow_unused"):
        grad(x.sum(), x, allow_unused=False, materialize_grads=True)


def test_versions_count_writes():
    x = leaf(2)
    y = x * 1
    z = y.exp()
    before = z._version
    torch.autograd.graph.increment_version(z)
    torch.autograd.graph.increment_version([z])
    assert z._version == before + 2
    with pytest.raises(RuntimeError, match="in place"):
        z.sum().backward()


def test_callbacks_at_the_end_of_backward():
    x = leaf(1)
    order, engine = [], torch.autograd.Variable._execution_engine
    x.register_post_accumulate_grad_hook(lambda p: engine.queue_callback(lambda: order.append(p.grad is not None)))
    (x * 2).sum().backward()
    assert order == [True]
    with pytest.raises(RuntimeError, match="no backward"):
        engine.queue_callback(print)


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


def test_gradcheck_of_strided_inputs_and_of_tangents():
    x = torch.randn(3, 2, dtype=torch.float64).t().requires_grad_()
    assert not x.is_contiguous() and gradcheck(lambda t: t.sin() * t, x)
    assert gradgradcheck(lambda t: t.sin() * t, x, check_fwd_over_rev=True)
    assert gradgradcheck(lambda t: t.sin(), x, check_fwd_over_rev=True, check_rev_over_rev=False)

    class Wrong(Function):
        @staticmethod
        def forward(ctx, t):
            ctx.save_for_backward(t)
            return t ** 2

        @staticmethod
        def backward(ctx, gradient):
            return 2 * ctx.saved_tensors[0].detach() * gradient
    for options in (dict(check_fwd_over_rev=True, check_rev_over_rev=False), {}):
        with pytest.raises(RuntimeError, match="mismatch"):
            gradgradcheck(Wrong.apply, x, **options)
    with pytest.raises(ValueError, match="share memory"):
        gradcheck(torch.sin, leaf(1).expand(3))


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


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_through_checkpoints_inside_a_checkpoint(order):
    from tensora.utils.checkpoint import checkpoint
    layer = torch.nn.Linear(3, 3, dtype=torch.float64)

    def found(run):
        x = torch.tensor([0.3, 0.5, 0.7], dtype=torch.float64, requires_grad=True)

        def inner(t):
            return layer(t).tanh() * t

        def outer(t):
            h = t.sin()  # the second one captures what the outer body computed
            return run(inner, h) * run(lambda u: run(lambda v: (v * h).exp(), u * u), t)
        value, results = run(outer, x).sum(), []
        for last in range(1, order + 1):
            gradients = torch.autograd.grad(value, (x, *layer.parameters()), create_graph=last < order)
            results += gradients
            value = sum(g.square().sum() for g in gradients)
        return results
    for a, b in zip(found(checkpoint), found(lambda function, *args: function(*args)), strict=True):
        assert torch.allclose(a, b, 1e-9, 1e-9)


def test_checkpoints_of_functions_that_compute_gradients_through_checkpoints():
    from tensora.utils.checkpoint import checkpoint

    def c(function):
        return lambda x: checkpoint(function, x)

    def gradient(function):
        return lambda x: torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]

    def plain(x):
        return x.sin().exp().cos().sin()

    def parts(x):
        return c(lambda t: t.cos().sin())(c(lambda t: t.sin().exp())(x))
    x = torch.tensor([0.3, -0.5], dtype=torch.float64, requires_grad=True)
    expected = gradient(gradient(plain))(x)
    for function in (gradient(c(gradient(c(parts)))), gradient(gradient(c(parts))), gradient(c(gradient(parts))),
                     c(gradient(c(gradient(c(parts)))))):
        assert torch.allclose(function(x), expected, 1e-12, 1e-12)
    third = gradient(gradient(gradient(plain)))(x)
    for function in (gradient(c(gradient(c(gradient(c(parts)))))), gradient(c(gradient(gradient(c(parts)))))):
        assert torch.allclose(function(x), third, 1e-12, 1e-12)
