"""Switches of PyTorch's backends that programs set; here they change nothing, or what they say."""
import contextlib
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

    @contextlib.contextmanager
    def flags(self, enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True, fp32_precision="none"):
        """A scope with other switches."""
        del benchmark_limit, fp32_precision
        names = ("enabled", "benchmark", "deterministic", "allow_tf32")
        kept = [getattr(self, name) for name in names]
        for name, value in zip(names, (enabled, benchmark, deterministic, allow_tf32)):
            setattr(self, name, value)
        try:
            yield
        finally:
            for name, value in zip(names, kept):
                setattr(self, name, value)

    @property
    def deterministic(self):
        return _C.are_deterministic_algorithms_enabled()

    @deterministic.setter
    def deterministic(self, value):
        _C._set_deterministic(bool(value))


cudnn = _Cudnn()
cuda = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False), flash_sdp_enabled=lambda: True,
                       enable_flash_sdp=lambda enabled: None, enable_mem_efficient_sdp=lambda enabled: None,
                       enable_math_sdp=lambda enabled: None, sdp_kernel=lambda *args, **kwargs: contextlib.nullcontext(),
                       is_built=lambda: _C._is_available("cuda"))
mps = SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
mkldnn = SimpleNamespace(is_available=lambda: True, enabled=True, flags=lambda *args, **kwargs: contextlib.nullcontext())
mkl = SimpleNamespace(is_available=lambda: False)
openmp = SimpleNamespace(is_available=lambda: False)
opt_einsum = SimpleNamespace(is_available=lambda: True, enabled=True, strategy="auto")  # einsum orders its products itself
