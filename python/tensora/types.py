"""Names for annotations."""
from typing import Union

from ._C import Size, Tensor, device, dtype  # noqa: F401

Number = Union[int, float, bool]
Device = Union[str, device, int, None]
