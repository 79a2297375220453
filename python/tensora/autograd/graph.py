"""The graph's nodes, and what is kept for backward."""
from .._C import Node  # noqa: F401


class saved_tensors_hooks:
    def __init__(self, pack_hook, unpack_hook):
        raise NotImplementedError("saved_tensors_hooks: use tensora.utils.checkpoint to keep less for backward")


save_on_cpu = saved_tensors_hooks


def increment_version(tensor):
    tensor.data.add_(0)
