"""torch._utils: helpers that libraries take from there."""
from itertools import tee as _tee


def _flatten_dense_tensors(tensors):
    """All elements in one vector."""
    from .. import _C
    return _C.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Views of a vector with the shapes of these tensors."""
    result, at = [], 0
    for tensor in tensors:
        result.append(flat.narrow(0, at, tensor.numel()).view_as(tensor))
        at += tensor.numel()
    return tuple(result)


def _get_device_index(device, optional=False, allow_cpu=False):
    """The number of a GPU: of a device, of its text, or the number itself."""
    from .. import _C
    if isinstance(device, int):
        return device
    if device is None and optional:
        return 0
    found = _C.device(device)
    if found.type == "cpu" and allow_cpu:
        return -1
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return found.index or 0


def _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks, metadata=None):
    raise NotImplementedError("torch._utils._rebuild_tensor_v2: PyTorch's pickles are read by torch.load")


def pairwise(iterable):
    first, second = _tee(iterable)
    next(second, None)
    return zip(first, second)
