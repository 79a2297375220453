"""Memory for time: backward runs a function a second time instead of keeping what it made."""
import contextlib
import enum

from .. import _C
from .._C import Tensor


class CheckpointError(RuntimeError):
    """PyTorch's name; a body that computes something else in its second run raises a RuntimeError."""


class CheckpointPolicy(enum.Enum):
    """What selective checkpoints of PyTorch do with an op's results; there are none here."""
    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


def noop_context_fn():
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """Refused: a checkpoint saves nothing of its body."""
    raise NotImplementedError("create_selective_checkpoint_contexts: a checkpoint saves nothing of what its function computes; "
                              "give it a smaller part of the function")


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, context_fn=None, determinism_check=None,
               debug=False, **kwargs):
    """Runs `function` without keeping what its backward needs.

    >>> x = tensora.ones(2, requires_grad=True)
    >>> tensora.utils.checkpoint.checkpoint(tensora.exp, x).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """
    if context_fn is not None and context_fn is not noop_context_fn:
        raise NotImplementedError("checkpoint: context_fn is not supported")
    from ._pytree import tree_flatten, tree_unflatten
    given, form = tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(given) if isinstance(leaf, Tensor)]
    made = []

    def run(*tensors):
        leaves = list(given)
        for place, tensor in zip(places, tensors):
            leaves[place] = tensor
        positional, named = tree_unflatten(leaves, form)
        made[:] = tree_flatten(function(*positional, **named))
        return tuple(leaf for leaf in made[0] if isinstance(leaf, Tensor))
    outputs = iter(_C._checkpoint(run, [given[i] for i in places], preserve_rng_state))
    return tree_unflatten([next(outputs) if isinstance(leaf, Tensor) else leaf for leaf in made[0]], made[1])


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """A checkpoint for each of `segments` parts of a list of functions, but for the last."""
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(functions) // segments

    def part(start, end):
        def run(x):
            for function in functions[start:end]:
                x = function(x)
            return x
        return run
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(part(start, start + size), input, **kwargs)
    return part(size * (segments - 1), len(functions))(input)


def get_device_states(*args):
    """(devices, states): the numbers of the GPUs that the tensors among `args` are on, and the generator's state, which all
    devices share, for each of them."""
    from ..cuda import get_rng_state
    devices = sorted({a.get_device() for a in args if isinstance(a, Tensor) and a.device.type == "cuda"})
    return devices, [get_rng_state(device) for device in devices]


def set_device_states(devices, states, *, device_type=None):
    """Gives the generators of GPUs the states that get_device_states found."""
    if device_type not in (None, "cuda"):
        raise ValueError(f"set_device_states: expected device_type 'cuda', got {device_type!r}")
    from ..cuda import set_rng_state
    for device, state in zip(devices, states):
        set_rng_state(state, device)


def set_checkpoint_debug_enabled(enabled):
    return None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable):
    """Accepted: the second run always goes on to the function's end."""
    yield
