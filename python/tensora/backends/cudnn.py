"""import torch.backends.cudnn as cudnn"""
import sys

from . import cudnn as _switches

sys.modules[__name__] = _switches  # assignments to its attributes must reach the switches
