"""The GPU, if there is one, without naming its kind."""
from . import _C, cuda


def is_available():
    """Whether tensors can be put on an accelerator."""
    return cuda.is_available()


def current_accelerator(check_available=False):
    """device("cuda"); None where there is no GPU."""
    return _C.device("cuda") if cuda.is_available() else None


def device_count():
    """How many accelerators there are."""
    return cuda.device_count()


def current_device_index():
    """The number of the device in use."""
    return cuda.current_device()


def set_device_index(device):
    """Makes a device the one in use."""
    cuda.set_device(device)


def current_stream(device=None):
    """The stream in use."""
    return cuda.current_stream(device)


def synchronize(device=None):
    """Waits until everything queued on the device is done."""
    cuda.synchronize(device)
