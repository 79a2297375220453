"""Batches of samples."""
from collections.abc import Mapping, Sequence

from ... import _C
from ..._C import Tensor


def default_convert(data):
    """Arrays as tensors, wherever they are in a sample."""
    if isinstance(data, Tensor):
        return data
    if type(data).__module__ == "numpy":
        return data if data.dtype.kind in "SU" else _C.tensor(data)
    if isinstance(data, Mapping):
        return type(data)({k: default_convert(v) for k, v in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(v) for v in data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [default_convert(v) for v in data]
    return data


def default_collate(batch):
    """Samples of one structure as one of batches.

    >>> tensora.utils.data.default_collate([(1, 2.), (3, 4.)])
    [tensor([1, 3]), tensor([2., 4.], dtype=torch.float64)]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _C.stack(list(batch))
    if type(first).__module__ == "numpy" and hasattr(first, "dtype"):
        if first.dtype.kind in "SU":
            raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
                            f"{first.dtype}")
        return _C.stack([_C.tensor(x) for x in batch])
    if isinstance(first, float):
        return _C.tensor(batch, dtype=_C.float64)
    if isinstance(first, int):
        return _C.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return type(first)({k: default_collate([d[k] for d in batch]) for k in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*map(default_collate, zip(*batch)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [default_collate(part) for part in zip(*batch)]
    raise TypeError("default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
                    f"{type(first)}")
