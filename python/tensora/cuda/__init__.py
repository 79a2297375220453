"""What programs ask of CUDA."""
import contextlib

from .. import _C
from .._C import OutOfMemoryError  # noqa: F401


def is_available():
    """Whether tensors can be put on a GPU."""
    return _C._is_available("cuda")


def device_count():
    return _C._device_count("cuda")


def unavailable_reason():
    """Why is_available() is False; empty if it is True."""
    return _C._unavailable_reason("cuda")


def _native():
    """The extension that links the CUDA library; it is loaded when it is first needed."""
    if not is_available():
        raise RuntimeError(unavailable_reason())
    try:
        from .. import _cuda
    except ImportError as error:
        raise RuntimeError(f"cuda: this build of tensora has no streams, events and graphs ({error})") from error
    return _cuda


def _device(device):
    if device is None:
        return _C.device("cuda:0")
    return _C.device("cuda", device) if isinstance(device, int) else _C.device(device)


def _index(device):
    device = _device(device)
    if device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return device.index or 0


def current_device():
    """The number of the device in use."""
    return 0


def set_device(device):
    """Only device 0 can be the one in use; others are named where a tensor is made."""
    if _device(device).index not in (0, None):
        raise NotImplementedError("cuda.set_device: name the device where a tensor is made")


@contextlib.contextmanager
def device(device):
    """A scope in which a device is the one in use."""
    yield set_device(device)


class _Properties:
    """What is known about a GPU."""

    def __init__(self, values):
        self.__dict__.update(values)

    def __repr__(self):
        return f"_CudaDeviceProperties({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


def get_device_properties(device=None):
    """name, major, minor, total_memory, multi_processor_count, L2_cache_size"""
    return _Properties(_native().device_info(_index(device)))


def get_device_name(device=None):
    """The name of the GPU."""
    return get_device_properties(device).name


def get_device_capability(device=None):
    """The compute capability: (9, 0)."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def synchronize(device=None):
    """Waits until everything queued on the device is done."""
    _C._synchronize(_device(device))


def empty_cache():
    if is_available():
        _C._empty_cache(_device(None))


def memory_stats(device=None):
    """Bytes and counts of the allocator, under its own names and the most used of PyTorch's."""
    if not is_available():
        return {}
    stats = _C._memory_stats(_device(device))
    stats.update(_native().memory_report(_index(device)))
    for ours, theirs in (("allocated", "allocated_bytes.all"), ("reserved", "reserved_bytes.all")):
        stats[f"{theirs}.current"], stats[f"{theirs}.peak"] = stats[ours], stats[f"peak_{ours}"]
    return stats


def memory_summary(device=None, abbreviated=False):
    """The statistics as a table for people."""
    return "\n".join(f"{name:32}{value:>20}" for name, value in memory_stats(device).items())


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


def seed():
    """Seeds the generator from the system's entropy; all devices share it."""
    _C.default_generator.seed()


seed_all = seed


def initial_seed():
    return _C.default_generator.initial_seed()


def get_rng_state(device="cuda"):
    """The state of the generator, which all devices share."""
    del device
    return _C.default_generator.get_state()


def set_rng_state(new_state, device="cuda"):
    del device
    _C.default_generator.set_state(new_state)


def get_rng_state_all():
    """One state per GPU: they share one."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states):
    for state in new_states:
        set_rng_state(state)


def is_bf16_supported(including_emulation=True):
    return is_available()


def is_initialized():
    return is_available()


def init():
    return None


def current_blas_handle():
    raise NotImplementedError("cuda.current_blas_handle: the libraries' handles are not shown")


from .streams import Event, ExternalStream, Stream, StreamContext, current_stream, default_stream, stream  # noqa: E402,F401
from .graphs import (CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing,  # noqa: E402,F401
                     make_graphed_callables)


def __getattr__(name):
    if name == "amp":
        import importlib
        return importlib.import_module("tensora.cuda.amp")
    raise AttributeError(f"module 'tensora.cuda' has no attribute '{name}'; docs/coming-from-pytorch.md lists what differs")
