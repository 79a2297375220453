"""Convolutions."""
from __future__ import annotations

import math
from typing import Any, Callable, Literal, Sequence

from ... import _C
from ..._C import Tensor
from .. import functional as F, init
from ..common_types import Device, Dtype, _size_1_t, _size_2_t, _size_3_t, _size_any_t
from ..parameter import Parameter
from .module import Module

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Unfold", "Fold"]


def _spread(value, n):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


_PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]


class _ConvNd(Module):
    weight: Parameter
    bias: Parameter | Any
    in_channels: int
    out_channels: int
    groups: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    padding_mode: str
    _dims = 2
    _transposed = False
    _function: Callable[..., Tensor]

    def _setup(self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
               output_padding, device, dtype):
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of ['same', 'valid']")
        if padding == "same" and any(s != 1 for s in ((stride,) if isinstance(stride, int) else stride)):
            raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError("padding_mode must be one of ['zeros', 'reflect', 'replicate', 'circular'], but got "
                             f"padding_mode='{padding_mode}'")
        n = self._dims
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (_spread(v, n) for v in (kernel_size, stride, dilation))
        self.padding = padding if isinstance(padding, str) else _spread(padding, n)
        self.output_padding, self.transposed = _spread(output_padding, n), self._transposed
        self.padding_mode = padding_mode
        channels = ((in_channels, out_channels // groups) if self._transposed
                    else (out_channels, in_channels // groups))
        self.weight = Parameter(_C.empty(channels + self.kernel_size, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_C.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = init._calculate_fan_in_and_fan_out(self.weight)[0]
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def _padded(self, input):
        """For the modes that convolutions themselves do not have: pads first."""
        if self.padding == "valid":
            both = (0, 0) * self._dims
        elif self.padding == "same":
            both = []
            for d, k in zip(reversed(self.dilation), reversed(self.kernel_size)):
                both += [d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2]
        else:
            both = [p for p in reversed(self.padding) for _ in range(2)]
        return F.pad(input, both, mode=self.padding_mode)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if isinstance(self.padding, str) or any(self.padding):
            text += f", padding={self.padding}"
        if any(d != 1 for d in self.dilation):
            text += f", dilation={self.dilation}"
        if any(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")


class _Forward(_ConvNd):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
                 device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        self._setup(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, 0,
                    device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        if self.padding_mode == "zeros":
            return self._function(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        return self._function(self._padded(input), self.weight, self.bias, self.stride, 0, self.dilation, self.groups)

    def _conv_forward(self, input, weight, bias):
        return self._function(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_Forward):
    """Convolution of [N, C, L] from `in_channels` to `out_channels` channels.

    `kernel_size` is the size of the filters, `stride` their step, `dilation` the step between their elements. `padding` is
    what is added on both sides, or "same" or "valid"; `padding_mode` says of what: "zeros", "reflect", "replicate" or
    "circular". `groups` divides the channels into parts that do not meet; `bias` adds a number to each channel.
    """
    _dims, _function = 1, staticmethod(_C.conv1d)

    def __init__(self, in_channels: int, out_channels: int, kernel_size: _size_1_t, stride: _size_1_t = 1,
                 padding: str | _size_1_t = 0, dilation: _size_1_t = 1, groups: int = 1, bias: bool = True,
                 padding_mode: _PaddingMode = "zeros", device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                         device, dtype)


class Conv2d(_Forward):
    """Convolution of [N, C, H, W] from `in_channels` to `out_channels` channels.

    `kernel_size` is the size of the filters, `stride` their step, `dilation` the step between their elements. `padding` is
    what is added on both sides, or "same" or "valid"; `padding_mode` says of what: "zeros", "reflect", "replicate" or
    "circular". `groups` divides the channels into parts that do not meet; `bias` adds a number to each channel.

    >>> nn.Conv2d(3, 8, 3, padding=1)(tensora.zeros(1, 3, 5, 5)).shape
    tensora.Size([1, 8, 5, 5])
    """
    _dims, _function = 2, staticmethod(_C.conv2d)

    def __init__(self, in_channels: int, out_channels: int, kernel_size: _size_2_t, stride: _size_2_t = 1,
                 padding: str | _size_2_t = 0, dilation: _size_2_t = 1, groups: int = 1, bias: bool = True,
                 padding_mode: _PaddingMode = "zeros", device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                         device, dtype)


class Conv3d(_Forward):
    """Convolution of [N, C, D, H, W] from `in_channels` to `out_channels` channels.

    `kernel_size` is the size of the filters, `stride` their step, `dilation` the step between their elements. `padding` is
    what is added on both sides, or "same" or "valid"; `padding_mode` says of what: "zeros", "reflect", "replicate" or
    "circular". `groups` divides the channels into parts that do not meet; `bias` adds a number to each channel.
    """
    _dims, _function = 3, staticmethod(_C.conv3d)

    def __init__(self, in_channels: int, out_channels: int, kernel_size: _size_3_t, stride: _size_3_t = 1,
                 padding: str | _size_3_t = 0, dilation: _size_3_t = 1, groups: int = 1, bias: bool = True,
                 padding_mode: _PaddingMode = "zeros", device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                         device, dtype)


class _Transposed(_ConvNd):
    _transposed = True

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
                 output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1,
                 padding_mode: str = "zeros", device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._setup(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                    output_padding, device, dtype)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The result; `output_size` chooses among the sizes that the stride leaves open."""
        extra = self.output_padding
        if output_size is not None:
            spatial = list(output_size)[-self._dims:]
            least = [(s - 1) * st - 2 * p + d * (k - 1) + 1 for s, st, p, d, k in
                     zip(input.shape[-self._dims:], self.stride, self.padding, self.dilation, self.kernel_size)]
            extra = [wanted - low for wanted, low in zip(spatial, least)]
            if any(not 0 <= e < max(s, d) for e, s, d in zip(extra, self.stride, self.dilation)):
                raise ValueError(f"requested an output size of {spatial}, which is out of reach of {least}")
        return self._function(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                              self.dilation)


class ConvTranspose1d(_Transposed):
    """Transposed convolution of [N, C, L]: the gradient of Conv1d with respect to its input, with `in_channels`,
    `out_channels`, `kernel_size`, `stride`, `padding`, `groups`, `bias` and `dilation` as there. `output_padding` is added
    to the size of the result at one side; `padding_mode` is "zeros"."""
    _dims, _function = 1, staticmethod(_C.conv_transpose1d)

    def __init__(self, in_channels: int, out_channels: int, kernel_size: _size_1_t, stride: _size_1_t = 1,
                 padding: _size_1_t = 0, output_padding: _size_1_t = 0, groups: int = 1, bias: bool = True,
                 dilation: _size_1_t = 1, padding_mode: str = "zeros", device: Device = None,
                 dtype: Dtype = None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
                         padding_mode, device, dtype)


class ConvTranspose2d(_Transposed):
    """Transposed convolution of [N, C, H, W]: the gradient of Conv2d with respect to its input, with `in_channels`,
    `out_channels`, `kernel_size`, `stride`, `padding`, `groups`, `bias` and `dilation` as there. `output_padding` is added
    to the size of the result at one side; `padding_mode` is "zeros"."""
    _dims, _function = 2, staticmethod(_C.conv_transpose2d)

    def __init__(self, in_channels: int, out_channels: int, kernel_size: _size_2_t, stride: _size_2_t = 1,
                 padding: _size_2_t = 0, output_padding: _size_2_t = 0, groups: int = 1, bias: bool = True,
                 dilation: _size_2_t = 1, padding_mode: str = "zeros", device: Device = None,
                 dtype: Dtype = None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
                         padding_mode, device, dtype)


class ConvTranspose3d(_Transposed):
    """Transposed convolution of [N, C, D, H, W]: the gradient of Conv3d with respect to its input, with `in_channels`,
    `out_channels`, `kernel_size`, `stride`, `padding`, `groups`, `bias` and `dilation` as there. `output_padding` is added
    to the size of the result at one side; `padding_mode` is "zeros"."""
    _dims, _function = 3, staticmethod(_C.conv_transpose3d)

    def __init__(self, in_channels: int, out_channels: int, kernel_size: _size_3_t, stride: _size_3_t = 1,
                 padding: _size_3_t = 0, output_padding: _size_3_t = 0, groups: int = 1, bias: bool = True,
                 dilation: _size_3_t = 1, padding_mode: str = "zeros", device: Device = None,
                 dtype: Dtype = None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
                         padding_mode, device, dtype)


class Unfold(Module):
    """The patches of images [N, C, H, W] as columns: `kernel_size` is their size, `dilation` the step between elements, `padding`
    what is added on both sides, `stride` the step between patches."""

    def __init__(self, kernel_size: _size_any_t, dilation: _size_any_t = 1, padding: _size_any_t = 0,
                 stride: _size_any_t = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
                f"stride={self.stride}")


class Fold(Module):
    """The images of `output_size` that are the sums of patches, given as the columns that Unfold makes with `kernel_size`,
    `dilation`, `padding` and `stride`."""

    def __init__(self, output_size: _size_any_t, kernel_size: _size_any_t, dilation: _size_any_t = 1,
                 padding: _size_any_t = 0, stride: _size_any_t = 1) -> None:
        super().__init__()
        self.output_size, self.kernel_size, self.dilation = output_size, kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
                f"padding={self.padding}, stride={self.stride}")
