"""Neural networks: modules, their functions, initial values and utilities."""
from . import functional as functional, init as init, utils as utils
from . import modules as modules
from .modules import *  # noqa: F401,F403
from .modules import Module as Module
from .parameter import (
    Buffer as Buffer, Parameter as Parameter, UninitializedParameter as UninitializedParameter)

TYPE_CHECKING = False  # type checkers take it for True
if TYPE_CHECKING:
    from . import parallel as parallel
    from .parallel import DataParallel as DataParallel
else:
    def __getattr__(name):
        if name in ("parallel", "DataParallel"):
            import importlib
            parallel = importlib.import_module("tensora.nn.parallel")
            return parallel if name == "parallel" else parallel.DataParallel
        raise AttributeError(f"module 'tensora.nn' has no attribute '{name}'; docs/coming-from-pytorch.md lists what "
                             "differs")
