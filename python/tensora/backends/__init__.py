"""Switches of PyTorch's backends that programs set; here they change nothing, or what they say."""
from types import SimpleNamespace

from .. import _C


class _Cudnn:
    """benchmark and enabled change nothing; deterministic does."""
    enabled = True
    benchmark = False
    allow_tf32 = True

    @staticmethod
    def is_available():
        return _C._is_available("cuda")

    @staticmethod
    def version():
        return None

    @property
    def deterministic(self):
        return _C.are_deterministic_algorithms_enabled()

    @deterministic.setter
    def deterministic(self, value):
        _C._set_deterministic(bool(value))


cudnn = _Cudnn()
cuda = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False), flash_sdp_enabled=lambda: True,
                       enable_flash_sdp=lambda enabled: None, enable_mem_efficient_sdp=lambda enabled: None,
                       enable_math_sdp=lambda enabled: None, is_built=lambda: _C._is_available("cuda"))
mps = SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
mkldnn = SimpleNamespace(is_available=lambda: True, enabled=True)
mkl = SimpleNamespace(is_available=lambda: False)
openmp = SimpleNamespace(is_available=lambda: False)
