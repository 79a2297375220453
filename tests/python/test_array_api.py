"""x.__array_namespace__(): the array API standard's functions, where they differ from PyTorch's."""
import pytest

import tensora

xp = tensora.ones(1).__array_namespace__()


@pytest.mark.parametrize("result, expected", [
    (lambda: xp.concat([xp.zeros(1), xp.ones((1, 2))], axis=None), [0., 1., 1.]),
    (lambda: xp.max(xp.asarray([[1, 5], [7, 2]]), axis=1), [5, 7]),
    (lambda: xp.sum(xp.asarray([100, 100, 100], dtype=xp.int8)), 300),
    (lambda: xp.prod(xp.asarray([[1, 2], [3, 4]]), axis=(0, 1)), 24),
    (lambda: xp.std(xp.asarray([1., 3.])), 1.),
    (lambda: xp.var(xp.asarray([1., 3.]), correction=1), 2.),
    (lambda: xp.sort(xp.asarray([3, 1, 2]), descending=True), [3, 2, 1]),
    (lambda: xp.argsort(xp.asarray([3, 1, 2])), [1, 2, 0]),
    (lambda: xp.unique_counts(xp.asarray([2, 1, 2])).counts, [1, 2]),
    (lambda: xp.unique_all(xp.asarray([2, 1, 2])).indices, [1, 0]),
    (lambda: xp.eye(2, 3, k=1), [[0., 1., 0.], [0., 0., 1.]]),
    (lambda: xp.arange(3, 1), []),
    (lambda: xp.linspace(0, 1, 4, endpoint=False), [0., .25, .5, .75]),
    (lambda: xp.any(xp.asarray([[0, 0], [0, 1]]), axis=()), [[False, False], [False, True]]),
    (lambda: xp.cumulative_sum(xp.asarray([1, 2]), include_initial=True), [0, 1, 3]),
    (lambda: xp.clip(xp.asarray([1, 5]), max=3), [1, 3]),
    (lambda: xp.take(xp.asarray([[1, 2], [3, 4]]), xp.asarray([1]), axis=1), [[2], [4]]),
    (lambda: xp.repeat(xp.asarray([1, 2]), 2), [1, 1, 2, 2]),
    (lambda: xp.linalg.trace(xp.asarray([[1, 2], [3, 4]])), 5),
    (lambda: xp.linalg.vector_norm(xp.asarray([[3., 4.]]), keepdims=True), [[5.]]),
    (lambda: xp.tensordot(xp.asarray([1, 2], dtype=xp.int8), xp.asarray([3, 4]), axes=1), 11),
    (lambda: xp.vecdot(xp.asarray([1j]), xp.asarray([1j])), 1 + 0j),
])
def test_values(result, expected):
    assert result().tolist() == expected


def test_dtypes():
    assert xp.isdtype(xp.int8, "signed integer") and xp.isdtype(xp.float32, ("bool", "real floating"))
    assert not xp.isdtype(xp.bool, "integral")
    with pytest.raises(ValueError, match="expected one of"):
        xp.isdtype(xp.int8, "whole")
    assert xp.result_type(xp.int8, xp.uint8) is xp.int16
    assert xp.finfo(xp.ones(1)).dtype is xp.float32 and xp.iinfo(xp.int16).max == 32767
    info = xp.__array_namespace_info__()
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert info.default_dtypes()["integral"] is xp.int64


def test_mistakes():
    with pytest.raises(ValueError, match="size 2"):
        xp.squeeze(xp.ones((2, 1)), axis=0)
    with pytest.raises(ValueError):
        xp.nonzero(xp.asarray(1))
    with pytest.raises(ValueError):
        xp.asarray([1, 2], copy=False)
    x = xp.asarray([1., 2.])
    assert xp.asarray(x, copy=True) is not x and xp.astype(x, xp.float32) is not x
