"""Neural networks: modules, their functions, initial values and utilities."""
from . import functional, init, utils  # noqa: F401
from . import modules  # noqa: F401
from .modules import *  # noqa: F401,F403
from .modules import Module as Module
from .parameter import (
    Buffer as Buffer, Parameter as Parameter, UninitializedParameter as UninitializedParameter)


def __getattr__(name):
    if name in ("parallel", "DataParallel"):
        import importlib
        parallel = importlib.import_module("tensora.nn.parallel")
        return parallel if name == "parallel" else parallel.DataParallel
    raise AttributeError(f"module 'tensora.nn' has no attribute '{name}'; docs/coming-from-pytorch.md lists what differs")
