"""Assertions for tests."""
import math

from .. import _C
from .._C import Tensor
from .._dtypes import finfo, iinfo

_TOLERANCES = {_C.float16: (1e-3, 1e-5), _C.bfloat16: (1.6e-2, 1e-5), _C.float32: (1.3e-6, 1e-5),
               _C.float64: (1e-7, 1e-7), _C.complex64: (1.3e-6, 1e-5), _C.complex128: (1e-7, 1e-7)}


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, msg=None):
    """Raises AssertionError unless both are equal within the tolerances of their dtype.

    >>> tensora.testing.assert_close(tensora.ones(2), tensora.ones(2) + 1e-7)
    """
    options = dict(allow_subclasses=allow_subclasses, rtol=rtol, atol=atol, equal_nan=equal_nan,
                   check_device=check_device, check_dtype=check_dtype, check_layout=check_layout,
                   check_stride=check_stride, msg=msg)
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or actual.keys() != expected.keys():
            raise AssertionError("The keys of the mappings do not match")
        for key in expected:
            assert_close(actual[key], expected[key], **options)
        return
    if isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
            raise AssertionError("The length of the sequences mismatch")
        for a, b in zip(actual, expected):
            assert_close(a, b, **options)
        return
    if expected is None or isinstance(expected, str):
        if actual != expected:
            raise AssertionError(f"{actual!r} is not {expected!r}")
        return
    if (rtol is None) != (atol is None):
        raise ValueError("Both rtol and atol must be specified or both unspecified")
    if not allow_subclasses and type(actual) is not type(expected):
        raise TypeError(f"assert_close: {type(actual)} and {type(expected)} are different types, and "
                        "allow_subclasses=False")
    actual, expected = (x if isinstance(x, Tensor) else _C.tensor(x) for x in (actual, expected))
    checked = [name for name, wanted in (("device", check_device), ("dtype", check_dtype), ("layout", check_layout),
                                         ("stride", check_stride)) if wanted]
    problem = _difference(actual.detach(), expected.detach(), rtol, atol, equal_nan, checked)
    if problem:
        raise AssertionError(msg(problem) if callable(msg) else msg or problem)


def _difference(actual, expected, rtol, atol, equal_nan, checked):
    for name in ["shape"] + checked:
        first, second = (getattr(x, name) for x in (actual, expected))
        first, second = (first(), second()) if name == "stride" else (first, second)
        if first != second:
            return f"The values for attribute '{name}' do not match: {first} != {second}."
    if _is_sparse(actual) or _is_sparse(expected):
        return _sparse_difference(actual, expected, rtol, atol, equal_nan)
    if rtol is None:
        rtol, atol = (max(a, b) for a, b in zip(_TOLERANCES.get(actual.dtype, (0, 0)),
                                                _TOLERANCES.get(expected.dtype, (0, 0))))
    dtype = _C.promote_types(actual.dtype, expected.dtype)
    actual, expected = actual.cpu().to(dtype), expected.cpu().to(dtype)
    if dtype is _C.bool:
        actual, expected = actual.to(_C.uint8), expected.to(_C.uint8)
    matches = _C.isclose(actual, expected, rtol, atol, equal_nan)
    wrong = matches.numel() - int(matches.sum())
    if wrong == 0:
        return None
    distance = (actual - expected).abs().to(_C.float64).where(~matches, _C.zeros(()).to(_C.float64)) \
        if actual.dtype is not _C.uint8 else (~matches).to(_C.float64)
    at = int(distance.reshape(-1).nan_to_num(float("inf")).argmax())
    return (f"Tensor-likes are not close!\n\nMismatched elements: {wrong} / {matches.numel()} "
            f"({100 * wrong / matches.numel():.1f}%)\nGreatest absolute difference: "
            f"{distance.reshape(-1)[at].item()} at flat index {at} (up to {atol} allowed), where "
            f"{actual.reshape(-1)[at].item()} was found and {expected.reshape(-1)[at].item()} expected "
            f"(relative differences up to {rtol} are allowed)")


def _is_sparse(tensor):
    return tensor.is_sparse or tensor.is_sparse_csr


def _sparse_difference(actual, expected, rtol, atol, equal_nan):
    """What differs between the entries, or between the dense forms where only one of the two is sparse."""
    if actual.layout != expected.layout:
        actual, expected = (x.to_dense() if _is_sparse(x) else x for x in (actual, expected))
        return _difference(actual, expected, rtol, atol, equal_nan, [])
    actual, expected = actual.coalesce(), expected.coalesce()
    if actual._nnz() != expected._nnz():
        return (f"The number of specified values in sparse tensors does not match: {actual._nnz()} != {expected._nnz()}")
    if not _C.equal(actual._indices().cpu(), expected._indices().cpu()):
        return "The indices of the sparse tensors do not match"
    problem = _difference(actual._values(), expected._values(), rtol, atol, equal_nan, [])
    return problem and f"Sparse values: {problem}"


def _bounds(dtype, low, high):
    """Where random numbers begin and end: PyTorch's defaults, within what the dtype can hold."""
    if dtype is _C.bool:
        least, most, usual = 0, 2, (0, 2)
    elif dtype.is_floating_point or dtype.is_complex:
        least, most, usual = -finfo(dtype).max, finfo(dtype).max, (-9, 9)
    else:
        info = iinfo(dtype)
        least, most, usual = info.min, info.max + (dtype is not _C.int64), (-9, 10)
    given = [bound for bound in (low, high) if bound is not None]
    if any(bound != bound for bound in given):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low is not None and high is not None and low > high:
        raise ValueError(f"`low` must be less than or equal to `high`, but got {low} > {high}")
    low, high = (bound if given is None else given for bound, given in zip(usual, (low, high)))
    return min(max(low, least), most), min(max(high, least), most)


def make_tensor(*shape, dtype, device="cpu", low=None, high=None, requires_grad=False, noncontiguous=False,
                exclude_zero=False, memory_format=None):
    """A tensor of random numbers from low up to high, which is not among them."""
    shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive")
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}")
    low, high = _bounds(dtype, low, high)
    if dtype.is_complex:
        parts = _C.rand((*shape, 2), device=device, dtype=_C.float64) * (high - low) + low
        tensor = _C.view_as_complex(parts).to(dtype)
    elif dtype.is_floating_point:
        tensor = (_C.rand(shape, device=device, dtype=_C.float64) * (high - low) + low).to(dtype)
    else:
        first, last = math.ceil(low), math.ceil(high)
        tensor = _C.randint(first, max(last, first + 1), shape, device=device).to(dtype)
    if exclude_zero:
        tensor[tensor == 0] = finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
    if noncontiguous and tensor.numel() > 1 and tensor.dim() > 0:
        tensor = tensor.repeat_interleave(2, -1)[..., ::2]
    tensor = tensor if memory_format is None else tensor.to(memory_format=memory_format)
    return tensor.requires_grad_() if requires_grad else tensor
