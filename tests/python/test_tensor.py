"""Tensors: creation, indexing, operators, methods, protocols, errors."""
import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import tensora as torch


def test_tensor_of_numbers_and_lists():
    assert torch.tensor([[1, 2], [3, 4]]).dtype is torch.int64
    assert torch.tensor([1, 2.5]).dtype is torch.float32
    assert torch.tensor([True, False]).dtype is torch.bool
    assert torch.tensor([1j]).dtype is torch.complex64
    assert torch.tensor([]).shape == (0,)
    assert torch.tensor([[], []]).shape == (2, 0)
    assert torch.tensor(3).shape == ()
    assert torch.tensor([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]
    assert torch.tensor([np.ones(2), np.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert torch.tensor(np.arange(3, dtype=np.int16)).dtype is torch.int16


@pytest.mark.parametrize("data, error", [([[1, 2], [3]], ValueError), ([1, [2]], ValueError), ([[1], 2], ValueError),
                                         (["a"], TypeError), ({"a": 1}, TypeError), ("ab", TypeError)])
def test_bad_data_is_refused(data, error):
    with pytest.raises(error):
        torch.tensor(data)


def test_factories():
    assert torch.zeros(2, 3).shape == torch.zeros((2, 3)).shape == torch.zeros([2, 3]).shape == (2, 3)
    assert torch.full((2,), 7).tolist() == [7, 7]
    assert torch.full(size=(2,), fill_value=1.5).tolist() == [1.5, 1.5]
    assert torch.arange(0, 5, 2).tolist() == [0, 2, 4]
    assert torch.ones(2, dtype=torch.float64, requires_grad=True).requires_grad
    assert torch.ones(2, dtype=float).dtype is torch.float64
    assert torch.randint(0, 3, (4,), generator=torch.Generator().manual_seed(1)).tolist() == \
        torch.randint(0, 3, (4,), generator=torch.Generator().manual_seed(1)).tolist()
    assert torch.empty_like(torch.ones(2, 3)).shape == (2, 3)


def test_overloads():
    x = torch.arange(6.).reshape(2, 3)
    assert x.view(3, 2).shape == x.view((3, 2)).shape == (3, 2)
    assert x.view(torch.int32).dtype is torch.int32
    assert x.sum(0).tolist() == x.sum(dim=0).tolist() == x.sum(axis=0).tolist() == [3, 5, 7]
    assert x.sum(1, keepdim=True).shape == (2, 1)
    values, indices = x.max(dim=1)
    assert values.tolist() == x.max(1).values.tolist() == [2, 5] and indices.tolist() == [2, 2]
    assert x.max() == 5 and torch.max(x, torch.full_like(x, 3))[0].tolist() == [3, 3, 3]
    assert x.permute(1, 0).shape == x.permute((1, 0)).shape == (3, 2)
    assert torch.cat([x, x]).shape == (4, 3) and torch.cat((x, x), dim=1).shape == (2, 6)
    assert x.std(unbiased=False).item() == pytest.approx(np.arange(6).std())
    assert torch.clamp(x, max=2).max() == 2
    assert torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), stride=2).shape == (1, 1, 1, 1)
    assert [t.shape[0] for t in torch.arange(5).split(2)] == [2, 2, 1]
    assert [t.tolist() for t in torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")][0] == [[0, 0], [1, 1]]


def test_unravel_index():
    rows, columns = torch.unravel_index(torch.tensor([7, 200], dtype=torch.uint8), (100, 300))
    assert rows.tolist() == [0, 0] and columns.tolist() == [7, 200] and rows.dtype is torch.int64
    assert torch.unravel_index(torch.tensor([7]), 5)[0].tolist() == [2]
    with pytest.raises(TypeError, match="integer"):
        torch.unravel_index(torch.tensor([1.5]), (3,))


def test_out():
    out = torch.empty(0)
    assert torch.add(torch.ones(2), 1, out=out) is out and out.tolist() == [2, 2]
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.max(torch.tensor([[1., 3.]]), 1, out=(values, indices))
    assert values.tolist() == [3] and indices.tolist() == [1]


def test_indexing_matches_numpy():
    a = np.arange(60).reshape(3, 4, 5)
    x = torch.tensor(a)
    mask, rows = a[:, 0, 0] > 10, [0, 2]
    for index in (1, -1, (1, 2), slice(1, None), (slice(None), 1), (Ellipsis, 2), (None, 1), (1, None, 2), mask, rows,
                  (rows, slice(None), rows), (slice(None, None, 2), [[0], [1]]), a > 30, (slice(0, 0),)):
        theirs = a[index]
        ours = x[tuple(torch.tensor(i) if isinstance(i, np.ndarray) else i for i in index)
                 if isinstance(index, tuple) else (torch.tensor(index) if isinstance(index, np.ndarray) else index)]
        assert ours.tolist() == theirs.tolist(), index


def test_assignment_matches_numpy():
    a = np.zeros((4, 5), np.float32)
    x = torch.zeros(4, 5)
    for index, value in ((0, 1.), ((slice(1, 3), 2), 5.), ((Ellipsis, -1), [1., 2., 3., 4.]), ([0, 3], 9.)):
        a[index], x[index] = value, value
        assert x.tolist() == a.tolist()
    x[x > 4] = torch.tensor(-1.)
    a[a > 4] = -1
    assert x.tolist() == a.tolist()


@pytest.mark.parametrize("index, error", [(7, IndexError), ((0, 0, 0), IndexError), ("a", IndexError),
                                          (slice(None, None, -1), ValueError), (1.5, IndexError)])
def test_bad_indices(index, error):
    with pytest.raises(error):
        torch.ones(2, 3)[index]


def test_operators():
    x = torch.tensor([1., 2.])
    assert (x + 1).tolist() == (1 + x).tolist() == [2, 3]
    assert (3 - x).tolist() == [2, 1] and (2 / x).tolist() == [2, 1] and (2 ** x).tolist() == [2, 4]
    assert (x ** 2).tolist() == [1, 4] and (7 // torch.tensor([2])).tolist() == [3] and (x % 2).tolist() == [1, 0]
    assert (x @ x).item() == 5 and (-x).tolist() == [-1, -2] and abs(-x).tolist() == [1, 2]
    assert (x == torch.tensor([1., 0.])).tolist() == [True, False] and (x > 1).tolist() == [False, True]
    assert (~torch.tensor([True])).tolist() == [False]
    y = x
    y += 1
    assert y is x and x.tolist() == [2, 3]
    assert not (x == "a") and x != None  # noqa: E711
    with pytest.raises(TypeError):
        x + "a"


def test_conversions():
    assert float(torch.tensor(2.5)) == 2.5 and int(torch.tensor(2)) == 2 and [0, 1, 2][torch.tensor(1)] == 1
    assert bool(torch.tensor([1])) and len(torch.ones(3, 2)) == 3
    assert f"{torch.tensor(1.5):.2f}" == "1.50"
    assert 2 in torch.tensor([1, 2]) and 5 not in torch.tensor([1, 2])
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(torch.ones(2))
    with pytest.raises(TypeError):
        len(torch.tensor(1))
    assert [r.tolist() for r in torch.eye(2)] == [[1, 0], [0, 1]]
    assert torch.ones(2).to("cpu", torch.float64).dtype is torch.float64
    x = torch.ones(2)
    assert x.to(torch.float32) is x and x.float() is x and x.long().dtype is torch.int64


def test_numpy_shares_memory():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = torch.from_numpy(a)
    x.mul_(2)
    assert a[1, 2] == 10
    b = torch.from_numpy(a.T).numpy()
    b[0, 0] = -1
    assert a[0, 0] == -1 and b.shape == (3, 2)
    assert np.asarray(torch.ones(2)).dtype == np.float32
    assert (np.ones(2) + torch.ones(2).numpy()).tolist() == [2, 2]
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(a[::-1])
    with pytest.raises(TypeError):
        torch.from_numpy([1])
    with pytest.raises(TypeError):
        torch.from_numpy(np.array(["a"]))
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.ones(1, requires_grad=True).numpy()
    read_only = np.ones(2)
    read_only.flags.writeable = False
    with pytest.raises(RuntimeError):
        torch.from_numpy(read_only).add_(1)


def test_dlpack():
    a = np.arange(4.)
    x = torch.from_dlpack(a)
    x[0] = 9
    assert np.from_dlpack(torch.ones(3)).tolist() == [1, 1, 1]
    capsule = torch.ones(2).__dlpack__()
    torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="only once"):
        torch.from_dlpack(capsule)
    with pytest.raises(BufferError):
        torch.ones(1, requires_grad=True).__dlpack__()


def test_attributes_stay_with_the_tensor():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    x.note = "kept"
    assert y.grad_fn.next_functions
    kept = [torch.nn.Parameter(torch.ones(1))]
    kept[0].tag = 5
    optimizer = torch.optim.SGD(kept, lr=0.1)
    again = optimizer.param_groups[0]["params"][0]
    assert again is kept[0] and again.tag == 5
    grad_holder = torch.ones(2)
    grad_holder.extra = "here"
    x.grad = grad_holder
    del grad_holder
    gc.collect()
    assert x.grad.extra == "here"
    assert x.grad is x.grad


def test_cycles_are_collected():
    x = torch.ones(2)
    x.itself = x
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None


def test_pickle_and_copies():
    x = torch.arange(6.).reshape(2, 3).t().requires_grad_()
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert other.tolist() == x.tolist() and other.requires_grad and other.data_ptr() != x.data_ptr()
    p = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    assert isinstance(pickle.loads(pickle.dumps(p)), torch.nn.Parameter)
    for value in (torch.float32, torch.device("cpu"), torch.Size([1, 2]), torch.relu):
        assert pickle.loads(pickle.dumps(value)) == value


def test_small_types():
    assert str(torch.device("cuda:1")) == "cuda:1" and torch.device("cuda", 1).index == 1
    assert torch.device("cpu") == torch.device("cpu") and torch.device("cpu").index is None
    assert isinstance(torch.ones(2, 3).shape, tuple) and torch.ones(2, 3).shape.numel() == 6
    assert repr(torch.Size([2])) == "tensora.Size([2])" and torch.finfo(torch.float32).eps == 2 ** -23
    assert torch.iinfo(torch.int8).min == -128 and torch.float64.is_floating_point


@pytest.mark.parametrize("call, error", [
    (lambda: torch.ones(2).sum("a"), TypeError), (lambda: torch.ones(2).sum(5), IndexError),
    (lambda: torch.ones(2, 3) @ torch.ones(2, 3), RuntimeError), (lambda: torch.zeros(-1), RuntimeError),
    (lambda: torch.add(1, 2, 3, 4), TypeError), (lambda: torch.ones(2).nothing, AttributeError),
    (lambda: torch.no_such_thing, AttributeError), (lambda: torch.ones(2).add(other=1, wrong=2), TypeError),
    (lambda: torch.cat([torch.ones(1), 2]), TypeError), (lambda: torch.ones(3).view(2), RuntimeError),
    (lambda: torch.ones(2, device="nowhere"), RuntimeError), (lambda: torch.ones(2).add(None), Exception),
    (lambda: torch.range(0, 3, -1), RuntimeError), (lambda: torch.unravel_index(torch.tensor([1]), (2, -3)), ValueError),
    (lambda: torch.nn.functional.adaptive_avg_pool1d(torch.ones(2, 4), -1), RuntimeError),
    (lambda: torch.nn.functional.hardtanh(torch.ones(2), 2, 1), ValueError)])
def test_errors_have_pytorch_types(call, error):
    with pytest.raises(error):
        call()


def test_signatures_and_documentation():
    import inspect
    assert "dim" in inspect.signature(torch.sum).parameters
    assert torch.sum.__doc__.startswith("sum(") and torch.relu.__name__ == "relu"
    assert "did you mean" in str(pytest.raises(AttributeError, lambda: torch.zeross).value)


@pytest.mark.parametrize("arguments, expected", [
    ((0, 4.5, 7), [0]), ((0, 3), [0, 1, 2, 3]), ((5, 0, -2), [5, 3, 1]), ((1, 2, 0.25), [1, 1.25, 1.5, 1.75, 2])])
def test_range_includes_its_end(arguments, expected):
    assert torch.range(*arguments).tolist() == expected


def test_tensors_become_views_of_other_memory():
    x = torch.arange(6.)
    y = torch.empty(0)
    assert y.set_(x) is y and y.shape == (6,) and y.data_ptr() == x.data_ptr()
    y.set_(x.untyped_storage(), 1, (2, 2), (3, 1))[0, 0] = 7
    assert x[1] == 7 and y.tolist() == [[7, 2], [4, 5]]
    assert y.set_(x.storage()).tolist() == x.tolist() and y.set_(x, 2, (2, 2)).tolist() == [[2, 3], [4, 5]]
    assert y.set_().shape == (0,) and y.data_ptr() != x.data_ptr()
    parameter = torch.nn.Parameter(torch.ones(2))
    assert parameter.data.set_(x[:2]).shape == (2,)
    with pytest.raises(RuntimeError, match="type"):
        y.set_(torch.arange(3))
    with pytest.raises(RuntimeError, match="fit"):
        y.set_(x, 0, (7,))
    view = x[2:].view(2, 2)
    assert view._base is x and x._base is None
