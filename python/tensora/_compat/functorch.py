"""torch._functorch and torch._C._functorch: switches that change nothing, and what libraries ask about tensors of vmap."""
from .settings import Settings

config = Settings("torch._functorch.config", enable_autograd_cache=True, donated_buffer=True, activation_memory_budget=1.0)


def is_batchedtensor(tensor):
    """Whether a tensor stands for one element of those that vmap runs at once."""
    import sys
    batched = sys.modules.get("tensora._batched")
    return batched is not None and bool(batched.levels()) and isinstance(tensor, batched.Batched)


def is_legacy_batchedtensor(tensor):
    """Whether the older vmap made a tensor: there is one."""
    del tensor
    return False


def get_unwrapped(tensor):
    """All elements of a tensor of vmap."""
    from .. import _batched
    return _batched.physical(tensor)
