"""The graph's nodes, hooks on several gradients, and what is kept for backward."""
import contextlib
import typing
import weakref

from .. import _C
from .._C import Node  # noqa: F401
from .._modes import no_grad

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


class _Kept:
    """What allow_mutation_on_saved_tensors gives: nothing is kept here that could be cleared."""

    def clear(self):
        """PyTorch's name."""


@contextlib.contextmanager
def allow_mutation_on_saved_tensors():
    """Within the scope, tensors that backward needs may be written to: their values are saved by copies.

    >>> x = tensora.ones(2, requires_grad=True)
    >>> with tensora.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = y.square()
    ...     _ = y.mul_(5)
    ...     z.sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    def pack(tensor):
        with no_grad():
            return tensor.clone()
    with saved_tensors_hooks(pack, lambda copy: copy):
        yield _Kept()


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


# ---- places in the graph ----------------------------------------------------------------------------------

class GradientEdge(typing.NamedTuple):
    """Where the gradient of a tensor flows: an output of a node. `autograd.grad` takes it as an input, so that a program
    need not keep the tensor."""
    node: Node
    output_nr: int


def get_gradient_edge(tensor):
    """The place of a tensor in the graph.

    >>> x = tensora.ones(2, requires_grad=True)
    >>> edge = tensora.autograd.graph.get_gradient_edge(x * 2)
    >>> tensora.autograd.grad((x * 2).sum(), tensora.autograd.graph.get_gradient_edge(x))
    (tensor([2., 2.]),)
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*_C._gradient_edge(tensor))


# ---- hooks on several gradients ---------------------------------------------------------------------------

class _Gradients:
    """What one backward computed so far. It lives as long as the callback at the end of that backward."""

    def __init__(self, count):
        self.all, self.left, self.done = [None] * count, count, False


class _MultiHook:
    """Calls a function once in each backward that computes one of the gradients."""

    def __init__(self, count, function, waits):
        self._count, self._function, self._waits, self._running = count, function, waits, lambda: None

    def at(self, place):
        def hook(gradient):
            gradients = self._running()
            if gradients is None:
                gradients = _Gradients(self._count)
                self._running = weakref.ref(gradients)
                _C._queue_callback(lambda: self._end(gradients))
            gradients.all[place] = gradient
            gradients.left -= 1
            if not gradients.done and (gradients.left == 0 or not self._waits):
                gradients.done = True
                self._function(gradients.all if self._waits else gradient)
        return hook

    def _end(self, gradients):
        self._running = lambda: None
        if not gradients.done:
            gradients.done = True
            self._function(gradients.all)


class _Handles:
    """Undoes several registrations."""

    def __init__(self, handles):
        self.handles = tuple(handles)

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls fn(gradients) once in a backward, when the gradients of all `tensors` are known, or at its end if it does not
    reach all: the list then has None for them. With mode="any", calls fn(gradient) with the first that is known."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    hook = _MultiHook(len(tensors), fn, mode == "all")
    return _Handles(tensor.register_hook(hook.at(place)) for place, tensor in enumerate(tensors))


# ---- versions ---------------------------------------------------------------------------------------------

def increment_version(tensor):
    """Counts a write to a tensor, or to each of several, that autograd did not see."""
    for written in (tensor,) if isinstance(tensor, _C.Tensor) else tensor:
        _C._bump_version(written)
