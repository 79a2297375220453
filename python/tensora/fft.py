"""Fourier transforms, as torch.fft."""
from . import _C

globals().update({name: value for name, value in vars(_C.fft).items() if not name.startswith("__")})
