"""Layers that take the number of their input's channels from the first input, and then become the plain layer."""
from __future__ import annotations

from typing import Any

from ... import _C
from ..common_types import Device, Dtype, _size_1_t, _size_2_t, _size_3_t
from . import conv, linear, normalization
from .module import Module

__all__ = ["LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
           "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
           "LazyInstanceNorm3d", "LazyLinear"]


class _Lazy:
    """What lazy layers share: `_fit(channels)` makes the parameters once the number of channels is known."""
    cls_to_become: type[Module] | None = None

    def has_uninitialized_params(self) -> bool:
        """Whether the number of channels is still to come."""
        return True

    def reset_parameters(self) -> None:
        if self.weight is None or self.weight.numel():  # before that there is nothing to fill
            super().reset_parameters()

    def _channels(self, input):
        return input.shape[-1 - self._dims]  # with or without a batch

    def _resized(self, name, *sizes):
        tensor = getattr(self, name)
        if tensor is not None:
            tensor.data = _C.empty(sizes, dtype=tensor.dtype, device=tensor.device)

    def _become(self, channels):
        self._fit(channels)
        self.__class__ = self.cls_to_become

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._become(self._channels(args[0]))
        return self(*args, **kwargs)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        loaded = state_dict.get(prefix + self._sized_by)
        own = getattr(self, self._sized_by)
        if not isinstance(loaded, _C.Tensor) or loaded.numel() == 0 or (own is not None and loaded.dim() != own.dim()):
            return super()._load_from_state_dict(state_dict, prefix, *args)
        self._become(self._channels_of(loaded))
        return self._load_from_state_dict(state_dict, prefix, *args)


class LazyLinear(_Lazy, linear.Linear):
    """A Linear that takes in_features from its first input; `out_features` and `bias` as there."""
    cls_to_become, _sized_by, _dims = linear.Linear, "weight", 0

    def __init__(self, out_features: int, bias: bool = True, device: Device = None, dtype: Dtype = None) -> None:
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
    _sized_by, _is_batch = "weight", True

    def _channels_of(self, weight):
        return weight.shape[0]

    def _fit(self, channels):
        self.num_features = channels
        for name in ("weight", "bias", "running_mean", "running_var"):
            self._resized(name, channels)
        self.reset_parameters()

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
