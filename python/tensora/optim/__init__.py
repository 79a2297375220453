"""Optimizers; the C++ ones."""
from . import lr_scheduler as lr_scheduler
from .optimizer import (
    SGD as SGD, Adadelta as Adadelta, Adafactor as Adafactor, Adagrad as Adagrad,
    Adam as Adam, Adamax as Adamax, AdamW as AdamW, LBFGS as LBFGS, Lion as Lion, Muon as Muon,
    NAdam as NAdam, Optimizer as Optimizer, RAdam as RAdam, RMSprop as RMSprop)
from .per_parameter import ASGD as ASGD
from .rprop import Rprop as Rprop
from .sparse_adam import SparseAdam as SparseAdam

TYPE_CHECKING = False  # type checkers take it for True
if TYPE_CHECKING:
    from . import swa_utils as swa_utils
else:
    def __getattr__(name):
        if name == "swa_utils":
            import importlib
            return importlib.import_module("tensora.optim.swa_utils")
        raise AttributeError(f"module 'tensora.optim' has no attribute '{name}'")
