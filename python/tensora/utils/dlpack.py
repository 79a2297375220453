"""DLPack, under PyTorch's old names."""
from .._C import from_dlpack  # noqa: F401


def to_dlpack(tensor):
    return tensor.__dlpack__()
