"""What programs ask of CUDA."""
import contextlib

from . import _C
from ._C import OutOfMemoryError  # noqa: F401


def is_available():
    """Whether tensors can be put on a GPU."""
    return _C._is_available("cuda")


def device_count():
    return _C._device_count("cuda")


def unavailable_reason():
    """Why is_available() is False; empty if it is True."""
    return _C._unavailable_reason("cuda")


def _device(device):
    if device is None:
        return _C.device("cuda:0")
    return _C.device("cuda", device) if isinstance(device, int) else _C.device(device)


def current_device():
    return 0


def set_device(device):
    if _device(device).index not in (0, None):
        raise NotImplementedError("cuda.set_device: name the device where a tensor is made")


@contextlib.contextmanager
def device(device):
    yield set_device(device)


def synchronize(device=None):
    """Waits until everything queued on the device is done."""
    _C._synchronize(_device(device))


def empty_cache():
    if is_available():
        _C._empty_cache(_device(None))


def memory_stats(device=None):
    return _C._memory_stats(_device(device))


def memory_allocated(device=None):
    return memory_stats(device)["allocated"] if is_available() else 0


def memory_reserved(device=None):
    return memory_stats(device)["reserved"] if is_available() else 0


def max_memory_allocated(device=None):
    return memory_stats(device)["peak_allocated"] if is_available() else 0


def max_memory_reserved(device=None):
    return memory_stats(device)["peak_reserved"] if is_available() else 0


def reset_peak_memory_stats(device=None):
    if is_available():
        _C._reset_peaks(_device(device))


def manual_seed(seed):
    """One generator serves all devices."""
    _C.default_generator.manual_seed(seed)


manual_seed_all = manual_seed


def is_bf16_supported(including_emulation=True):
    return is_available()


def is_initialized():
    return is_available()


def init():
    return None


def __getattr__(name):
    if name == "amp":
        from . import amp
        return amp
    raise AttributeError(f"module 'tensora.cuda' has no attribute '{name}': streams, events and graphs are "
                         "part of the C++ interface (docs/cuda.md)")
