"""The default generator's state."""
import contextlib

from . import _C
from ._functions import get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: F401

default_generator = _C.default_generator


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"):
    """Restores the generator's state at the end of the scope; all devices share the generator."""
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
