"""The graph's nodes, and what is kept for backward."""
from .. import _C
from .._C import Node  # noqa: F401

_forbidden = None  # the message of the innermost disable_saved_tensors_hooks


class saved_tensors_hooks:
    """Within the scope, `pack_hook` sees every tensor that ops save for backward and returns what is kept
    instead; `unpack_hook` turns that into the tensor again.

    >>> x = tensora.tensor(3., requires_grad=True)
    >>> with tensora.autograd.graph.saved_tensors_hooks(lambda t: t.item(), lambda n: tensora.tensor(n)):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor(6.)
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self._scopes = []

    def __enter__(self):
        if _forbidden is not None:
            raise RuntimeError(_forbidden)
        self._scopes.append(_C._saved_tensors_scope(self.pack_hook, self.unpack_hook))

    def __exit__(self, *error):
        self._scopes.pop()  # its end restores what was


class save_on_cpu(saved_tensors_hooks):
    """Keeps what backward needs on the host, and brings it back when it is used."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            return tensor.device, tensor.cpu() if tensor.device.type == device_type else tensor

        super().__init__(pack, lambda kept: kept[1].to(kept[0], non_blocking=pin_memory))


class disable_saved_tensors_hooks:
    """Within the scope, saved_tensors_hooks raises a RuntimeError with this message."""

    def __init__(self, error_message):
        self._message = error_message

    def __enter__(self):
        global _forbidden
        self._before, _forbidden = _forbidden, self._message

    def __exit__(self, *error):
        global _forbidden
        _forbidden = self._before


def increment_version(tensor):
    """Counts a write that autograd did not see."""
    tensor.data.add_(0)
