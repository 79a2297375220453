"""Layers that take the number of their input's channels from the first input, and then become the plain layer."""
from ... import _C
from . import conv, linear, normalization

__all__ = ["LazyLinear"]


class _Lazy:
    """What lazy layers share: `_fit(channels)` makes the parameters once the number of channels is known."""
    cls_to_become = None

    def has_uninitialized_params(self):
        """Whether the number of channels is still to come."""
        return True

    def _channels(self, input):
        return input.shape[-1 - self._dims]  # with or without a batch

    def _resized(self, name, *sizes):
        tensor = getattr(self, name)
        if tensor is not None:
            tensor.data = _C.empty(sizes, dtype=tensor.dtype, device=tensor.device)

    def _become(self, channels):
        self._fit(channels)
        self.__class__ = self.cls_to_become

    def __call__(self, *args, **kwargs):
        self._become(self._channels(args[0]))
        return self(*args, **kwargs)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        loaded = state_dict.get(prefix + self._sized_by)
        if loaded is None or loaded.numel() == 0:
            return super()._load_from_state_dict(state_dict, prefix, *args)
        self._become(self._channels_of(loaded))
        return self._load_from_state_dict(state_dict, prefix, *args)


class LazyLinear(_Lazy, linear.Linear):
    """A Linear that takes in_features from its first input."""
    cls_to_become, _sized_by, _dims = linear.Linear, "weight", 0

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, out_features, bias, device, dtype)

    def _channels_of(self, weight):
        return weight.shape[1]

    def _fit(self, channels):
        self.in_features = channels
        self._resized("weight", self.out_features, channels)
        self.reset_parameters()


class _LazyConv(_Lazy):
    _sized_by = "weight"

    def _channels_of(self, weight):
        return weight.shape[0] if self._transposed else weight.shape[1] * self.groups

    def _fit(self, channels):
        if channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        self.in_channels = channels
        sizes = ((channels, self.out_channels // self.groups) if self._transposed
                 else (self.out_channels, channels // self.groups))
        self._resized("weight", *sizes, *self.kernel_size)
        self.reset_parameters()


def _lazy_conv(name, base):
    if base._transposed:
        def __init__(self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
                     dilation=1, padding_mode="zeros", device=None, dtype=None):
            base.__init__(self, 0, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
                          padding_mode, device, dtype)
    else:
        def __init__(self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                     padding_mode="zeros", device=None, dtype=None):
            base.__init__(self, 0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                          device, dtype)
    __all__.append(name)
    return type(name, (_LazyConv, base), {"__init__": __init__, "cls_to_become": base, "__module__": __name__,
                                          "__doc__": f"A {base.__name__} that takes in_channels from its first input."})


class _LazyNorm(_Lazy):
    _sized_by = "weight"

    def _channels_of(self, weight):
        return weight.shape[0]

    def _fit(self, channels):
        self.num_features = channels
        for name in ("weight", "bias", "running_mean", "running_var"):
            self._resized(name, channels)
        self.reset_parameters()


def _lazy_norm(name, base, dims):
    is_batch = issubclass(base, normalization._BatchNorm)

    def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *,
                 bias=True):
        base.__init__(self, 0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _channels(self, input):
        self._check(input)
        return input.shape[1] if is_batch or input.dim() == max(self._allowed) else input.shape[0]
    __all__.append(name)
    return type(name, (_LazyNorm, base), {"__init__": __init__, "cls_to_become": base, "_channels": _channels,
                                          "_dims": dims, "__module__": __name__,
                                          "__doc__": f"A {base.__name__} that takes num_features from its first input."})


for _n in (1, 2, 3):
    for _kind in ("Conv", "ConvTranspose"):
        globals()[f"Lazy{_kind}{_n}d"] = _lazy_conv(f"Lazy{_kind}{_n}d", getattr(conv, f"{_kind}{_n}d"))
    for _kind in ("BatchNorm", "InstanceNorm"):
        globals()[f"Lazy{_kind}{_n}d"] = _lazy_norm(f"Lazy{_kind}{_n}d", getattr(normalization, f"{_kind}{_n}d"), _n)
