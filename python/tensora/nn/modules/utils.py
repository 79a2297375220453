"""Small helpers that programs import from here."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ... import _C
from ..._C import Tensor
from ..common_types import Device, Dtype


def _ntuple(count):
    def repeat(value):
        return tuple(value) if isinstance(value, Iterable) else (value,) * count
    return repeat


_single, _pair, _triple, _quadruple = (_ntuple(count) for count in (1, 2, 3, 4))


def _reverse_repeat_tuple(t, n):
    """(1, 2), 2 → (2, 2, 1, 1): a padding for each dim as nn.functional.pad takes it."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Takes `prefix` from the keys that begin with it, in place."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix):]] = state_dict.pop(key)


def parse_to(*args: Any, device: Device = None, dtype: Dtype = None, non_blocking=False, copy=False,
             memory_format=None) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) of the arguments of Module.to: a device, a dtype, both, or a tensor."""
    del copy  # of Tensor.to
    for i, value in enumerate(args):
        if isinstance(value, Tensor):
            dtype, device = value.dtype, value.device
        elif isinstance(value, _C.dtype):
            dtype = value
        elif isinstance(value, bool) and i > 0:
            non_blocking = value
        elif isinstance(value, (str, int, _C.device)):
            device = value
        elif value is not None:
            raise TypeError(f"to() received an invalid combination of arguments - got {type(value).__name__}")
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")
    return None if device is None else _C.device(device), dtype, non_blocking, memory_format
