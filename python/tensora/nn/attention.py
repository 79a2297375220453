"""Which kernel computes scaled_dot_product_attention: here there is one, so that choosing changes nothing."""
import contextlib
import enum


class SDPBackend(enum.IntEnum):
    """PyTorch's kernels of attention."""
    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Accepted, and checked: the backends are SDPBackends."""
    for backend in backends if isinstance(backends, (list, tuple)) else [backends]:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"sdpa_kernel: expected SDPBackend values, got {type(backend).__name__}")
    yield
