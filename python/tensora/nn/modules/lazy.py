"""Layers that take the number of their input's channels from the first input, and then become the plain layer."""
from __future__ import annotations

import itertools
from typing import Any

from ... import _C
from ..common_types import Device, Dtype, _size_1_t, _size_2_t, _size_3_t
from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from . import conv, linear, normalization
from .module import Module

__all__ = ["LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
           "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
           "LazyInstanceNorm3d", "LazyLinear"]


class LazyModuleMixin:
    """For a module that learns the shapes of its parameters from its first input: they begin as UninitializedParameters,
    and `initialize_parameters`, which is called with that input, materializes them. The module then becomes a
    `cls_to_become`, if that is set.
    """
    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materializes the parameters, from the arguments of forward."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether shapes are still to come."""
        return any(map(is_lazy, itertools.chain(self._parameters.values(), self._buffers.values())))

    def _lazy_load_hook(self, state_dict, prefix, *rest):
        for name, own in itertools.chain(self._parameters.items(), self._buffers.items()):
            loaded = state_dict.get(prefix + name)
            if is_lazy(own) and isinstance(loaded, _C.Tensor) and not is_lazy(loaded) and self._takes(name, loaded.shape):
                own.materialize(loaded.shape)

    def _takes(self, name, shape):
        """Whether the parameter may have this shape."""
        return True

    @staticmethod
    def _infer_parameters(module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class _Lazy(LazyModuleMixin):
    """What the lazy layers share: `_fit(channels)` takes the number of channels, once it is known, and `_shapes(channels)`
    says what it makes of the parameters and buffers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for place, kind in ((self._parameters, UninitializedParameter), (self._buffers, UninitializedBuffer)):
            for name, own in place.items():
                if own is not None and own.dim() > 0:  # a number counts batches
                    place[name] = kind(device=own.device, dtype=own.dtype)

    def _takes(self, name, shape):
        wanted = self._shapes(-getattr(self, "groups", 1))[name]  # what follows from the number of channels is negative
        return len(shape) == len(wanted) and all(own < 0 or size == own for size, own in zip(shape, wanted))

    def reset_parameters(self) -> None:
        if self.weight is None or self.weight.numel():  # before that there is nothing to fill
            super().reset_parameters()

    def _channels(self, input):
        return input.shape[-1 - self._dims]  # with or without a batch

    def initialize_parameters(self, input: _C.Tensor, *args: Any, **kwargs: Any) -> None:
        channels = self._channels(input)
        self._fit(channels)
        if self.has_uninitialized_params():
            for name, shape in self._shapes(channels).items():
                own = getattr(self, name)
                if is_lazy(own):
                    own.materialize(shape)
            self.reset_parameters()


class LazyLinear(_Lazy, linear.Linear):
    """A Linear that takes in_features from its first input; `out_features` and `bias` as there."""
    cls_to_become, _dims = linear.Linear, 0

    def __init__(self, out_features: int, bias: bool = True, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(0, out_features, bias, device, dtype)

    def _fit(self, channels):
        self.in_features = channels

    def _shapes(self, channels):
        return {"weight": (self.out_features, channels), "bias": (self.out_features,)}


class _LazyConv(_Lazy):
    def _fit(self, channels):
        if channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        self.in_channels = channels

    def _shapes(self, channels):
        sizes = ((channels, self.out_channels // self.groups) if self._transposed
                 else (self.out_channels, channels // self.groups))
        return {"weight": (*sizes, *self.kernel_size), "bias": (self.out_channels,)}


class LazyConv1d(_LazyConv, conv.Conv1d):
    """A Conv1d that takes in_channels from its first input; `out_channels`, `kernel_size`, `stride`, `padding`, `dilation`,
    `groups`, `bias` and `padding_mode` as there."""
    cls_to_become = conv.Conv1d

    def __init__(self, out_channels: int, kernel_size: _size_1_t, stride: _size_1_t = 1,
                 padding: str | _size_1_t = 0, dilation: _size_1_t = 1, groups: int = 1, bias: bool = True,
                 padding_mode: conv._PaddingMode = "zeros", device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device,
                         dtype)


class LazyConv2d(_LazyConv, conv.Conv2d):
    """A Conv2d that takes in_channels from its first input; `out_channels`, `kernel_size`, `stride`, `padding`, `dilation`,
    `groups`, `bias` and `padding_mode` as there."""
    cls_to_become = conv.Conv2d

    def __init__(self, out_channels: int, kernel_size: _size_2_t, stride: _size_2_t = 1,
                 padding: str | _size_2_t = 0, dilation: _size_2_t = 1, groups: int = 1, bias: bool = True,
                 padding_mode: conv._PaddingMode = "zeros", device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device,
                         dtype)


class LazyConv3d(_LazyConv, conv.Conv3d):
    """A Conv3d that takes in_channels from its first input; `out_channels`, `kernel_size`, `stride`, `padding`, `dilation`,
    `groups`, `bias` and `padding_mode` as there."""
    cls_to_become = conv.Conv3d

    def __init__(self, out_channels: int, kernel_size: _size_3_t, stride: _size_3_t = 1,
                 padding: str | _size_3_t = 0, dilation: _size_3_t = 1, groups: int = 1, bias: bool = True,
                 padding_mode: conv._PaddingMode = "zeros", device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device,
                         dtype)


class LazyConvTranspose1d(_LazyConv, conv.ConvTranspose1d):
    """A ConvTranspose1d that takes in_channels from its first input; `out_channels`, `kernel_size`, `stride`, `padding`,
    `output_padding`, `groups`, `bias`, `dilation` and `padding_mode` as there."""
    cls_to_become = conv.ConvTranspose1d

    def __init__(self, out_channels: int, kernel_size: _size_1_t, stride: _size_1_t = 1, padding: _size_1_t = 0,
                 output_padding: _size_1_t = 0, groups: int = 1, bias: bool = True, dilation: _size_1_t = 1,
                 padding_mode: str = "zeros", device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(0, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
                         padding_mode, device, dtype)


class LazyConvTranspose2d(_LazyConv, conv.ConvTranspose2d):
    """A ConvTranspose2d that takes in_channels from its first input; `out_channels`, `kernel_size`, `stride`, `padding`,
    `output_padding`, `groups`, `bias`, `dilation` and `padding_mode` as there."""
    cls_to_become = conv.ConvTranspose2d

    def __init__(self, out_channels: int, kernel_size: _size_2_t, stride: _size_2_t = 1, padding: _size_2_t = 0,
                 output_padding: _size_2_t = 0, groups: int = 1, bias: bool = True, dilation: _size_2_t = 1,
                 padding_mode: str = "zeros", device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(0, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
                         padding_mode, device, dtype)


class LazyConvTranspose3d(_LazyConv, conv.ConvTranspose3d):
    """A ConvTranspose3d that takes in_channels from its first input; `out_channels`, `kernel_size`, `stride`, `padding`,
    `output_padding`, `groups`, `bias`, `dilation` and `padding_mode` as there."""
    cls_to_become = conv.ConvTranspose3d

    def __init__(self, out_channels: int, kernel_size: _size_3_t, stride: _size_3_t = 1, padding: _size_3_t = 0,
                 output_padding: _size_3_t = 0, groups: int = 1, bias: bool = True, dilation: _size_3_t = 1,
                 padding_mode: str = "zeros", device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(0, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
                         padding_mode, device, dtype)


class _LazyNorm(_Lazy):
    _is_batch = True

    def _fit(self, channels):
        self.num_features = channels

    def _shapes(self, channels):
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (channels,))

    def _channels(self, input):
        self._check(input)
        return input.shape[1] if self._is_batch or input.dim() == max(self._allowed) else input.shape[0]


class LazyBatchNorm1d(_LazyNorm, normalization.BatchNorm1d):
    """A BatchNorm1d that takes num_features from its first input; `eps`, `momentum`, `affine`, `track_running_stats` and `bias` as
    there."""
    cls_to_become = normalization.BatchNorm1d

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Device = None, dtype: Dtype = None, *,
                 bias: bool = True) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)


class LazyBatchNorm2d(_LazyNorm, normalization.BatchNorm2d):
    """A BatchNorm2d that takes num_features from its first input; `eps`, `momentum`, `affine`, `track_running_stats` and `bias` as
    there."""
    cls_to_become = normalization.BatchNorm2d

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Device = None, dtype: Dtype = None, *,
                 bias: bool = True) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)


class LazyBatchNorm3d(_LazyNorm, normalization.BatchNorm3d):
    """A BatchNorm3d that takes num_features from its first input; `eps`, `momentum`, `affine`, `track_running_stats` and `bias` as
    there."""
    cls_to_become = normalization.BatchNorm3d

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Device = None, dtype: Dtype = None, *,
                 bias: bool = True) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)


class LazyInstanceNorm1d(_LazyNorm, normalization.InstanceNorm1d):
    """A InstanceNorm1d that takes num_features from its first input; `eps`, `momentum`, `affine`, `track_running_stats` and `bias` as
    there."""
    cls_to_become, _is_batch = normalization.InstanceNorm1d, False

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Device = None, dtype: Dtype = None, *,
                 bias: bool = True) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)


class LazyInstanceNorm2d(_LazyNorm, normalization.InstanceNorm2d):
    """A InstanceNorm2d that takes num_features from its first input; `eps`, `momentum`, `affine`, `track_running_stats` and `bias` as
    there."""
    cls_to_become, _is_batch = normalization.InstanceNorm2d, False

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Device = None, dtype: Dtype = None, *,
                 bias: bool = True) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)


class LazyInstanceNorm3d(_LazyNorm, normalization.InstanceNorm3d):
    """A InstanceNorm3d that takes num_features from its first input; `eps`, `momentum`, `affine`, `track_running_stats` and `bias` as
    there."""
    cls_to_become, _is_batch = normalization.InstanceNorm3d, False

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Device = None, dtype: Dtype = None, *,
                 bias: bool = True) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
