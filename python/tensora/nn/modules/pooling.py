"""Pooling: one number for each window of the last dims.

`kernel_size` is the size of the windows, `stride` the step between them (by default the kernel size), `padding` what is
added on both sides, and `dilation` the step between a window's elements. With `ceil_mode` windows that begin within the
input or its left padding count even if they end behind it.
"""
from __future__ import annotations

from typing import Any, Sequence

from ..._C import Tensor
from .. import functional as F
from ..common_types import (_ratio_2_t, _ratio_3_t, _size_1_t, _size_2_opt_t, _size_2_t, _size_3_opt_t, _size_3_t,
                            _size_any_opt_t, _size_any_t)
from .conv import _spread
from .module import Module

__all__ = ["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
           "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
           "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
           "MaxUnpool3d"]


def _shown(module: Module, *names: str) -> str:
    return ", ".join(f"{name}={getattr(module, name)}" for name in names)


class _MaxPool(Module):
    def __init__(self, kernel_size: _size_any_t, stride: _size_any_t | None = None, padding: _size_any_t = 0,
                 dilation: _size_any_t = 1, return_indices: bool = False, ceil_mode: bool = False) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def extra_repr(self) -> str:
        return _shown(self, "kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPool):
    """The maximum of each window of [N, C, L]: `kernel_size`, `stride`, `padding`, `dilation`, `ceil_mode`. With
    `return_indices` also the positions of the maxima, which MaxUnpool1d takes."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
                            return_indices=self.return_indices)


class MaxPool2d(_MaxPool):
    """The maximum of each window of [N, C, H, W]: `kernel_size`, `stride`, `padding`, `dilation`, `ceil_mode`. With
    `return_indices` also the positions of the maxima, which MaxUnpool2d takes."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
                            return_indices=self.return_indices)


class MaxPool3d(_MaxPool):
    """The maximum of each window of [N, C, D, H, W]: `kernel_size`, `stride`, `padding`, `dilation`, `ceil_mode`. With
    `return_indices` also the positions of the maxima, which MaxUnpool3d takes."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
                            return_indices=self.return_indices)


class _MaxUnpool(Module):
    _dims = 1

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size: tuple[int, ...] = _spread(kernel_size, self._dims)
        self.stride: tuple[int, ...] = _spread(kernel_size if stride is None else stride, self._dims)
        self.padding: tuple[int, ...] = _spread(padding, self._dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        unpool = getattr(F, f"max_unpool{self._dims}d")
        return unpool(input, indices, self.kernel_size, self.stride, self.padding,
                      () if output_size is None else tuple(output_size))

    def extra_repr(self) -> str:
        return _shown(self, "kernel_size", "stride", "padding")


class MaxUnpool1d(_MaxUnpool):
    """Puts the maxima of MaxPool1d back to their positions and zeros elsewhere: `kernel_size`, `stride` and `padding` are
    those of the pooling."""
    _dims = 1

    def __init__(self, kernel_size: _size_1_t, stride: _size_1_t | None = None, padding: _size_1_t = 0) -> None:
        super().__init__(kernel_size, stride, padding)


class MaxUnpool2d(_MaxUnpool):
    """Puts the maxima of MaxPool2d back to their positions and zeros elsewhere: `kernel_size`, `stride` and `padding` are
    those of the pooling."""
    _dims = 2

    def __init__(self, kernel_size: _size_2_t, stride: _size_2_t | None = None, padding: _size_2_t = 0) -> None:
        super().__init__(kernel_size, stride, padding)


class MaxUnpool3d(_MaxUnpool):
    """Puts the maxima of MaxPool3d back to their positions and zeros elsewhere: `kernel_size`, `stride` and `padding` are
    those of the pooling."""
    _dims = 3

    def __init__(self, kernel_size: _size_3_t, stride: _size_3_t | None = None, padding: _size_3_t = 0) -> None:
        super().__init__(kernel_size, stride, padding)


class AvgPool1d(Module):
    """The mean of each window of [N, C, L]: `kernel_size`, `stride`, `padding`, `ceil_mode`. `count_include_pad`: the zeros
    of the padding count as elements."""

    def __init__(self, kernel_size: _size_1_t, stride: _size_1_t | None = None, padding: _size_1_t = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True) -> None:
        super().__init__()
        self.kernel_size: tuple[int, ...] = _spread(kernel_size, 1)
        self.stride: tuple[int, ...] = _spread(kernel_size if stride is None else stride, 1)
        self.padding: tuple[int, ...] = _spread(padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return _shown(self, "kernel_size", "stride", "padding")


class _AvgPool(Module):
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def extra_repr(self) -> str:
        return _shown(self, "kernel_size", "stride", "padding")


class AvgPool2d(_AvgPool):
    """The mean of each window of [N, C, H, W]: `kernel_size`, `stride`, `padding`, `ceil_mode`. `count_include_pad`: the
    zeros of the padding count as elements; `divisor_override` divides the sums instead of the number of elements."""

    def __init__(self, kernel_size: _size_2_t, stride: _size_2_t | None = None, padding: _size_2_t = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                            self.divisor_override)


class AvgPool3d(_AvgPool):
    """The mean of each window of [N, C, D, H, W]: `kernel_size`, `stride`, `padding`, `ceil_mode`. `count_include_pad`: the
    zeros of the padding count as elements; `divisor_override` divides the sums instead of the number of elements."""

    def __init__(self, kernel_size: _size_3_t, stride: _size_3_t | None = None, padding: _size_3_t = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                            self.divisor_override)


class _LPPool(Module):
    def __init__(self, norm_type: float, kernel_size: _size_any_t, stride: _size_any_t | None = None,
                 ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def extra_repr(self) -> str:
        return _shown(self, "norm_type", "kernel_size", "stride", "ceil_mode")


class LPPool1d(_LPPool):
    """(the sum of the elements to the power `norm_type`) to the power 1 / norm_type of each window of [N, C, L]:
    `kernel_size`, `stride`, `ceil_mode`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride or (), self.ceil_mode)


class LPPool2d(_LPPool):
    """(the sum of the elements to the power `norm_type`) to the power 1 / norm_type of each window of [N, C, H, W]:
    `kernel_size`, `stride`, `ceil_mode`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride or (), self.ceil_mode)


class LPPool3d(_LPPool):
    """(the sum of the elements to the power `norm_type`) to the power 1 / norm_type of each window of [N, C, D, H, W]:
    `kernel_size`, `stride`, `ceil_mode`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride or (), self.ceil_mode)


class AdaptiveAvgPool1d(Module):
    """The means of windows of [N, C, L] that are chosen to give a result of `output_size`; None keeps the input's size."""

    def __init__(self, output_size: _size_any_opt_t) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)

    def extra_repr(self) -> str:
        return _shown(self, "output_size")


class AdaptiveAvgPool2d(Module):
    """The means of windows of [N, C, H, W] that are chosen to give a result of `output_size`; None keeps the input's size."""

    def __init__(self, output_size: _size_2_opt_t) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)

    def extra_repr(self) -> str:
        return _shown(self, "output_size")


class AdaptiveAvgPool3d(Module):
    """The means of windows of [N, C, D, H, W] that are chosen to give a result of `output_size`; None keeps the input's size."""

    def __init__(self, output_size: _size_3_opt_t) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)

    def extra_repr(self) -> str:
        return _shown(self, "output_size")


class AdaptiveMaxPool1d(Module):
    """The maxima of windows of [N, C, L] that are chosen to give a result of `output_size`; None keeps the input's size.
    With `return_indices` also their positions."""

    def __init__(self, output_size: _size_any_opt_t, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return _shown(self, "output_size")


class AdaptiveMaxPool2d(Module):
    """The maxima of windows of [N, C, H, W] that are chosen to give a result of `output_size`; None keeps the input's size.
    With `return_indices` also their positions."""

    def __init__(self, output_size: _size_2_opt_t, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return _shown(self, "output_size")


class AdaptiveMaxPool3d(Module):
    """The maxima of windows of [N, C, D, H, W] that are chosen to give a result of `output_size`; None keeps the input's size.
    With `return_indices` also their positions."""

    def __init__(self, output_size: _size_3_opt_t, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return _shown(self, "output_size")


class _FractionalMaxPool(Module):
    _random_samples: Tensor | None
    _dims = 2

    def __init__(self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
                 _random_samples: Tensor | None = None) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        pool = getattr(F, f"fractional_max_pool{self._dims}d")
        return pool(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                    self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """The maxima of windows of `kernel_size` at pseudo-random places of [N, C, H, W] (Graham, 2014), as many as `output_size`
    or `output_ratio` times the input's size say. With `return_indices` also their positions."""
    _dims = 2

    def __init__(self, kernel_size: _size_2_t, output_size: _size_2_t | None = None,
                 output_ratio: _ratio_2_t | None = None, return_indices: bool = False,
                 _random_samples: Tensor | None = None) -> None:
        super().__init__(kernel_size, output_size, output_ratio, return_indices, _random_samples)


class FractionalMaxPool3d(_FractionalMaxPool):
    """The maxima of windows of `kernel_size` at pseudo-random places of [N, C, D, H, W] (Graham, 2014), as many as `output_size`
    or `output_ratio` times the input's size say. With `return_indices` also their positions."""
    _dims = 3

    def __init__(self, kernel_size: _size_3_t, output_size: _size_3_t | None = None,
                 output_ratio: _ratio_3_t | None = None, return_indices: bool = False,
                 _random_samples: Tensor | None = None) -> None:
        super().__init__(kernel_size, output_size, output_ratio, return_indices, _random_samples)
