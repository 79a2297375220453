"""Sparse tensors against dense ones."""
import copy
import pickle

import pytest

import tensora
from tensora import sparse


def random_matrix(rows=5, columns=7, density=0.4, **options):
    dense = tensora.randn(rows, columns, **options)
    return dense * (tensora.rand(rows, columns) < density)


@pytest.mark.parametrize("layout", [tensora.sparse_coo, tensora.sparse_csr])
def test_products_sums_and_elements(layout):
    dense, other = random_matrix(), random_matrix()
    a, b = dense.to_sparse(layout=layout), other.to_sparse(layout=layout)
    right, vector = tensora.randn(7, 3), tensora.randn(7)
    assert a.layout is layout and tensora.equal(a.to_dense(), dense) and a.shape == dense.shape
    for got, expected in ((a @ right, dense @ right), (tensora.mm(a, right), dense @ right), (a.mv(vector), dense @ vector),
                          (tensora.spmm(a, right), dense @ right), (right.t() @ a.t(), right.t() @ dense.t()),
                          (sparse.addmm(tensora.ones(5, 3), a, right, beta=2.0, alpha=3.0), 2 + 3 * dense @ right)):
        assert tensora.allclose(got, expected, 1e-5, 1e-5)
    for got, expected in ((a + b, dense + other), (a - b, dense - other), (a * 2, dense * 2), (2 * a, dense * 2), (-a, -dense),
                          (a / 2, dense / 2), (a * b, dense * other), (a.t(), dense.t()), (tensora.relu(a), dense.relu()),
                          (a.abs().sqrt(), dense.abs().sqrt()), (a * right[:, :1].t(), dense * right[:, :1].t()),
                          (sparse.sum(a, 0), dense.sum(0)), (sparse.sum(a, 1), dense.sum(1)), (a.t() @ b, dense.t() @ other)):
        assert tensora.allclose(got.to_dense(), expected, 1e-5, 1e-5)
    assert tensora.allclose(a.sum(), dense.sum(), 1e-5, 1e-5)
    assert tensora.allclose(a + tensora.ones(5, 7), dense + 1) and a.double().dtype is tensora.float64


def test_coalescing_adds_entries_of_one_place():
    a = tensora.sparse_coo_tensor([[0, 0, 1], [2, 2, 0]], [1.0, 2.0, 5.0], (2, 3))
    assert not a.is_coalesced() and a._nnz() == 3
    b = a.coalesce()
    assert b.indices().tolist() == [[0, 1], [2, 0]] and b.values().tolist() == [3, 5] and b.is_coalesced()
    assert a.to_dense().tolist() == [[0, 0, 3], [5, 0, 0]]
    with pytest.raises(RuntimeError, match="uncoalesced"):
        a.values()
    c = b.to_sparse_csr()
    assert c.crow_indices().tolist() == [0, 1, 2] and c.col_indices().tolist() == [2, 0] and c.is_sparse_csr
    again = tensora.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 5.0], (2, 3))
    assert tensora.equal(again.to_dense(), b.to_dense())
    with_vectors = tensora.sparse_coo_tensor([[1, 1]], tensora.ones(2, 3), (4, 3))
    assert with_vectors.to_dense().sum().item() == 6 and with_vectors.dense_dim() == 1
    assert tensora.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0, 0, 0]] * 2


def test_gradients_reach_values_and_dense_operands():
    values = tensora.tensor([1.0, 2.0, 3.0], requires_grad=True)
    places = tensora.tensor([[0, 1, 1], [0, 0, 2]])
    right = tensora.randn(3, 2, requires_grad=True)
    dense = tensora.zeros(2, 3).index_put((places[0], places[1]), values)
    expected = tensora.autograd.grad((dense @ right).pow(2).sum(), [values, right])
    got = tensora.autograd.grad((tensora.sparse_coo_tensor(places, values, (2, 3)) @ right).pow(2).sum(), [values, right])
    assert all(tensora.allclose(a, b, 1e-5, 1e-5) for a, b in zip(expected, got))
    leaf = tensora.sparse_coo_tensor(places, [1.0, 2.0, 3.0], (2, 3), requires_grad=True)
    (leaf @ right).sum().backward()
    assert leaf.grad.is_sparse and tensora.allclose(leaf.grad.to_dense()[1, 2], right.sum(1)[2])


def test_softmax_and_sampled_products():
    dense = random_matrix(4, 4, 0.6)
    a = dense.to_sparse()
    masked = dense.masked_fill(dense == 0, float("-inf")).softmax(1).nan_to_num(0.0)
    assert tensora.allclose(sparse.softmax(a, 1).to_dense(), masked, 1e-5, 1e-6)
    assert tensora.allclose(sparse.log_softmax(a, 1).coalesce().values().exp(), sparse.softmax(a, 1).values(), 1e-5, 1e-6)
    left, right = tensora.randn(4, 3), tensora.randn(3, 4)
    got = sparse.sampled_addmm(a, left, right, beta=0.5)
    assert tensora.allclose(got.to_dense(), (0.5 * dense + left @ right) * (dense != 0), 1e-4, 1e-5)


def test_copies_and_refusals():
    a = random_matrix().to_sparse()
    for again in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a), a.clone()):
        assert tensora.equal(again.to_dense(), a.to_dense())
    with pytest.raises(NotImplementedError, match="cumsum: sparse tensors are not supported"):
        a.cumsum(0)
    with pytest.raises(NotImplementedError, match="to_dense"):
        a + 1
    for wrong in (lambda: tensora.sparse_coo_tensor([[5]], [1.0], (2,)), lambda: tensora.sparse_coo_tensor([[0, 1]], [1.0]),
                  lambda: tensora.sparse_coo_tensor([0], [1.0]), lambda: a @ tensora.ones(3, 3),
                  lambda: a + random_matrix(2, 2).to_sparse()):
        with pytest.raises(RuntimeError):
            wrong()
    with pytest.raises(AttributeError, match="sparse_coo and sparse_csr"):
        tensora.sparse_bsr_tensor
    assert "nnz=" in repr(a) and a.is_sparse and not tensora.ones(1).is_sparse


def test_in_place_ops_write():
    dense, other = random_matrix(), random_matrix()
    same = dense.clone()
    for change in (lambda x: x.mul_(3), lambda x: x.neg_(), lambda x: x.abs_(), lambda x: x.zero_(), lambda x: x.__imul__(2)):
        a = dense.to_sparse()
        assert change(a) is a and tensora.allclose(a.to_dense(), change(same.clone()))
    a = dense.to_sparse()
    assert tensora.equal(a.copy_(other.to_sparse()).to_dense(), other)
    a = dense.to_sparse()
    a.mul_(3)
    a += other.to_sparse()
    assert tensora.allclose(a.to_dense(), dense * 3 + other)
    for target in (lambda x, s: x.add_(s, alpha=-0.5), lambda x, s: x.sub_(s * 0.5)):
        x = tensora.ones(5, 7)
        assert target(x, dense.to_sparse()) is x and tensora.allclose(x, 1 - 0.5 * dense)
    x = again = tensora.ones(5, 7)
    x += dense.to_sparse()
    assert x is again and tensora.allclose(again, 1 + dense)
    leaf = dense.to_sparse().requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.mul_(2)
    with pytest.raises(RuntimeError, match="cannot be written"):
        dense.to_sparse().t_()


@pytest.mark.parametrize("coalesced", [True, False])
def test_entries_are_moved_selected_and_joined(coalesced):
    dense, other = random_matrix(), random_matrix()

    def made(x):
        a = x.to_sparse()
        if coalesced:
            return a
        return tensora.sparse_coo_tensor(tensora.cat([a.indices()] * 2, 1), tensora.cat([a.values() / 2] * 2), x.shape)
    a, b, rows = made(dense), made(other), tensora.tensor([3, 0, 3])
    for got, expected in ((tensora.cat([a, b]), tensora.cat([dense, other])), (tensora.cat([a, b], -1), tensora.cat([dense, other], 1)),
                          (tensora.stack([a, b], 1), tensora.stack([dense, other], 1)), (a[2], dense[2]), (a[:, -1], dense[:, -1]),
                          (a[4, 1], dense[4, 1]), (a.permute(1, 0), dense.t()), (a.unsqueeze(-1), dense.unsqueeze(-1)),
                          (a.unsqueeze(0), dense.unsqueeze(0)), (a.index_select(0, rows), dense[rows]),
                          (a.index_select(1, rows), dense[:, rows]), (a.narrow_copy(1, 2, 3), dense[:, 2:5]),
                          (tensora.zeros_like(a), dense * 0), (a.norm(), dense.norm()),
                          (sparse.softmax(a, 0).coalesce(), dense.masked_fill(dense == 0, -float("inf")).softmax(0).nan_to_num(0.0))):
        assert got.shape == expected.shape and tensora.allclose(got.to_dense(), expected, 1e-5, 1e-6)
    masked = other.sparse_mask(dense.to_sparse())
    assert tensora.allclose(masked.to_dense(), other * (dense != 0))
    assert tensora.allclose(b.coalesce().sparse_mask(dense.to_sparse()).to_dense(), other * (dense != 0))
    assert tensora.allclose(tensora.ones(5) @ a, dense.sum(0), 1e-5, 1e-6)
    with pytest.raises(IndexError):
        a[5]
    with pytest.raises(NotImplementedError, match="getitem"):
        a[1:3]


def test_gradient_of_entries_in_one_place_counts_once():
    a = tensora.sparse_coo_tensor([[0, 0, 1], [2, 2, 0]], [1.0, 2.0, 5.0], (2, 3)).requires_grad_()
    (a @ tensora.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert a.grad.to_dense().tolist() == [[0, 0, 100], [1, 0, 0]] and a.grad.is_coalesced()


def test_files(tmp_path):
    a = random_matrix().to_sparse()
    tensora.save({"a": a, "b": a.to_sparse_csr()}, tmp_path / "x.pt")
    again = tensora.load(tmp_path / "x.pt")
    assert tensora.equal(again["a"].to_dense(), a.to_dense()) and again["b"].is_sparse_csr


def test_matrices_far_larger_than_memory():
    side = 2**31
    a = tensora.sparse_coo_tensor([[5, 5, side - 1], [7, 7, 3]], [1.0, 2.0, 4.0], (side, side - 1))
    assert (a * a).values().tolist() == [9, 16] and (a + a).values().tolist() == [6, 8]
    square = a @ a.t()
    assert square.shape == (side, side) and square.values().tolist() == [9, 16]
    assert (a * tensora.tensor([2.0])).coalesce().values().tolist() == [6, 8]
    weight = tensora.tensor([2.0], requires_grad=True)
    (a * weight).sum().backward()
    assert weight.grad.tolist() == [7]


def test_sampled_products_count_an_entry_once():
    twice = tensora.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
    got = sparse.sampled_addmm(twice, tensora.ones(2, 3), tensora.ones(3, 2))
    assert got.to_dense().tolist() == [[0, 6], [0, 0]]


def test_rows_of_csr_may_be_unsorted_and_repeat():
    a = tensora.sparse_csr_tensor([0, 3, 3], [2, 0, 2], [1.0, 2.0, 3.0], (2, 3))
    assert a.to_dense().tolist() == [[2, 0, 4], [0, 0, 0]] and a.values().tolist() == [1, 2, 3]
    assert (a * a).to_dense().tolist() == [[4, 0, 16], [0, 0, 0]] and a.t().to_dense().tolist() == [[2, 0], [0, 0], [4, 0]]
    assert (a @ tensora.tensor([1.0, 10.0, 100.0])).tolist() == [402, 0]
    with pytest.raises(RuntimeError, match="sorted and distinct"):
        tensora.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 2), check_invariants=True)


@pytest.mark.parametrize("make, message", [
    (lambda: tensora.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (3,)), "found negative index -1 for dim 0"),
    (lambda: tensora.sparse_coo_tensor([[0, 3]], [1.0, 2.0], (3,)), "size is 3 but found index 3"),
    (lambda: tensora.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3, 3)), r"len\(size\) = 2, sparse_dim = 1"),
    (lambda: tensora.sparse_coo_tensor([[0, 1]], tensora.ones(2, 4), (3, 3)), r"expected \[2, 3\], got \[2, 4\]"),
    (lambda: tensora.sparse_coo_tensor([[1, 0]], [1.0, 2.0], (3,), is_coalesced=True), "is_coalesced to true"),
    (lambda: tensora.sparse_csr_tensor([0, 1, 2], [0, 5], [1.0, 2.0], (2, 3)), "0 <= col_indices < ncols"),
    (lambda: tensora.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 3)), r"-1\] == nnz"),
    (lambda: tensora.sparse_csr_tensor([1, 1, 2], [0, 1], [1.0, 2.0], (2, 3)), r"0\] == 0"),
    (lambda: tensora.sparse_csr_tensor([0, 1], [0], [1.0], (2, 3)), r"number of rows \+ 1 \(=3\), but got 2"),
    (lambda: tensora.sparse_csr_tensor([0, 1], [0, 1], [1.0], (1, 3)), r"must be equal to nnz \(=1\)"),
])
def test_parts_that_do_not_fit_are_refused(make, message):
    with pytest.raises(RuntimeError, match=message):
        make()


def test_products_of_half_types_are_summed_in_float32():
    a = tensora.ones(2, 3000).half().to_sparse_csr()
    assert (a @ tensora.ones(3000, 1).half()).flatten().tolist() == [3000, 3000]


# ---- sparse gradients ----------------------------------------------------------------------------------

PLACES = tensora.tensor([[4, 0, 4], [2, 4, 0]])


def lookup(sparse, weight=None, padding_idx=None):
    """A table of which some rows are used, after backward."""
    tensora.manual_seed(3)
    table = tensora.nn.Embedding(6, 2, padding_idx=padding_idx, sparse=sparse, _weight=weight)
    loss_of(table).backward()
    return table


def loss_of(table):
    rows = table(PLACES)
    return (rows * tensora.arange(12.0).reshape(2, 3, 2)).sum() + rows.square().sum()


def test_gradients_of_embeddings_are_sparse():
    grad, expected = lookup(True).weight.grad, lookup(False).weight.grad
    assert grad.is_sparse and grad.layout is tensora.sparse_coo and isinstance(grad, tensora.Tensor)
    assert grad.shape == (6, 2) and grad.device.type == "cpu" and not grad.is_coalesced() and grad._nnz() == 6
    assert grad.coalesce().indices().tolist() == [[0, 2, 4]]
    assert tensora.allclose(grad.to_dense(), expected)
    assert lookup(True, padding_idx=4).weight.grad._nnz() == 3
    assert tensora.allclose(lookup(True, padding_idx=4).weight.grad.to_dense(), lookup(False, padding_idx=4).weight.grad)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_of_bags_are_sparse(mode):
    found = []
    for sparse_ in (False, True):
        tensora.manual_seed(3)
        bags = tensora.nn.EmbeddingBag(6, 2, mode=mode, sparse=sparse_, padding_idx=2)
        (bags(PLACES.flatten(), tensora.tensor([0, 1, 4])) * tensora.arange(6.0).reshape(3, 2)).sum().backward()
        found.append(bags.weight.grad)
    assert found[1].is_sparse and tensora.allclose(found[1].to_dense(), found[0])
    with pytest.raises(ValueError, match="max"):
        tensora.nn.EmbeddingBag(6, 2, mode="max", sparse=True)(PLACES)


def test_sparse_gradients_add():
    table = lookup(True)
    first = table.weight.grad
    loss_of(table).backward()
    assert table.weight.grad.is_sparse and table.weight.grad._nnz() == 12 and first._nnz() == 6
    expected = lookup(False).weight.grad
    assert tensora.allclose(table.weight.grad.to_dense(), 2 * expected)
    table.weight.sum().backward()
    assert not table.weight.grad.is_sparse and tensora.allclose(table.weight.grad, 2 * expected + 1)
    assert tensora.autograd.grad(loss_of(table), table.weight)[0].is_sparse


def test_hooks_see_and_replace_sparse_gradients():
    table = tensora.nn.Embedding(6, 2, sparse=True)
    seen = []
    table.weight.register_hook(lambda grad: seen.append(grad.is_sparse) or grad * 2)
    table.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad._nnz()))
    table(PLACES).sum().backward()
    assert seen == [True, 6]
    assert table.weight.grad.to_dense().sum() == 24


def steps(make, sparse_, count=4):
    table = lookup(sparse_)
    optimizer = make(table.parameters())
    for _ in range(count):
        optimizer.step()
        optimizer.zero_grad()
        loss_of(table).backward()
    return table.weight.detach()


@pytest.mark.parametrize("make", [
    lambda p: tensora.optim.SGD(p, 0.1), lambda p: tensora.optim.SGD(p, 0.1, maximize=True),
    lambda p: tensora.optim.SGD(p, 0.1, momentum=0.9), lambda p: tensora.optim.Adagrad(p, 0.1),
    lambda p: tensora.optim.Adagrad(p, 0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5),
    lambda p: tensora.optim.SparseAdam(p, 0.1), lambda p: tensora.optim.SparseAdam(p, 0.1, maximize=True)])
def test_optimizers_step_sparse_gradients(make):
    assert tensora.allclose(steps(make, True), steps(make, False), 1e-6, 1e-6)


def test_other_optimizers_refuse_sparse_gradients():
    for kind in (tensora.optim.Adam, tensora.optim.AdamW, tensora.optim.RMSprop, tensora.optim.Adadelta):
        table = lookup(True)
        with pytest.raises(RuntimeError, match="does not support sparse gradients"):
            kind(table.parameters()).step()


def test_sparse_adam_of_single_elements():
    tables = []
    for sparse_ in (True, False):
        weight = tensora.nn.Parameter(tensora.ones(3, 4))
        optimizer = tensora.optim.SparseAdam([weight], lr=0.1)
        for at in ([[0, 2], [1, 3]], [[0, 1], [1, 0]]):
            grad = tensora.sparse_coo_tensor(at, [1.0, -2.0], (3, 4))
            if sparse_:
                weight.grad = grad
                optimizer.step()
        tables.append(weight.detach())
    changed = (tables[0] != 1).nonzero().tolist()
    assert changed == [[0, 1], [1, 0], [2, 3]]  # no other element of those rows


def test_clipping_and_scaling_sparse_gradients():
    dense, table = lookup(False), lookup(True)
    norms = [tensora.nn.utils.clip_grad_norm_(t.parameters(), 1.5) for t in (dense, table)]
    assert tensora.allclose(*norms) and table.weight.grad.is_sparse
    assert tensora.allclose(table.weight.grad.to_dense(), dense.weight.grad)
    for t in (dense, table):
        tensora.nn.utils.clip_grad_value_(t.parameters(), 0.2)
    assert tensora.allclose(table.weight.grad.to_dense(), dense.weight.grad)
    tensora.nn.utils.clip_grads_with_norm_(table.parameters(), 0.5, tensora.tensor(1.0))
    assert tensora.allclose(table.weight.grad.to_dense(), dense.weight.grad * 0.5, 1e-4)
    table.zero_grad(set_to_none=False)
    assert table.weight.grad.is_sparse and table.weight.grad._nnz() == 0
    results = []
    for sparse_ in (False, True):
        table = lookup(sparse_)
        table.zero_grad()
        scaler, optimizer = tensora.amp.GradScaler("cpu", init_scale=4.0), tensora.optim.SGD(table.parameters(), 0.1)
        scaler.scale(loss_of(table)).backward()
        scaler.step(optimizer)
        scaler.update()
        results.append(table.weight.detach())
    assert tensora.allclose(*results)


def test_a_function_may_return_a_sparse_gradient():
    class Lookup(tensora.autograd.Function):
        @staticmethod
        def forward(ctx, table):
            ctx.shape = table.shape
            return table[1]

        @staticmethod
        def backward(ctx, grad):
            return tensora.sparse_coo_tensor([[1]], grad.unsqueeze(0), ctx.shape)
    weight = tensora.ones(4, 2, requires_grad=True)
    (Lookup.apply(weight) * 3).sum().backward()
    assert weight.grad.is_sparse and weight.grad.to_dense().tolist() == [[0, 0], [3, 3], [0, 0], [0, 0]]
    doubled = weight * 2
    weight.grad = None
    Lookup.apply(doubled).sum().backward()  # what computes needs the dense form
    assert not weight.grad.is_sparse and weight.grad[1].tolist() == [2, 2]


def test_sparse_gradients_are_copied_and_moved():
    table = lookup(True)
    expected = table.weight.grad.to_dense()
    again = copy.deepcopy(table.weight.grad)
    assert tensora.equal(again.to_dense(), expected) and tensora.equal(pickle.loads(pickle.dumps(again)).to_dense(), expected)
    assert table.weight.grad.data.is_sparse and table.weight.grad.detach()._nnz() == 6
    assert tensora.equal(copy.deepcopy(table).weight.grad.to_dense(), expected)
    for read in (table.weight.grad.numpy, table.weight.grad.tolist, table.weight.grad.data_ptr):
        with pytest.raises(RuntimeError, match="to_dense"):
            read()
    with pytest.raises(RuntimeError, match="to_dense"):
        tensora.nn.Parameter(tensora.zeros(2)).data = table.weight.grad
    table.double()
    assert table.weight.grad.dtype is tensora.float64 and tensora.allclose(table.weight.grad.to_dense(), expected.double())
    table.weight.grad.mul_(2)
    assert tensora.allclose(table.weight.grad.to_dense(), 2 * expected.double())
    with pytest.raises(NotImplementedError, match="sparse"):
        tensora.sigmoid(table.weight.grad)


def test_assert_close_compares_entries():
    from tensora.testing import assert_close
    a = tensora.sparse_coo_tensor([[0, 0, 1], [2, 2, 0]], [1.0, 2.0, 5.0], (2, 3))
    assert_close(a, a.coalesce())
    assert_close(a, a.to_dense(), check_layout=False)
    assert_close(a.to_sparse_csr(), a.to_sparse_csr())
    for other, message in ((a * 2, "Sparse values"), (a.to_dense(), "layout"),
                           (tensora.sparse_coo_tensor([[0], [2]], [3.0], (2, 3)), "number of specified"),
                           (tensora.sparse_coo_tensor([[0, 1], [2, 1]], [3.0, 5.0], (2, 3)), "indices")):
        with pytest.raises(AssertionError, match=message):
            assert_close(a, other)


@pytest.mark.parametrize("dtype", [tensora.float16, tensora.bfloat16])
def test_entries_of_half_types_are_summed_in_float32(dtype):
    a = tensora.sparse_coo_tensor(tensora.zeros(1, 3001, dtype=tensora.int64), tensora.ones(3001, dtype=dtype), (1,))
    expected = tensora.tensor([3001.0]).to(dtype)
    assert tensora.equal(a.to_dense(), expected) and tensora.equal(a.coalesce().values(), expected)


def test_matrices_of_diagonals():
    diagonals = tensora.arange(1.0, 13.0).reshape(3, 4)
    made = sparse.spdiags(diagonals, tensora.tensor([0, -1, 2]), (3, 4))
    assert made.is_coalesced() and made.to_dense().tolist() == [[1, 0, 11, 0], [5, 2, 0, 12], [0, 6, 3, 0]]
    assert sparse.spdiags(diagonals, tensora.tensor([0, -1, 2]), (3, 4), tensora.sparse_csr).layout is tensora.sparse_csr
    for offsets, message in (([0, 1], "number of offsets"), ([0, 0, 1], "duplicate")):
        with pytest.raises(RuntimeError, match=message):
            sparse.spdiags(diagonals, tensora.tensor(offsets), (3, 4))
    with sparse.check_sparse_tensor_invariants():
        assert sparse.check_sparse_tensor_invariants.is_enabled()
