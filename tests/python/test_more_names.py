"""Functions and dtypes that complete PyTorch's names: special functions, decompositions, unsigned integers."""
import io
import math

import numpy as np
import pytest

import tensora
from tensora import nn
from tensora.nn import functional as F

special = tensora.special


def close(ours, expected, tolerance=1e-12):
    np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


def test_special_functions_have_scipys_values():
    x = tensora.tensor([0.5, 2.0], dtype=tensora.float64)
    close(special.i0(x), [1.0634833707413236, 2.2795853023360673])
    close(special.i1e(x), [0.15642080318487167, 0.21526928924893766])
    close(special.bessel_j0(x), [0.938469807240813, 0.22389077914123567])
    close(special.bessel_y1(x), [-1.4714723926702431, -0.10703243154093755])
    close(special.modified_bessel_k0(x), [0.9244190712276656, 0.11389387274953341])
    close(special.scaled_modified_bessel_k1(x), [2.7310097082117855, 1.0334768470686888])
    close(special.airy_ai(x), [0.2316936064808335, 0.0349241304232743])
    close(special.erfcx(x), [0.6156903441929259, 0.25539567631050575])
    close(special.log_ndtr(-20 * x), [-53.23128515051247, -804.6084420137538])
    close(special.ndtri(x / 4), [-1.1503493803760083, 0.0], 1e-15)
    close(special.zeta(x + 1, 0.5), [4.776537947554834, 8.414398322117158])
    close(special.gammainc(x, x), [0.6826894921370859, 0.5939941502901616])
    close(tensora.igammac(x, 3 * x), [0.08326451666355042, 0.01735126523666451])
    close(special.chebyshev_polynomial_u(x, 4), [-1.0, 209.0])
    close(special.hermite_polynomial_he(x, tensora.tensor([2.0, 3.0], dtype=tensora.float64)), [-0.75, 2.0])
    close(special.legendre_polynomial_p(0.5, tensora.tensor([2.0, 3.0], dtype=tensora.float64)), [-0.125, -0.4375])
    out = tensora.empty(2, dtype=tensora.float64)
    assert special.i0e(x, out=out) is out and out[0].item() == pytest.approx(0.6450352704491501)


def test_special_gradients():
    x = tensora.tensor([0.0, 0.7], dtype=tensora.float64, requires_grad=True)
    special.i1(x).sum().backward()
    assert x.grad[0].item() == 0.5
    assert not special.airy_ai(x).requires_grad and not special.chebyshev_polynomial_t(x, 3).requires_grad
    with pytest.raises(RuntimeError, match="the derivative for 'zeta' is not implemented"):
        special.zeta(x + 2, 1.0).sum().backward()


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_unsigned_integers(name):
    dtype, array = getattr(tensora, name), np.array([0, 1, 2 ** 16 - 1], dtype=name)
    ours = tensora.from_numpy(array.copy())
    assert ours.dtype is dtype and ours.tolist() == array.tolist() and ours.numpy().dtype == array.dtype
    assert tensora.from_dlpack(ours).dtype is dtype
    most = tensora.iinfo(dtype).max
    assert most == np.iinfo(name).max and tensora.iinfo(dtype).min == 0
    large = tensora.tensor([most, 3], dtype=dtype)
    assert large.tolist() == [most, 3] and large[0].item() == most and str(most) in repr(large)
    assert (large == large).tolist() == [True, True] and (large * 2).tolist() == [(most * 2) % (most + 1), 6]
    assert tensora.zeros(2, dtype=dtype).tolist() == [0, 0] and large.to(tensora.float64)[0].item() == float(most)
    assert large[tensora.tensor([1])].tolist() == [3] and tensora.cat([large, large]).shape == (4,)
    assert (large * 0.5).dtype is tensora.float32
    with pytest.raises(RuntimeError, match="add: not supported for " + name):
        large + large
    file = io.BytesIO()
    tensora.save({"x": large}, file)
    file.seek(0)
    assert tensora.load(file)["x"].tolist() == [most, 3]


def test_decompositions():
    A = tensora.tensor([[0.0, 1.0], [-1.0, 0.0]])
    values, vectors = tensora.linalg.eig(A)
    assert values.tolist() == [1j, -1j] and vectors.dtype is tensora.complex64
    S = tensora.tensor([[2.0, 1.0], [1.0, 3.0]])
    LD, pivots = tensora.linalg.ldl_factor(S)
    close(S @ tensora.linalg.ldl_solve(LD, pivots, tensora.ones(2, 1)), [[1.0], [1.0]], 1e-6)
    X = tensora.randn(5, 3)
    a, tau = tensora.geqrf(X)
    Q = tensora.linalg.householder_product(a, tau)
    close(Q @ a[:3].triu(), X.numpy(), 1e-5)
    close(tensora.ormqr(a, tau, X, transpose=True)[:3], a[:3].triu().numpy(), 1e-5)
    low = tensora.randn(20, 2) @ tensora.randn(2, 8)
    U, s, V = tensora.svd_lowrank(low, q=3)
    close(U * s @ V.mT, low.numpy(), 1e-4)
    U, s, V = tensora.pca_lowrank(low, q=2)
    close(U * s @ V.mT, (low - low.mean(0)).numpy(), 1e-4)
    LU, pivots = tensora.lu(S)
    assert LU.shape == (2, 2) and pivots.dtype is tensora.int32
    root = tensora.linalg.matrix_sqrth(S)
    close(root @ root, S.numpy(), 1e-5)


def test_fractional_max_pool():
    x = tensora.arange(36.0).reshape(1, 1, 6, 6)
    samples = tensora.tensor([[[0.3, 0.6]]])
    values, indices = F.fractional_max_pool2d(x, 2, output_size=3, return_indices=True, _random_samples=samples)
    assert values.tolist() == indices.float().tolist() and values[0, 0, -1, -1].item() == 35
    assert nn.FractionalMaxPool2d(2, output_ratio=0.5)(x).shape == (1, 1, 3, 3)
    assert nn.FractionalMaxPool3d(2, output_size=2)(tensora.rand(2, 4, 4, 4)).shape == (2, 2, 2, 2)
    with pytest.raises(ValueError, match="output_size or an output_ratio"):
        F.fractional_max_pool2d(x, 2)


def test_polar_and_out():
    A = tensora.randn(5, 3, dtype=tensora.float64)
    U, H = tensora.linalg.polar(A)
    close(U @ H, A.numpy(), 1e-12)
    close(U.mT @ U, np.eye(3), 1e-12)
    out = tensora.empty(0, dtype=tensora.float64)
    assert tensora.float_power(tensora.tensor([2, 3]), 2, out=out) is out and out.tolist() == [4, 9]
    assert tensora.special.ndtr(tensora.zeros(1, dtype=tensora.float64), out=out).tolist() == [0.5]
    places = tensora.empty(0, dtype=tensora.int64)
    assert tensora.nonzero(tensora.tensor([0, 5]), out=places).tolist() == [[1]]


def test_copies_of_views():
    x = tensora.arange(6.0).reshape(2, 3)
    for copy in (tensora.t_copy(x), tensora.permute_copy(x, (1, 0)), tensora.transpose_copy(x, 0, 1)):
        assert copy.tolist() == x.T.tolist() and copy.data_ptr() != x.data_ptr()
    assert [part.tolist() for part in tensora.split_with_sizes_copy(x, [1, 2], 1)] == [[[0], [3]], [[1, 2], [4, 5]]]
    out = tensora.empty(3, 2)
    assert tensora.view_copy(x, (3, 2), out=out) is out and out.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_linear_cross_entropy():
    x, w, b = tensora.randn(4, 3), tensora.randn(5, 3), tensora.randn(5)
    target = tensora.tensor([0, 4, 2, 1])
    ours = F.linear_cross_entropy(x, w, target, linear_bias=b)
    assert ours.item() == pytest.approx(F.cross_entropy(F.linear(x, w, b), target).item())
    with pytest.raises(NotImplementedError, match="options"):
        F.linear_cross_entropy(x, w, target, options=object())


def test_bytes_are_resized_as_images():
    x = tensora.tensor([[[[0, 100], [200, 255]]]], dtype=tensora.uint8)
    y = F.interpolate(x, (2, 3), mode="bilinear", align_corners=True)
    assert y.dtype is tensora.uint8 and y.tolist() == [[[[0, 50, 100], [200, 228, 255]]]]
    assert F.interpolate(x, (4, 4), mode="bicubic").max().item() == 255
    assert math.isclose(F.interpolate(x, (1, 1), mode="bilinear", antialias=True).item(), 139, abs_tol=1)


def test_other_forms():
    x = tensora.randn(2, 3, 4)
    result, mean, spread = tensora.native_layer_norm(x, (4,), None, None, 1e-5)
    close(result, F.layer_norm(x, (4,)).numpy(), 1e-6)
    assert mean.shape == spread.shape == (2, 3, 1)
    assert tensora.constant_pad_nd(x, (1, 0), 2)[0, 0, 0].item() == 2
    assert tensora.hash_tensor(tensora.tensor([1, 2, 4])).item() == 7


def test_sparse_adam_steps_the_rows_that_were_used():
    table = tensora.nn.Embedding(6, 3, sparse=True)
    table.weight.data.copy_(tensora.arange(18).reshape(6, 3) / 10)
    optimizer = tensora.optim.SparseAdam(table.parameters(), lr=0.1)
    for rows in ([0, 2, 2], [1, 2, 5], [0, 0, 3]):
        optimizer.zero_grad()
        (table(tensora.tensor(rows)) * tensora.arange(9.0).reshape(3, 3).cos()).square().sum().backward()
        optimizer.step()
    close(table.weight, [[0.0, -0.057522, 0.015845], [0.225586, 0.325586, 0.425586], [0.409062, 0.511417, 0.60254],  # PyTorch's
                         [0.836119, 0.936119, 1.036119], [1.2, 1.3, 1.4], [1.425586, 1.525586, 1.625587]], 2e-6)
    again = tensora.optim.SparseAdam(table.parameters())
    again.load_state_dict(optimizer.state_dict())
    assert again.state_dict()["state"][0]["step"] == 3
    with pytest.raises(ValueError, match="epsilon"):
        tensora.optim.SparseAdam(table.parameters(), eps=0.0)


def test_typed_tensors_of_a_size():
    for size in (tensora.Size([2, 3]), tensora.Size([4]), tensora.Size([])):
        for made in (tensora.FloatTensor(size), tensora.ones(1).new(size)):
            assert made.shape == size and made.dtype is tensora.float32
        assert tensora.LongTensor(size).shape == size and tensora.LongTensor(size).dtype is tensora.int64
    assert tensora.LongTensor((2, 3)).tolist() == tensora.LongTensor([2, 3]).tolist() == [2, 3]  # numbers, not sizes


def test_numbers_are_copied_like_tensors():
    x = tensora.zeros(2, 3)
    assert x.copy_(2).tolist() == [[2] * 3] * 2 and x.copy_(float("inf"))[0, 0] == math.inf and x.copy_(True).sum() == 6
    assert tensora.zeros(2, dtype=tensora.complex64).copy_(1j).tolist() == [1j, 1j]


def test_elements_are_mapped_one_by_one():
    x = tensora.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.map_(tensora.tensor([10.0, 20.0]), lambda a, b: a * b) is x and x.tolist() == [[10, 40], [30, 80]]
    assert x.map2_(x, tensora.ones(2), lambda a, b, c: a - b + c).tolist() == [[1, 1], [1, 1]]


def test_is_set_to_compares_views():
    x = tensora.zeros(4)
    assert x.is_set_to(x.view(4)) and not x.is_set_to(x.view(2, 2)) and not x.is_set_to(tensora.zeros(4))
    assert not tensora.empty(0).is_set_to(tensora.empty(0))


def test_scatter_adds_complex_numbers():
    x = tensora.zeros(2, dtype=tensora.complex64)
    assert x.scatter(0, tensora.tensor([0, 0]), tensora.tensor([1j, 2]), reduce="add").tolist() == [2 + 1j, 0]


def test_from_file_shares_or_copies(tmp_path):
    path = tmp_path / "numbers"
    shared = tensora.from_file(path, True, 3, dtype=tensora.float64)
    shared.fill_(2.0)
    own = tensora.from_file(path, False, 3, dtype=tensora.float64)
    own[0] = 5
    assert own.tolist() == [5, 2, 2] and tensora.from_file(path, size=3, dtype=tensora.float64).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="24 bytes"):
        tensora.from_file(path, size=4, dtype=tensora.float64)


def test_scalers_have_the_names_that_libraries_read():
    scaler = tensora.amp.GradScaler("cpu", init_scale=8.0)
    assert scaler._enabled and scaler._scale == 8
    assert tensora.utils.deterministic.fill_uninitialized_memory is False
