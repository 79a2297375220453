"""Pooling."""
from .. import functional as F
from .conv import _spread
from .module import Module

__all__ = []


def _pooling(name, parameters, call, shown, spread=0):
    """A module with these parameters and defaults, whose forward is `call(module, *inputs)`.

    `spread`: numbers become tuples of this length, as PyTorch keeps them in some layers.
    """
    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        if len(args) > len(parameters):
            raise TypeError(f"{name}() takes at most {len(parameters)} arguments ({len(args)} given)")
        values = {**parameters, **dict(zip(parameters, args))}
        for key, value in kwargs.items():
            if key not in parameters:
                raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
            values[key] = value
        for key, value in values.items():
            if value is ...:
                raise TypeError(f"{name}() missing a required argument: '{key}'")
            setattr(self, key, value)
        if "stride" in parameters and self.stride is None and "norm_type" not in parameters:
            self.stride = self.kernel_size
        for key in shown if spread else ():
            setattr(self, key, _spread(getattr(self, key), spread))

    def extra_repr(self):
        return ", ".join(f"{key}={getattr(self, key)}" for key in shown)

    __all__.append(name)
    return type(name, (Module,), {"__init__": __init__, "forward": call, "extra_repr": extra_repr,
                                  "__module__": __name__})


_SHOWN = ("kernel_size", "stride", "padding")
for _n in (1, 2, 3):
    globals()[f"MaxPool{_n}d"] = _pooling(
        f"MaxPool{_n}d", dict(kernel_size=..., stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False),
        (lambda f: lambda m, x: f(x, m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode, m.return_indices))(
            getattr(F, f"max_pool{_n}d")), _SHOWN + ("dilation", "ceil_mode"))
    _averages = dict(kernel_size=..., stride=None, padding=0, ceil_mode=False, count_include_pad=True)
    if _n == 1:
        _call = lambda m, x: F.avg_pool1d(x, m.kernel_size, m.stride, m.padding, m.ceil_mode,  # noqa: E731
                                          m.count_include_pad)
    else:
        _averages["divisor_override"] = None
        _call = (lambda f: lambda m, x: f(x, m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad,
                                          m.divisor_override))(getattr(F, f"avg_pool{_n}d"))
    globals()[f"AvgPool{_n}d"] = _pooling(f"AvgPool{_n}d", _averages, _call, _SHOWN,
                                           1 if _n == 1 else 0)
    globals()[f"LPPool{_n}d"] = _pooling(
        f"LPPool{_n}d", dict(norm_type=..., kernel_size=..., stride=None, ceil_mode=False),
        (lambda f: lambda m, x: f(x, float(m.norm_type), m.kernel_size, m.stride or (), m.ceil_mode))(
            getattr(F, f"lp_pool{_n}d")), ("norm_type", "kernel_size", "stride", "ceil_mode"))
    globals()[f"AdaptiveAvgPool{_n}d"] = _pooling(
        f"AdaptiveAvgPool{_n}d", dict(output_size=...),
        (lambda f: lambda m, x: f(x, m.output_size))(getattr(F, f"adaptive_avg_pool{_n}d")), ("output_size",))
    globals()[f"AdaptiveMaxPool{_n}d"] = _pooling(
        f"AdaptiveMaxPool{_n}d", dict(output_size=..., return_indices=False),
        (lambda f: lambda m, x: f(x, m.output_size, m.return_indices))(getattr(F, f"adaptive_max_pool{_n}d")),
        ("output_size",))
    globals()[f"MaxUnpool{_n}d"] = _pooling(
        f"MaxUnpool{_n}d", dict(kernel_size=..., stride=None, padding=0),
        (lambda f: lambda m, x, indices, output_size=None: f(
            x, indices, m.kernel_size, m.stride, m.padding, () if output_size is None else tuple(output_size)))(
                getattr(F, f"max_unpool{_n}d")), _SHOWN, _n)


def _fractional_init(self, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                     _random_samples=None):
    Module.__init__(self)
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
    self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
    self.return_indices = return_indices
    self.register_buffer("_random_samples", _random_samples)


def _fractional_forward(self, input):
    pool = getattr(F, f"fractional_max_pool{type(self)._dims}d")
    return pool(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                self._random_samples)


for _n in (2, 3):
    __all__.append(f"FractionalMaxPool{_n}d")
    globals()[f"FractionalMaxPool{_n}d"] = type(f"FractionalMaxPool{_n}d", (Module,), {
        "__init__": _fractional_init, "forward": _fractional_forward, "_dims": _n, "__module__": __name__})
