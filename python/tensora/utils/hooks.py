"""Handles of hooks."""
from ..nn.modules.hooks import RemovableHandle  # noqa: F401


def unserializable_hook(function):
    """Marks a hook that is not saved with its tensor."""
    function.__torch_unserializable__ = True
    return function
