"""Arguments of an unusual dtype or shape: what PyTorch 2.15 does with them, found by random calls (tools/fuzz)."""
import math

import pytest

import tensora as torch
from tensora import distributions
from tensora.nn import functional as F

REAL = [torch.int64, torch.uint8, torch.float32, torch.bfloat16]
WRITES = {
    "fill_": lambda x, value: x.fill_(value),
    "full": lambda x, value: torch.full((2,), value, dtype=x.dtype),
    "full_like": torch.full_like,
    "new_full": lambda x, value: x.new_full((2,), value),
    "masked_fill": lambda x, value: x.masked_fill(torch.tensor([True, True]), value),
    "masked_fill_": lambda x, value: x.masked_fill_(torch.tensor([True, True]), value),
    "masked_fill with a tensor": lambda x, value: x.masked_fill(torch.tensor([True, True]), torch.tensor(value)),
    "scatter": lambda x, value: x.scatter(0, torch.tensor([0, 1]), value),
    "item": lambda x, value: [x.__setitem__(0, value), x.__setitem__(1, value), x][-1],
    "slice": lambda x, value: [x.__setitem__(slice(None), value), x][-1],
    "mask": lambda x, value: [x.__setitem__(torch.tensor([True, True]), value), x][-1],
}


@pytest.mark.parametrize("write", WRITES)
def test_complex_numbers_as_other_dtypes(write):
    run = WRITES[write]
    assert run(torch.zeros(2, dtype=torch.bool), 2j).tolist() == [True, True]
    assert run(torch.ones(2, dtype=torch.bool), 0j).tolist() == [False, False]
    assert run(torch.zeros(2, dtype=torch.complex64), 2j).tolist() == [2j, 2j]
    for dtype in REAL:
        assert run(torch.zeros(2, dtype=dtype), 3 + 0j).tolist() == [3, 3]
        with pytest.raises(RuntimeError, match="complex"):
            run(torch.zeros(2, dtype=dtype), 3 + 1j)


def test_complex_tensors_as_other_dtypes():
    z = torch.tensor([2j, 0, 3 + 1j])
    assert z.bool().tolist() == [True, False, True] and z.logical_not().tolist() == [False, True, False]
    assert torch.zeros(3, dtype=torch.bool).copy_(z).tolist() == [True, False, True]
    assert bool(z[0]) and not bool(z[1])
    assert int(z[1]) == 0 and float(torch.tensor(2 + 0j)) == 2.0
    for convert in (int, float):
        with pytest.raises(RuntimeError, match="imaginary part of 1"):
            convert(z[2])


@pytest.mark.parametrize("dtype", [torch.bool, *REAL])
def test_complex_numbers_that_are_refused(dtype):
    x, index = torch.zeros(3, dtype=dtype), torch.tensor([0])
    for value in (2j, torch.tensor(2j)):
        with pytest.raises(RuntimeError, match="complex number cannot be stored"):
            x.index_fill(0, index, value)
    if dtype is not torch.bool:
        with pytest.raises(RuntimeError, match="complex number cannot be stored"):
            F.pad(x, (1, 1), value=2j)


SELVES = [(2,), (2, 3), (2, 1), (1, 1, 3), (0,), (1, 0)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128, torch.int64])
@pytest.mark.parametrize("shape", SELVES)
def test_products_widen_no_result(dtype, shape):
    x = torch.zeros(shape, dtype=dtype)

    def ones(*sizes):
        return torch.ones(sizes, dtype=dtype)
    with pytest.raises(RuntimeError, match="does not broadcast"):
        torch.addmm(x, ones(1, 2), ones(2, 3))
    with pytest.raises(RuntimeError, match="does not broadcast"):
        torch.addbmm(x, ones(4, 1, 2), ones(4, 2, 3))
    with pytest.raises(RuntimeError, match="does not broadcast"):
        torch.addr(x, ones(1), ones(3))
    with pytest.raises(RuntimeError, match="does not broadcast"):
        torch.addmv(x, ones(3, 2), ones(2))
    if shape != (1, 1, 3):
        with pytest.raises(RuntimeError, match="does not broadcast"):
            torch.baddbmm(x, ones(1, 1, 2), ones(1, 2, 3))
    assert torch.addmm(ones(1), ones(1, 2), ones(2, 3)).tolist() == [[3, 3, 3]]


def test_complex_products_take_one_dtype():
    product = torch.ones(2, 2, dtype=torch.complex64)
    for other in (torch.float32, torch.complex128):
        with pytest.raises(RuntimeError, match="one dtype"):
            torch.addmm(torch.ones(2, 2, dtype=other), product, product)


def test_biases_have_two_dims_at_most():
    x, weight = torch.ones(1, 2), torch.ones(3, 2)
    assert F.linear(x, weight, torch.ones(1, 3)).shape == (1, 3)
    with pytest.raises(RuntimeError, match="bias"):
        F.linear(x, weight, torch.ones(1, 1, 3))


@pytest.mark.parametrize("call", [
    lambda x, i, s: x.scatter_add(0, i, s), lambda x, i, s: x.scatter(0, i, s),
    lambda x, i, s: x.clone().scatter_add_(0, i, s), lambda x, i, s: x.clone().scatter_(0, i, s),
    lambda x, i, s: x.scatter_reduce(0, i, s, "sum"), lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
    lambda x, i, s: x.scatter(0, i, s, reduce="add")])
def test_sources_without_dims_are_vectors(call):
    one, line = torch.tensor(5.0), torch.tensor([5.0, 6.0])
    zero, first = torch.tensor(0), torch.tensor([0])
    vector = torch.zeros(2)
    assert call(vector, first, one).tolist() == [5, 0]
    assert call(vector, zero, one).tolist() == [5, 0]
    assert call(vector, zero, line).tolist() == [5, 0]
    assert call(torch.tensor(0.0), first, line).tolist() == 5
    with pytest.raises(RuntimeError):
        call(vector, torch.tensor([0, 1]), one)
    # Without elements an index may have any shape.
    none = torch.zeros(0, dtype=torch.int64)
    assert call(torch.zeros(2, 3), none, line).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_gradients_of_sources_without_dims():
    x, source = torch.zeros(2, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    x.scatter_add(0, torch.tensor([1]), source).backward(torch.tensor([3.0, 4.0]))
    assert source.grad.tolist() == 4 and x.grad.tolist() == [3, 4]


def test_slices_that_are_added_have_as_many_dims():
    none, one, zero = torch.zeros(()), torch.ones(1), torch.tensor(0)
    for x, source in ((none, one), (one, none)):
        with pytest.raises(RuntimeError, match="as many dimensions"):
            torch.index_add(x, 0, zero, source)
    assert torch.index_copy(none, 0, zero, one).tolist() == 1
    assert torch.index_select(none, 0, torch.tensor([0])).shape == ()
    for count in (0, 3):
        with pytest.raises(RuntimeError, match="selects one element"):
            torch.index_select(none, 0, torch.zeros(count, dtype=torch.int64))


def test_index_put_drops_no_dims():
    x = torch.zeros(4, 2, 1)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x.index_put_((torch.tensor(0),), torch.ones(1, 2, 1))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x.index_put((torch.tensor([0]),), torch.ones(1, 1, 2, 1))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x.index_put((torch.ones(4, 2, dtype=torch.bool),), torch.ones(1, 8, 1))
    assert x.index_put((torch.ones(4, 2, dtype=torch.bool),), torch.ones(1, 1, 1)).sum() == 8
    for index in (0, None, slice(None), [0, 1]):
        with pytest.raises(TypeError):
            x.index_put((index,), torch.tensor(1.0))
    x[0] = torch.ones(1, 2, 1)  # an assignment does
    assert x.sum() == 2
    assert x.index_put((torch.ones(4, 2, dtype=torch.bool),), torch.ones(8, 1)).sum() == 8


def test_one_window_of_any_dims():
    x = torch.arange(6.0).reshape(1, 2, 3)
    assert F.adaptive_avg_pool3d(x, 1).tolist() == [[[2.5]]]
    assert F.adaptive_avg_pool2d(x[0], 1).tolist() == [[2.5]]
    assert F.adaptive_avg_pool2d(x[None, None, None], 1).shape == (1, 1, 1, 1, 1, 1)
    assert F.adaptive_avg_pool2d(torch.ones(2, 2, 0, 3), 1).isnan().all()
    assert F.adaptive_avg_pool1d(torch.ones(3, 0), 1).isnan().tolist() == [[True]] * 3
    for pool, low in ((F.adaptive_avg_pool3d, x[0]), (F.adaptive_avg_pool2d, x[0, 0]), (F.adaptive_avg_pool1d, x[0, 0])):
        with pytest.raises((RuntimeError, IndexError)):
            pool(low, 1)
    with pytest.raises(RuntimeError):
        F.adaptive_avg_pool3d(x, 2)
    with pytest.raises(ValueError):
        F.adaptive_avg_pool3d(x, (1, 1, 1))


def test_fractional_pools_at_their_limits():
    assert F.fractional_max_pool2d(torch.ones(0, 2, 3, 3), 2, output_size=1).shape == (0, 2, 1, 1)
    assert F.fractional_max_pool2d(torch.ones(2, 2, 2, 2), 2, output_size=1).shape == (2, 2, 1, 1)
    with pytest.raises(RuntimeError, match="too large"):
        F.fractional_max_pool2d(torch.ones(2, 2, 2, 2), 2, output_size=2)


def test_distributions_at_their_limits():
    normal = distributions.Normal(torch.zeros(3), torch.ones(3))
    assert distributions.Independent(normal, 1).reinterpreted_batch_ndims == 1
    with pytest.raises(ValueError, match="reinterpreted_batch_ndims"):
        distributions.Independent(normal, 2)
    heavy = distributions.GeneralizedPareto(0.0, 1.0, torch.tensor([0.25, 0.75, 1.5]))
    assert [math.isnan(v) for v in heavy.mean.tolist()] == [False, False, True]
    assert [math.isnan(v) for v in heavy.variance.tolist()] == [False, True, True]


@pytest.mark.parametrize("shape", [(2, 0, 3, 4), (2, 2, 0, 4)])
def test_attention_without_queries_has_zero_gradients(shape):
    query, mask = torch.zeros(shape, requires_grad=True), torch.zeros(shape[2], 8, requires_grad=True)
    key, value = torch.ones(2, 2, 8, 4, requires_grad=True), torch.ones(2, 2, 8, 3, requires_grad=True)
    F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True).sum().backward()
    for tensor in (query, key, value, mask):
        assert tensor.grad.shape == tensor.shape and not tensor.grad.any()


def test_norms_of_empty_matrices():
    for order, shape in ((2, (0, 3)), (2, (3, 0)), (1, (3, 0)), (math.inf, (0, 3)), (1, (0, 3)), ("nuc", (0, 3))):
        x = torch.zeros(shape, requires_grad=True)
        assert torch.linalg.norm(x, order).item() == 0
        assert torch.linalg.matrix_norm(x.expand(2, *shape), order, keepdim=True).tolist() == [[[0]], [[0]]]
    for order, shape in ((-2, (0, 3)), (-1, (3, 0)), (-math.inf, (0, 3))):
        with pytest.raises((RuntimeError, IndexError)):
            torch.linalg.matrix_norm(torch.zeros(shape), order)


def test_cumulative_trapezoid_of_nothing():
    for shape, dim in (((0, 4), 0), ((0,), 0), ((4, 0), 1)):
        x = torch.zeros(shape)
        for result in (torch.cumulative_trapezoid(x, dim=dim), torch.cumulative_trapezoid(x, dx=2.0, dim=dim),
                       torch.cumulative_trapezoid(x, x, dim=dim)):
            assert result.shape == shape


@pytest.mark.parametrize("dtype, bound", [(torch.float16, 7e4), (torch.bfloat16, 1e39), (torch.float32, 1e39)])
def test_softshrink_within_the_dtype(dtype, bound):
    with pytest.raises(RuntimeError):
        F.softshrink(torch.ones(2, dtype=dtype), bound)
    assert F.softshrink(torch.ones(2, dtype=dtype), 6e4).tolist() == [0, 0]


def test_dtypes_of_poisson_losses():
    for given, target, expected in ((torch.uint8, torch.float16, torch.float32), (torch.int64, torch.bfloat16, torch.float32),
                                    (torch.float16, torch.int64, torch.float16), (torch.uint8, torch.float64, torch.float64),
                                    (torch.float16, torch.float16, torch.float16)):
        for full in (True, False):
            loss = F.poisson_nll_loss(torch.ones(2, 3, dtype=given), torch.full((2, 3), 3, dtype=target), full=full)
            assert loss.dtype is expected


def test_layers_of_one_output():
    x, weight = torch.ones(1, 2, 3), torch.ones(3)
    assert F.linear(x, weight, torch.ones(2)).tolist() == [[4, 4]]
    assert F.linear(weight, weight, torch.tensor(1.0)).tolist() == 4
    with pytest.raises(RuntimeError):
        F.linear(x, weight, torch.ones(3))


def test_triangular_solve_returns_all_matrices():
    solution, matrices = torch.triangular_solve(torch.ones(2, 3, 2), torch.eye(3))
    assert solution.shape == (2, 3, 2) and matrices.shape == (2, 3, 3)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area", "bicubic", "nearest-exact"])
def test_interpolate_takes_a_size_per_dim(mode):
    for size in ((4,), (4, 4, 4)):
        with pytest.raises(ValueError, match="spatial dimensions"):
            F.interpolate(torch.ones(1, 1, 2, 2), size=size, mode=mode)
        with pytest.raises(ValueError, match="spatial dimensions"):
            F.interpolate(torch.ones(1, 1, 2, 2), scale_factor=tuple(map(float, size)), mode=mode)


def test_results_are_written_to_elements_of_their_own():
    out = torch.zeros(1).expand(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(torch.ones(3), torch.arange(3.0), out=out)
    assert torch.add(torch.ones(1), 1, out=torch.zeros(1).expand(1)).tolist() == [2]


def test_dims_that_are_named_twice():
    with pytest.raises(RuntimeError, match="multiple times"):
        torch.gradient(torch.ones(3, 3), dim=(1, -1))
    for layout in ([0, 1], [3], [0, 0]):
        with pytest.raises(RuntimeError, match="physical_layout"):
            torch.empty_permuted([2] * (1 + (layout == [0, 0])), layout)


def test_windows_of_integers():
    x, window = torch.arange(32.0), torch.tensor([1, 2, 5, 3, 1, 4, 2, 4], dtype=torch.uint8)
    for length in (8, 6):
        given = window[:length]
        spectrum = torch.stft(x, 8, 2, length, given, return_complex=True)
        back = torch.istft(spectrum, 8, 2, length, given, length=32)
        assert torch.allclose(back, x, atol=1e-3)
        assert torch.equal(back, torch.istft(spectrum, 8, 2, length, given.float(), length=32))
