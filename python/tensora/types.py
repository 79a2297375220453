"""Names for annotations."""
from os import PathLike
from typing import IO, Any, List, Optional, Sequence, Tuple, Union

from ._C import Size, Tensor, device, dtype, layout  # noqa: F401

Number = Union[int, float, bool]
Device = Union[str, device, int, None]
FileLike = Union[str, "PathLike[str]", IO[bytes]]
Storage = Any
_int, _float, _bool, _dtype, _device, _layout, _Number = int, float, bool, dtype, device, layout, Number
_size = Union[Size, List[int], Tuple[int, ...]]
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_qscheme, _symint, _dispatchkey = Any, int, str
__all__ = ["Device", "FileLike", "IO", "Number", "Optional", "Size", "Storage", "Tensor", "device", "dtype"]
