"""Several devices: a module runs on one, so a program's DataParallel is the module itself."""
from .modules.module import Module


class DataParallel(Module):
    """Holds a module as PyTorch's does (`.module`, names with that prefix) and calls it on its one device."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise NotImplementedError(f"DataParallel: one device is used, got device_ids={list(device_ids)}")
        self.module = module

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """Training on several processes is not part of this version."""

    def __init__(self, module, *args, **kwargs):
        raise NotImplementedError("DistributedDataParallel: training on several processes is not part of this version; "
                                  "use the module itself")
