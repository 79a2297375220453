"""The standard's extension of Fourier transforms: PyTorch's, with `axis` and `axes`."""
from .. import _C


def _of_one(transform):
    def run(x, /, *, n=None, axis=-1, norm="backward"):
        return transform(x, n, axis, norm)
    run.__name__ = run.__qualname__ = transform.__name__
    run.__doc__ = transform.__doc__
    return run


def _of_several(transform):
    def run(x, /, *, s=None, axes=None, norm="backward"):
        return transform(x, s, axes, norm)
    run.__name__ = run.__qualname__ = transform.__name__
    run.__doc__ = transform.__doc__
    return run


fft, ifft, rfft = (_of_one(getattr(_C.fft, name)) for name in ("fft", "ifft", "rfft"))
irfft, hfft, ihfft = (_of_one(getattr(_C.fft, name)) for name in ("irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = (_of_several(getattr(_C.fft, name)) for name in ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of a transform of n samples, which are d apart."""
    return _C.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies that are not negative."""
    return _C.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x, /, *, axes=None):
    """Moves frequency 0 to the middle."""
    return _C.fft.fftshift(x, axes)


def ifftshift(x, /, *, axes=None):
    """Moves it back."""
    return _C.fft.ifftshift(x, axes)
