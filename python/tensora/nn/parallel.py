"""Several devices: a module runs on one, so a program's DataParallel is the module itself."""
import contextlib

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
    """A module whose gradients are averaged over the processes: in a world of one, the module itself."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True, **options):
        super().__init__()
        from .. import distributed
        distributed._check("DistributedDataParallel")
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(f"DistributedDataParallel: device_ids can only be None or contain a single element, got "
                             f"{list(device_ids)}")
        self.module, self.broadcast_buffers = module, broadcast_buffers
        self.require_backward_grad_sync = True
        del output_device, dim, options  # how gradients would travel

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self):
        """Within the scope, backward averages no gradients."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        """Processes with fewer batches than others: with one process there are none."""
        del divide_by_initial_world_size, enable, throw_on_early_termination
        return contextlib.nullcontext()

    def register_comm_hook(self, state, hook):
        raise NotImplementedError("DistributedDataParallel.register_comm_hook: communication hooks do not exist here")
