"""Several devices and several processes."""
import contextlib

from .. import _C
from .._modes import no_grad
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
    """A module whose gradients are averaged over the ranks while backward runs. At the beginning all ranks get the
    parameters and buffers of rank 0. Parameters that some ranks did not use in a step count as zeros there, whatever
    `find_unused_parameters` and `static_graph` say."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True, init_sync=True,
                 process_group=None, bucket_cap_mb=None, find_unused_parameters=False, check_reduction=False,
                 gradient_as_bucket_view=False, static_graph=False, delay_all_reduce_named_params=None,
                 param_to_hook_all_reduce=None, mixed_precision=None, device_mesh=None):
        super().__init__()
        from .. import distributed
        from ..distributed.groups import _group
        distributed._check("DistributedDataParallel")
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(f"DistributedDataParallel: device_ids can only be None or contain a single element, got "
                             f"{list(device_ids)}")
        refused = {"init_sync=False": not init_sync, "mixed_precision": mixed_precision, "device_mesh": device_mesh,
                   "delay_all_reduce_named_params": delay_all_reduce_named_params,
                   "param_to_hook_all_reduce": param_to_hook_all_reduce}
        for name, given in refused.items():
            if given:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not supported")
        del check_reduction  # deprecated in PyTorch
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view  # how PyTorch's reducer works: ours needs no choice
        self.module, self.broadcast_buffers = module, broadcast_buffers
        self.device_ids, self.output_device, self.dim = device_ids, output_device, dim
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.process_group = _group("DistributedDataParallel", process_group)
        trained = [(name.replace(".", "/"), value) for name, value in module.named_parameters() if value.requires_grad]
        if not trained:
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameters that require "
                               "a gradient.")
        frozen = [value.detach() for value in module.parameters() if not value.requires_grad]
        buffers = [buffer for buffer in module.buffers() if buffer is not None]
        from .. import _distributed
        size = int((bucket_cap_mb or 0) * 1024 * 1024)
        self._averaged = _distributed.Averaged(trained, frozen + buffers, self.process_group._inner,
                                               min(size, 1 << 20) if size else 1 << 20, size)

    def forward(self, *inputs, **kwargs):
        if self.broadcast_buffers and self.require_forward_param_sync:
            self._share_buffers()
        result = self.module(*inputs, **kwargs)
        # In PyTorch, too, all ranks get the buffers of rank 0 in the first forward behind one whose gradients were
        # averaged: in the first of an evaluation as well.
        self.require_forward_param_sync = _C.is_grad_enabled() and self.require_backward_grad_sync
        return result

    def _share_buffers(self):
        if self.process_group.size() == 1:
            return
        from .. import distributed
        with no_grad():
            for buffer in self.module.buffers():
                distributed.broadcast(buffer, group=self.process_group, group_src=0)

    @contextlib.contextmanager
    def no_sync(self):
        """Within the scope, backward averages no gradients."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        self._averaged.enter_no_sync()
        try:
            yield
        finally:
            self._averaged.leave_no_sync()
            self.require_backward_grad_sync = before

    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        """Ranks with fewer batches than others: only for a world of one, where there are none."""
        del divide_by_initial_world_size, throw_on_early_termination
        if enable and self.process_group.size() > 1:
            raise NotImplementedError("DistributedDataParallel.join: give all ranks equally many batches "
                                      "(DistributedSampler does), or use enable=False")
        return contextlib.nullcontext()

    def register_comm_hook(self, state, hook):
        raise NotImplementedError("DistributedDataParallel.register_comm_hook: communication hooks do not exist here")
