"""Data loading, checkpoints and small helpers."""
from . import checkpoint, data  # noqa: F401


def __getattr__(name):
    if name in ("tensorboard", "dlpack", "_pytree", "benchmark", "hooks"):
        import importlib
        return importlib.import_module(f"tensora.utils.{name}")
    raise AttributeError(f"module 'tensora.utils' has no attribute '{name}'")
