"""torch.xpu, torch.mps and the like: kinds of devices that do not exist here."""


def is_available():
    return False


is_initialized = is_available


def device_count():
    return 0
