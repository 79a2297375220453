"""Modules that rearrange, pad and resize."""
from __future__ import annotations

from typing import Any, Sequence

from ... import _C
from ..._C import Tensor
from .. import functional as F
from ..common_types import _ratio_2_t, _ratio_any_t, _size_2_t, _size_4_t, _size_6_t, _size_any_t
from .module import Module

__all__ = ["Flatten", "Unflatten", "PixelShuffle", "PixelUnshuffle", "ChannelShuffle", "Upsample",
           "UpsamplingNearest2d", "UpsamplingBilinear2d", "CosineSimilarity", "PairwiseDistance", "CircularPad1d",
           "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
           "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d",
           "ZeroPad2d", "ZeroPad3d"]


class Flatten(Module):
    """Joins the dims from `start_dim` to `end_dim` into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits `dim` into dims of the sizes `unflattened_size`."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class PixelShuffle(Module):
    """Moves channels into space: [N, C r², H, W] becomes [N, C, H r, W r] for r = `upscale_factor`."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Moves space into channels: [N, C, H r, W r] becomes [N, C r², H, W] for r = `downscale_factor`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleaves `groups` groups of channels."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Upsample(Module):
    """Resizes the last dims to `size` or by `scale_factor`.

    `mode` is "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear" or "area". `align_corners` puts the
    corners of input and result on each other; `recompute_scale_factor` computes the factor anew from the rounded size.
    """

    def __init__(self, size: _size_any_t | None = None, scale_factor: _ratio_any_t | None = None, mode: str = "nearest",
                 align_corners: bool | None = None, recompute_scale_factor: bool | None = None) -> None:
        super().__init__()
        self.size, self.mode = size, mode
        self.scale_factor = (None if scale_factor is None else tuple(map(float, scale_factor))
                             if isinstance(scale_factor, (tuple, list)) else float(scale_factor))
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             self.recompute_scale_factor)

    def extra_repr(self) -> str:
        what = f"scale_factor={self.scale_factor}" if self.scale_factor is not None else f"size={self.size}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizes [N, C, H, W] to `size` or by `scale_factor`, by the nearest neighbour."""

    def __init__(self, size: _size_2_t | None = None, scale_factor: _ratio_2_t | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes [N, C, H, W] to `size` or by `scale_factor`, bilinearly, with corners on corners."""

    def __init__(self, size: _size_2_t | None = None, scale_factor: _ratio_2_t | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`; norms are at least `eps`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return _C.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The `p`-norm of x1 - x2 + `eps` along the last dim, which is kept with size 1 if `keepdim`."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return _C.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class _Pad(Module):
    padding: tuple[int, ...]
    _dims, _mode = 1, "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self._dims) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        if self._mode == "circular" and input.dim() not in (self._dims + 1, self._dims + 2):
            raise ValueError(f"expected {self._dims + 1}D or {self._dims + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    value: float

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Adds `padding` elements `value` at the sides of [N, C, L]; a tuple has the numbers for left and right."""
    _dims = 1

    def __init__(self, padding: _size_2_t, value: float) -> None:
        super().__init__(padding, value)


class ZeroPad1d(_ConstantPad):
    """Adds `padding` zeros at the sides of [N, C, L]; a tuple has the numbers for left and right."""
    _dims = 1

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ReflectionPad1d(_Pad):
    """Adds `padding` elements at the sides of [N, C, L], their mirror image, without the border itself; a tuple has the numbers for left and right."""
    _dims, _mode = 1, "reflect"

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__(padding)


class ReplicationPad1d(_Pad):
    """Adds `padding` elements at the sides of [N, C, L], copies of the border; a tuple has the numbers for left and right."""
    _dims, _mode = 1, "replicate"

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__(padding)


class CircularPad1d(_Pad):
    """Adds `padding` elements at the sides of [N, C, L], the elements of the opposite side; a tuple has the numbers for left and right."""
    _dims, _mode = 1, "circular"

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__(padding)


class ConstantPad2d(_ConstantPad):
    """Adds `padding` elements `value` at the sides of [N, C, H, W]; a tuple has the numbers for left, right, top and bottom."""
    _dims = 2

    def __init__(self, padding: _size_4_t, value: float) -> None:
        super().__init__(padding, value)


class ZeroPad2d(_ConstantPad):
    """Adds `padding` zeros at the sides of [N, C, H, W]; a tuple has the numbers for left, right, top and bottom."""
    _dims = 2

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ReflectionPad2d(_Pad):
    """Adds `padding` elements at the sides of [N, C, H, W], their mirror image, without the border itself; a tuple has the numbers for left, right, top and bottom."""
    _dims, _mode = 2, "reflect"

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__(padding)


class ReplicationPad2d(_Pad):
    """Adds `padding` elements at the sides of [N, C, H, W], copies of the border; a tuple has the numbers for left, right, top and bottom."""
    _dims, _mode = 2, "replicate"

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__(padding)


class CircularPad2d(_Pad):
    """Adds `padding` elements at the sides of [N, C, H, W], the elements of the opposite side; a tuple has the numbers for left, right, top and bottom."""
    _dims, _mode = 2, "circular"

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__(padding)


class ConstantPad3d(_ConstantPad):
    """Adds `padding` elements `value` at the sides of [N, C, D, H, W]; a tuple has the numbers for left, right, top, bottom, front and back."""
    _dims = 3

    def __init__(self, padding: _size_6_t, value: float) -> None:
        super().__init__(padding, value)


class ZeroPad3d(_ConstantPad):
    """Adds `padding` zeros at the sides of [N, C, D, H, W]; a tuple has the numbers for left, right, top, bottom, front and back."""
    _dims = 3

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ReflectionPad3d(_Pad):
    """Adds `padding` elements at the sides of [N, C, D, H, W], their mirror image, without the border itself; a tuple has the numbers for left, right, top, bottom, front and back."""
    _dims, _mode = 3, "reflect"

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__(padding)


class ReplicationPad3d(_Pad):
    """Adds `padding` elements at the sides of [N, C, D, H, W], copies of the border; a tuple has the numbers for left, right, top, bottom, front and back."""
    _dims, _mode = 3, "replicate"

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__(padding)


class CircularPad3d(_Pad):
    """Adds `padding` elements at the sides of [N, C, D, H, W], the elements of the opposite side; a tuple has the numbers for left, right, top, bottom, front and back."""
    _dims, _mode = 3, "circular"

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__(padding)
