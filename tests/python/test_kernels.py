"""Kernels that are written in Python."""
import pytest

import tensora
from tensora import kernels as tk


@tk.kernel
def softmax_rows(x, y):
    row = tk.program(x.shape[0])
    v = tk.load(x[row, :]).float()
    e = tk.exp(v - tk.max(v))
    tk.store(y[row, :], e / tk.sum(e))


@tk.kernel
def rms_norm_int8(x, w, q, scale, eps):
    row = tk.program(x.shape[0])
    v = tk.load(x[row, :]).float()
    n = v * tk.rsqrt(tk.mean(v * v) + eps) * tk.load(w[:]).float()
    s = tk.max(tk.abs(n)) / 127
    tk.store(q[row, :], tk.round(n / s))
    tk.store(scale[row], s)


@tk.kernel
def matmul_blocks(a, b, c):
    m, n = tk.tunable("M", [16, 32]), tk.tunable("N", [32])
    i, j = tk.program(tk.cdiv(c.shape[0], m)), tk.program(tk.cdiv(c.shape[1], n))
    acc = tk.zeros((m, n))
    for k in tk.tiles(0, a.shape[1], 16):
        acc += tk.dot(tk.load(a[tk.block(i, m), tk.start(k, 16)]), tk.load(b[tk.start(k, 16), tk.block(j, n)]))
    tk.store(c[tk.block(i, m), tk.block(j, n)], acc)


def test_softmax_and_rms_norm():
    x = tensora.randn(7, 33)
    y = tensora.empty(7, 33)
    softmax_rows(x, y)
    assert tensora.allclose(y, tensora.softmax(x, -1), atol=1e-6)
    q, scale = tensora.empty(7, 33, dtype=tensora.int8), tensora.empty(7)
    for eps in (1e-6, 0.5):
        rms_norm_int8(x, tensora.ones(33), q, scale, eps=eps)
        n = x * tensora.rsqrt((x * x).mean(-1, keepdim=True) + eps)
        expected = n.abs().amax(-1) / 127
        assert tensora.allclose(scale, expected, rtol=1e-5)
        assert (q.float() - (n / expected[:, None]).round()).abs().max() <= 1


def test_matmul_with_tunables():
    a, b = tensora.randn(50, 37), tensora.randn(37, 70)
    for _ in range(6):
        c = tensora.empty(50, 70)
        matmul_blocks(a, b, c)
        assert tensora.allclose(c, a @ b, atol=1e-4)
    assert "dot" in matmul_blocks.describe(a, b, c)


def test_other_statements():
    @tk.kernel
    def masked(x, y, total, seed):
        i = tk.program(tk.cdiv(x.shape[0], 8))
        here = x[tk.block(i, 8), :]
        v = tk.load(here)
        below = tk.positions(v, 0) + i * 8 >= tk.positions(v)
        tk.store(y[tk.block(i, 8), :], tk.where(below, v, 0) + tk.uniform(here, seed))
        tk.atomic_add(total[0], tk.sum(tk.sum(tk.where(below, v, 0)), 0))

    x, y, total = tensora.randn(20, 20), tensora.empty(20, 20), tensora.zeros(1)
    masked(x, y, total, 5)
    noise = y - tensora.tril(x)
    assert noise.min() >= 0 and noise.max() < 1
    assert tensora.allclose(total[0], tensora.tril(x).sum(), atol=1e-4)


def test_mistakes():
    x, y = tensora.randn(4, 6), tensora.empty(4, 6)
    with pytest.raises(RuntimeError, match="kernel softmax_rows: a row of 6 cannot be stored in argument 1"):
        softmax_rows(x, tensora.empty(4, 5))
    with pytest.raises(TypeError, match="kernel softmax_rows: y must be a tensor or a number, got str"):
        softmax_rows(x, "y")
    with pytest.raises(RuntimeError, match="requires grad"):
        softmax_rows(x.clone().requires_grad_(), y)

    @tk.kernel
    def sliced(a, b):
        tk.store(b[tk.program(4), :], tk.load(a[1:2, :]))

    with pytest.raises(TypeError, match="a slice of an array is ':'"):
        sliced(x, y)

    @tk.kernel
    def left(a, b):
        i = tk.program(1)
        for k in tk.tiles(0, 4, 1):
            v = tk.load(a[k, :])
            break
        tk.store(b[i, :], v)

    with pytest.raises(RuntimeError, match="a loop was left before its end"):
        left(x, y)

    @tk.kernel
    def failing(a, b):
        raise ValueError("from the body")

    with pytest.raises(ValueError, match="from the body"):
        failing(x, y)
    with pytest.raises(RuntimeError, match="cuda_kernel f: argument 0 must be on a CUDA device"):
        tk.cuda_kernel("", "f")(1, 32, x, 2.0)
