"""The layers. Each is a Python class whose forward calls the C++ function of that name.

Why not the C++ layers themselves: programs replace weights, tie them, patch forward, pickle and deepcopy
modules, and derive from Linear. A Python Module with plain attributes allows all of it, while everything
that computes (ops, gradients, initial values, optimizers) is the C++ code.
"""
import sys as _sys

from .activation import *  # noqa: F401,F403
from .adaptive import *  # noqa: F401,F403
from .container import *  # noqa: F401,F403
from .conv import *  # noqa: F401,F403
from .lazy import *  # noqa: F401,F403
from .linear import *  # noqa: F401,F403
from .loss import *  # noqa: F401,F403
from .module import Module as Module
from .normalization import *  # noqa: F401,F403
from .normalization import _BatchNorm, _InstanceNorm  # noqa: F401
from .pooling import *  # noqa: F401,F403
from .rnn import *  # noqa: F401,F403
from .shape import *  # noqa: F401,F403
from .transformer import *  # noqa: F401,F403

# Files of PyTorch's that hold layers which stand elsewhere here: nn.modules.dropout.Dropout is nn.Dropout.
_FILES = ("dropout", "sparse", "batchnorm", "instancenorm", "padding", "flatten", "upsampling", "pixelshuffle", "fold",
          "distance", "channelshuffle")
for _file in _FILES:
    _sys.modules[f"{__name__}.{_file}"] = _sys.modules[__name__]

TYPE_CHECKING = False  # type checkers take it for True
if not TYPE_CHECKING:
    __all__ = [name for name in vars() if not name.startswith("_") and name != "utils"]  # nn.utils is another module

    def __getattr__(name):
        if name in _FILES:
            return _sys.modules[__name__]
        raise AttributeError(f"module 'tensora.nn.modules' has no attribute '{name}'")
