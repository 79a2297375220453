"""Window functions: symmetric ones for filters, periodic ones (sym=False) for spectra."""
import math

from .. import _C

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming",
           "hamming", "hann", "kaiser", "nuttall"]


class _Made:
    """The arguments that all windows share: `size`, and what tensors are made with."""

    def __init__(self, who, M, dtype, layout, device, requires_grad):
        dtype = _C.get_default_dtype() if dtype is None else dtype
        if M < 0:
            raise ValueError(f"{who} requires non-negative window length, got M={M}")
        if layout is not _C.strided:
            raise ValueError(f"{who} is implemented for strided tensors only, got: {layout}")
        if dtype not in (_C.float32, _C.float64):
            raise ValueError(f"{who} expects float32 or float64 dtypes, got: {dtype}")
        self.size = M
        self.options = dict(dtype=dtype, device=device, requires_grad=requires_grad)

    def ones(self):
        return _C.ones(self.size, **self.options)

    def steps(self, start, step):
        """start, start + step, … as many as the window is long."""
        return _C.linspace(start, start + (self.size - 1) * step, self.size, **self.options)


def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """exp(-|n - center| / tau)"""
    made = _Made("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M == 0:
        return made.ones()
    if center is None:
        center = (M if not sym and M > 1 else M - 1) / 2
    return _C.exp(-_C.abs(made.steps(-center / tau, 1 / tau)))


def cosine(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """Half a period of a sine."""
    made = _Made("cosine", M, dtype, layout, device, requires_grad)
    if M == 0:
        return made.ones()
    step = math.pi / (M + 1 if not sym and M > 1 else M)
    return _C.sin(made.steps(0.5 * step, step))


def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """exp(-(n / std)² / 2) around the middle."""
    made = _Made("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M == 0:
        return made.ones()
    step = 1 / (std * math.sqrt(2))
    return _C.exp(-made.steps(-(M if not sym and M > 1 else M - 1) / 2 * step, step) ** 2)


def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """i0(beta sqrt(1 - x²)) / i0(beta), x from -1 to 1."""
    made = _Made("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return made.ones()
    x = made.steps(-1.0, 2 / (M - 1 if sym else M)).clamp(-1, 1)
    top = _C.full((), float(beta), dtype=made.options["dtype"], device=device)
    return _C.i0(top * _C.sqrt(1 - x * x)) / _C.i0(top)


def bartlett(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """A triangle that begins at 0."""
    made = _Made("bartlett", M, dtype, layout, device, requires_grad)
    return made.ones() if M < 2 else 1 - _C.abs(made.steps(-1, 2 / (M - 1 if sym else M)))


def general_cosine(M, *, a, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """A sum of cosines: a[0] - a[1] cos(x) + a[2] cos(2 x) - …"""
    made = _Made("general_cosine", M, dtype, layout, device, requires_grad)
    if M < 2:
        return made.ones()
    if not hasattr(a, "__iter__"):
        raise TypeError("Coefficients must be a list/tuple")
    factors = [(-1) ** i * w for i, w in enumerate(a)]
    if not factors:
        raise ValueError("Coefficients cannot be empty")
    x = made.steps(0.0, 2 * math.pi / (M - 1 if sym else M))
    factors = _C.tensor(factors, **made.options)
    multiples = _C.arange(len(factors), dtype=x.dtype, device=x.device)
    return (factors.unsqueeze(-1) * _C.cos(multiples.unsqueeze(-1) * x)).sum(0)


def _fixed(name, text, *a):
    def window(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
        return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    window.__name__ = window.__qualname__ = name
    window.__doc__ = text
    return window


def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """alpha - (1 - alpha) cos(x)"""
    return general_cosine(M, a=(alpha, 1.0 - alpha), sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)


hamming = _fixed("hamming", "0.54 - 0.46 cos(x)", 0.54, 1.0 - 0.54)
hann = _fixed("hann", "A raised cosine.", 0.5, 0.5)
blackman = _fixed("blackman", "Three cosines, with low side lobes.", 0.42, 0.5, 0.08)
nuttall = _fixed("nuttall", "Four cosines, with lower side lobes.", 0.3635819, 0.4891775, 0.1365995, 0.0106411)
