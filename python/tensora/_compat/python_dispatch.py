"""torch.utils._python_dispatch: tensors whose memory is other tensors do not exist here, and no modes that see ops."""
from . import REFUSED, refused


def is_traceable_wrapper_subclass(t):
    """Whether a tensor stands for others: none does."""
    return hasattr(type(t), "__tensor_flatten__")


def is_traceable_wrapper_subclass_type(t):
    return hasattr(t, "__tensor_flatten__")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return refused(f"torch.utils._python_dispatch.{name}", REFUSED["torch.utils._python_dispatch"])
