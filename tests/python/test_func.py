"""tensora.func: vmap against loops, gradients and Jacobians against formulas."""
import pytest

import tensora
from tensora import func, nn, vmap
from tensora.nn import functional as F

X, Y = None, None


@pytest.fixture(autouse=True)
def operands():
    global X, Y
    X, Y = tensora.randn(3, 4, 5), tensora.randn(3, 4, 5)


def by_loop(function, *args, in_dims=0):
    dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
    size = next(a.shape[d] for a, d in zip(args, dims) if d is not None)
    results = [function(*(a if d is None else a.select(d, i) for a, d in zip(args, dims))) for i in range(size)]
    if isinstance(results[0], tuple):
        return tuple(tensora.stack(list(column)) for column in zip(*results))
    return tensora.stack(results)


def check(function, *args, in_dims=0):
    expected, got = by_loop(function, *args, in_dims=in_dims), vmap(function, in_dims)(*args)
    for a, b in zip(expected, got) if isinstance(expected, tuple) else [(expected, got)]:
        assert a.dtype is b.dtype and a.shape == b.shape
        assert tensora.allclose(a.double(), b.double(), 1e-4, 1e-5, True), (a, b)


UNARY = [lambda x: x.exp() + 1, lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.mean(-1, keepdim=True), lambda x: x.T @ x,
         lambda x: x.t(), lambda x: x.permute(1, 0), lambda x: x.reshape(-1), lambda x: x.view(2, 10), lambda x: x.flatten(),
         lambda x: x.unsqueeze(0), lambda x: x.unsqueeze(-1), lambda x: F.softmax(x, dim=0), lambda x: x.max(0),
         lambda x: x.max(), lambda x: x.argmax(-1), lambda x: x.sort(1), lambda x: x.cumsum(0), lambda x: x.std(),
         lambda x: x.var(0), lambda x: x.norm(), lambda x: x[1], lambda x: x[:, 1:3], lambda x: x[..., None],
         lambda x: x[tensora.tensor([0, 2])], lambda x: tensora.cat([x, tensora.zeros(2, 5)]),
         lambda x: tensora.stack([x, x], 1), lambda x: x.expand(2, 4, 5), lambda x: x.repeat(1, 2), lambda x: x.tril(),
         lambda x: tensora.linalg.svdvals(x), lambda x: x.topk(2, 1)[0], lambda x: x.clamp(-1, 1), lambda x: x.float().long(),
         lambda x: F.layer_norm(x, (5,)), lambda x: x.transpose(0, -1), lambda x: tensora.einsum("ij->j", x),
         lambda x: F.pad(x, (1, 1)), lambda x: x.flip(0), lambda x: x.roll(1, 0), lambda x: tensora.zeros_like(x) + x,
         lambda x: x.squeeze(), lambda x: x.any(0), lambda x: x.chunk(2, 0)[1], lambda x: x.logsumexp(1), lambda x: x.prod(1),
         lambda x: x.unbind(0)[2], lambda x: tensora.where(x > 0, x, 0.0), lambda x: F.gelu(x), lambda x: x.diagonal()]
BINARY = [lambda x, y: x + y, lambda x, y: x @ y.T, lambda x, y: x * y.sum(), lambda x, y: tensora.dot(x[0], y[0]),
          lambda x, y: x.mv(y[0]), lambda x, y: tensora.outer(x[0], y[1]), lambda x, y: F.linear(x, y),
          lambda x, y: tensora.maximum(x, y), lambda x, y: tensora.where(x > y, x, y), lambda x, y: F.mse_loss(x, y),
          lambda x, y: x.addmm(y, tensora.ones(5, 5)), lambda x, y: tensora.stack([x, y]), lambda x, y: (x > y) & (y > 0),
          lambda x, y: 2 - x / (y.abs() + 1), lambda x, y: x.masked_fill(y > 0, 0.0)]


@pytest.mark.parametrize("function", UNARY)
def test_vmap_of_one_argument(function):
    check(function, X)
    check(function, X.movedim(0, 1), in_dims=1)


@pytest.mark.parametrize("function", BINARY)
def test_vmap_of_two_arguments(function):
    check(function, X, Y)
    check(function, X, Y[0], in_dims=(0, None))
    check(function, X[1], Y, in_dims=(None, 0))


def test_vmap_promotes_as_elements_do():
    check(lambda x, s: x * s, X, tensora.arange(3, dtype=tensora.float64))
    check(lambda n, s: n + s, tensora.arange(12).reshape(3, 4), tensora.randn(3))


def test_vmap_indices_and_in_place():
    index = tensora.tensor([2, 0, 1])
    check(lambda x, i: x[i], X, index)
    check(lambda x, i: x[i], X[0], index, in_dims=(None, 0))
    check(lambda x, i, j: x[i, j], X[0], index, index, in_dims=(None, 0, 0))

    def writes(x):
        y = x.clone()
        y += 1
        y[0] = 0
        return y.mul_(2)
    check(writes, X)
    with pytest.raises(RuntimeError, match="not possible"):
        vmap(lambda x: tensora.zeros(5).add_(x[0]))(X)


def test_nested_vmaps():
    f = vmap(vmap(tensora.dot, (0, None)), (None, 0))
    a, b = tensora.randn(3, 5), tensora.randn(4, 5)
    assert tensora.allclose(f(a, b), b @ a.T, 1e-5, 1e-6)
    grid = vmap(vmap(lambda i, j: (i >= j) & (i - j < 2), (None, 0)), (0, None))(tensora.arange(4), tensora.arange(3))
    i, j = tensora.arange(4)[:, None], tensora.arange(3)[None]
    assert tensora.equal(grid, (i >= j) & (i - j < 2))


def test_vmap_dims_chunks_and_structures():
    def f(d, k):
        return {"a": d["x"] * k, "b": (d["x"].sum(), k + 0 * d["x"][0])}
    got = vmap(f, in_dims=({"x": 1}, None), out_dims={"a": 1, "b": 0})({"x": tensora.ones(2, 3)}, tensora.tensor(2.0))
    assert got["a"].shape == (2, 3) and got["b"][0].tolist() == [2, 2, 2]
    assert tensora.equal(vmap(lambda x: x * 2, chunk_size=2)(X), X * 2)
    assert vmap(lambda x: x.sum())(tensora.ones(0, 4)).shape == (0,)
    for wrong, message in ((lambda: vmap(lambda x: 3)(X), "must only return Tensors"),
                           (lambda: vmap(tensora.add)(X, Y[:2]), "same size"),
                           (lambda: vmap(tensora.sin, in_dims=7)(X), "dimensionality 3"),
                           (lambda: vmap(tensora.sin, in_dims=(0, 0))(X), "not compatible"),
                           (lambda: vmap(tensora.sin)(), "no inputs"), (lambda: vmap(tensora.sin)(3), "non-Tensor")):
        with pytest.raises(ValueError, match=message):
            wrong()
    with pytest.raises(RuntimeError, match="item"):
        vmap(lambda x: x.sum().item() * x)(X)


def test_vmap_randomness():
    with pytest.raises(RuntimeError, match="random operation"):
        vmap(lambda x: x + tensora.rand(5))(X)
    same = vmap(lambda x: tensora.rand(2) + 0 * x, randomness="same")(tensora.ones(3, 2))
    different = vmap(lambda x: tensora.rand(2) + 0 * x, randomness="different")(tensora.ones(3, 2))
    assert tensora.equal(same[0], same[1]) and not tensora.equal(different[0], different[1])


def test_gradients_per_sample():
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    data, target = tensora.randn(5, 4), tensora.tensor([0, 1, 2, 1, 0])

    def loss(p, x, t):
        return F.cross_entropy(func.functional_call(net, p, (x.unsqueeze(0),)), t.unsqueeze(0))
    found = vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, data, target)
    for i in range(5):
        one = func.grad(loss)(parameters, data[i], target[i])
        for name, value in one.items():
            assert tensora.allclose(found[name][i], value, 1e-4, 1e-6), name


def test_ensembles():
    models = [nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = func.stack_module_state(models)
    x = tensora.randn(5, 3)
    got = vmap(lambda p, b, v: func.functional_call(models[0], (p, b), (v,)), in_dims=(0, 0, None))(parameters, buffers, x)
    assert tensora.allclose(got, tensora.stack([m(x) for m in models]), 1e-5, 1e-6)


def test_jacobians():
    x = tensora.randn(4, dtype=tensora.float64)

    def f(v):
        return tensora.stack([v[0] * v[1], v.sin().sum(), v[2] ** 3])
    exact = tensora.stack([tensora.stack([x[1], x[0], x[2] * 0, x[3] * 0]), x.cos(),
                           tensora.stack([x[0] * 0, x[1] * 0, 3 * x[2] ** 2, x[3] * 0])])
    for jacobian in (func.jacrev, func.jacfwd):
        assert tensora.allclose(jacobian(f)(x), exact)
        a, b = jacobian(lambda p, q: p * q.sum(), argnums=(0, 1))(x, x[:2])
        assert a.shape == (4, 4) and b.shape == (4, 2) and tensora.allclose(b[:, 0], x)
        value, aux = jacobian(lambda v: (v ** 2, v.sum()), has_aux=True)(x)
        assert tensora.allclose(value, tensora.diag(2 * x)) and aux.shape == ()
    assert tensora.allclose(func.hessian(lambda v: (v ** 3).sum())(x), tensora.diag(6 * x))
    batched = vmap(func.jacrev(lambda v: v ** 2))(tensora.stack([x, 2 * x]))
    assert tensora.allclose(batched, tensora.stack([tensora.diag(2 * x), tensora.diag(4 * x)]))
    assert func.jacrev(lambda d: {"y": d["a"] * 2})({"a": x})["y"]["a"].shape == (4, 4)


def test_products_with_jacobians():
    x, v = tensora.randn(3, dtype=tensora.float64), tensora.randn(3, dtype=tensora.float64)
    value, tangent = func.jvp(lambda a: a.sin() * a, (x,), (v,))
    assert tensora.allclose(tangent, (x.cos() * x + x.sin()) * v) and tensora.allclose(value, x.sin() * x)
    value, product = func.vjp(lambda a: (a ** 2, a.exp()), x)
    assert tensora.allclose(product((v, v))[0], (2 * x + x.exp()) * v)
    value, product, aux = func.vjp(lambda a: (a ** 2, a.sum()), x, has_aux=True)
    assert tensora.allclose(product(v)[0], 2 * x * v) and not value.requires_grad
    rows = vmap(lambda u: func.vjp(lambda a: a ** 2, x)[1](u)[0])(tensora.eye(3, dtype=tensora.float64))
    assert tensora.allclose(rows, tensora.diag(2 * x))
    columns = vmap(lambda u: func.jvp(lambda a: a ** 3, (x,), (u,))[1])(tensora.eye(3, dtype=tensora.float64))
    assert tensora.allclose(columns, tensora.diag(3 * x ** 2))


def test_nested_gradients_and_graphs():
    third = func.grad(func.grad(func.grad(lambda x: x ** 4)))
    assert third(tensora.tensor(2.0)).item() == 48
    w = tensora.tensor(3.0, requires_grad=True)
    func.grad(lambda x: w * x ** 2)(tensora.tensor(2.0)).requires_grad
    inner = func.grad(lambda x: (x * w).sin())(w)
    inner.backward()
    assert w.grad is not None
    gradient, (value, aux) = func.grad_and_value(lambda x: (x.sum(), x * 2), has_aux=True)(tensora.ones(2))
    assert gradient.tolist() == [1, 1] and value.item() == 2 and aux.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="scalar"):
        func.grad(lambda x: x)(tensora.ones(2))
    with pytest.raises(RuntimeError, match="argnum=3"):
        func.grad(lambda x: x.sum(), argnums=3)(tensora.ones(2))


def test_functional_call_checks_names():
    layer = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="Missing"):
        func.functional_call(layer, {"weight": layer.weight}, (X[0, :, :2],), strict=True)
    with pytest.raises(AttributeError, match="nothing"):
        func.functional_call(layer, {"nothing.weight": layer.weight}, (X[0, :, :2],))
    with pytest.raises(TypeError, match="not an instance"):
        func.functional_call(layer, {"weight": 3}, (X[0, :, :2],))
    with pytest.raises(ValueError, match="multiple dictionaries"):
        func.functional_call(layer, ({"weight": layer.weight}, {"weight": layer.weight}), (X[0, :, :2],))


def test_functional_call_takes_attributes_and_gives_what_the_module_assigns():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", tensora.zeros(1))
            self.plain = tensora.ones(1)

        def forward(self, x):
            self.count = self.count + x
            return self.count + self.plain + self.extra
    module, given = Counts(), {"count": tensora.tensor([5.0]), "plain": tensora.tensor([10.0]), "extra": tensora.tensor([100.0])}
    assert func.functional_call(module, given, (tensora.ones(1),)).item() == 116
    assert given["count"].item() == 6 and module.count.item() == 0 and module.plain.item() == 1
    assert not hasattr(module, "extra")
    module.again = module  # a module that contains itself
    assert func.functional_call(module, given, (tensora.ones(1),), tie_weights=False).item() == 117


def test_vmap_of_calls_that_name_no_dims_or_several():
    x, indices = tensora.randn(4, 3, 5), tensora.tensor([2, 0, 1])
    for function in (lambda e: e.var(False), lambda e: tensora.std(e, True), lambda e: e.flip(0, 1), lambda e: e.flip((-1,)),
                     lambda e: tensora.renorm(e, 2, 0, 1.0), lambda e: e.index_put((indices,), tensora.tensor(7.0)),
                     lambda e: e.clone().index_put_((indices,), e.flip(0)), lambda e: e.topk(2).values,
                     lambda e: e.kthvalue(2).indices, lambda e: e.gather(1, tensora.tensor([[0, 4], [2, 2], [1, 0]])),
                     lambda e: tensora.linalg.lstsq(e.mT, e.mT[:, :1]).solution,
                     lambda e: e.contiguous(memory_format=tensora.contiguous_format), lambda e: sum(i * r for i, r in enumerate(e))):
        expected = tensora.stack([function(element) for element in x])
        got = tensora.vmap(function)(x)
        assert got.shape == expected.shape and tensora.allclose(got.to(expected.dtype), expected, 1e-4, 1e-5)
    with pytest.raises(NotImplementedError, match="t_ is not possible"):
        tensora.vmap(lambda e: e.clone().t_())(x)


def test_vmap_of_operators_by_name_and_of_values_of_their_own():
    for name in ("__radd__", "__rsub__", "__rmul__", "__rtruediv__", "__rpow__", "__rmod__", "__rfloordiv__"):
        check(lambda x, y: getattr(x.abs() + 1, name)(y.abs() + 1), X, Y)
        check(lambda x: getattr(x.abs() + 1, name)(2.0), X)
    check(lambda x, y: x.__rmatmul__(y.T), X, Y)
    check(lambda x, v: x.masked_fill(x > 0, v), X, tensora.randn(3))
    check(lambda x, v: tensora.masked_fill(x, x > 0, v), X[0], tensora.randn(3), in_dims=(None, 0))
    parts = tensora.stack([x.clone().as_strided((2, 3), (1, 2), 1) for x in X])  # from each element's own memory
    assert tensora.equal(vmap(lambda x: x.as_strided((2, 3), (1, 2), 1))(X), parts)


class Cube(tensora.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x.detach() ** 3 * scale, scale

    @staticmethod
    def backward(ctx, gradient, of_scale):
        x, = ctx.saved_tensors
        return 3 * x ** 2 * gradient * ctx.scale, None


class CubeOfAll(Cube):
    calls = []

    @staticmethod
    def vmap(info, in_dims, x, scale):
        CubeOfAll.calls.append((info.batch_size, in_dims))
        return Cube.apply(x.movedim(in_dims[0], 0), scale), (0, None)


@pytest.mark.parametrize("kind", [Cube, CubeOfAll])
def test_functions_of_programs_are_mapped(kind):
    x = tensora.randn(4, 3, dtype=tensora.float64)

    def doubled(row):
        result, scale = kind.apply(row, 2)
        assert scale == 2
        return result
    assert tensora.allclose(vmap(doubled)(x), 2 * x ** 3)
    of_rows = vmap(func.grad(lambda row: doubled(row).sum()))(x)
    assert tensora.allclose(of_rows, 6 * x ** 2)
    assert vmap(vmap(lambda v: kind.apply(v, 1)[0]))(x).shape == (4, 3)
    w = x.clone().requires_grad_()
    vmap(doubled)(w).sum().backward()
    assert tensora.allclose(w.grad, 6 * x ** 2)
    if kind is CubeOfAll:
        assert kind.calls[0] == (4, (0, None))
