"""Optimizers; the C++ ones."""
from . import lr_scheduler, swa_utils  # noqa: F401
from .optimizer import (SGD, ASGD, Adadelta, Adafactor, Adagrad, Adam, Adamax, AdamW, LBFGS, Lion, Muon, NAdam,  # noqa: F401
                        Optimizer, RAdam, RMSprop)
from .rprop import Rprop  # noqa: F401
