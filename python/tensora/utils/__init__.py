"""Data loading, checkpoints and small helpers."""
from . import checkpoint  # noqa: F401

TYPE_CHECKING = False  # type checkers take it for True
if TYPE_CHECKING:
    from . import (
        _pytree as _pytree, benchmark as benchmark, data as data, deterministic as deterministic, dlpack as dlpack, hooks as hooks,
        tensorboard as tensorboard)
else:
    def __getattr__(name):
        if name in ("data", "tensorboard", "dlpack", "_pytree", "benchmark", "hooks", "deterministic"):
            import importlib
            return importlib.import_module(f"tensora.utils.{name}")
        raise AttributeError(f"module 'tensora.utils' has no attribute '{name}'")
