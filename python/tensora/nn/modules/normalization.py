"""Norms and dropout. `device` and `dtype` say where and as what parameters are made."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ... import _C
from ..._C import Tensor
from .. import functional as F, init
from ..common_types import Device, Dtype
from ..parameter import Parameter
from ..._modes import no_grad
from .module import Module

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
           "LayerNorm", "RMSNorm", "GroupNorm", "LocalResponseNorm", "CrossMapLRN2d", "Dropout", "Dropout1d",
           "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "SyncBatchNorm"]


class _Norm(Module):
    """Running statistics and an affine map, both optional."""
    weight: Parameter | Any
    bias: Parameter | Any
    running_mean: Tensor | Any
    running_var: Tensor | Any
    num_batches_tracked: Tensor | Any
    _version = 2
    _allowed: tuple[int, ...] = ()

    def __init__(self, num_features: int, eps: float, momentum: float | None, affine: bool, track_running_stats: bool,
                 device: Device, dtype: Dtype, bias: bool) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        make = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(_C.ones(num_features, **make)) if affine else None)
        self.register_parameter("bias", Parameter(_C.zeros(num_features, **make)) if affine and bias else None)
        track = track_running_stats
        self.register_buffer("running_mean", _C.zeros(num_features, **make) if track else None)
        self.register_buffer("running_var", _C.ones(num_features, **make) if track else None)
        self.register_buffer("num_batches_tracked", _C.tensor(0, device=device) if track else None)

    def reset_running_stats(self) -> None:
        """Sets the running statistics to mean 0 and variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check(self, input):
        if input.dim() not in self._allowed:
            raise ValueError(f"expected {' or '.join(f'{d}D' for d in self._allowed)} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *args):
        # Files from before 2018 have no count: the module keeps its own.
        key = prefix + "num_batches_tracked"
        if local_metadata.get("version") in (None, 1) and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked.clone()
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


class _BatchNorm(_Norm):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Device = None, dtype: Dtype = None, *,
                 bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        factor = self.momentum or 0.0
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / self.num_batches_tracked.item()
        batch = self.training or self.running_mean is None
        track = not self.training or self.track_running_stats
        return F.batch_norm(input, self.running_mean if track else None, self.running_var if track else None,
                            self.weight, self.bias, batch, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch norm of [N, C] or [N, C, L] with `num_features` channels: each minus its mean, over its standard deviation.

    `eps` is added to the variance, `momentum` is the share of a batch in the running statistics (None: a
    plain mean over all batches), `affine` adds a learned scale, and `bias` a shift; without `track_running_stats` there are
    no running statistics.
    """
    _allowed = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of [N, C, H, W] with `num_features` channels: each minus its mean, over its standard deviation.

    `eps` is added to the variance, `momentum` is the share of a batch in the running statistics (None: a
    plain mean over all batches), `affine` adds a learned scale, and `bias` a shift; without `track_running_stats` there are
    no running statistics.
    """
    _allowed = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch norm of [N, C, D, H, W] with `num_features` channels: each minus its mean, over its standard deviation.

    `eps` is added to the variance, `momentum` is the share of a batch in the running statistics (None: a
    plain mean over all batches), `affine` adds a learned scale, and `bias` a shift; without `track_running_stats` there are
    no running statistics.
    """
    _allowed = (5,)


def _sum_over_ranks(group):
    """A function that sums a tensor over the ranks; its gradient is summed over them too."""
    from ... import distributed
    from ...autograd.function import Function

    class Sum(Function):
        @staticmethod
        def forward(ctx, value):
            result = value.clone()
            distributed.all_reduce(result, group=group)
            return result

        @staticmethod
        def backward(ctx, grad):
            grad = grad.contiguous().clone()
            distributed.all_reduce(grad, group=group)
            return grad
    return Sum.apply


class SyncBatchNorm(_BatchNorm):
    """Batch norm over the batches of all processes of `process_group`; `num_features`, `eps`, `momentum`, `affine`,
    `track_running_stats` and `bias` as in BatchNorm2d."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, process_group: Any = None, device: Device = None,
                 dtype: Dtype = None, *, bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        from ... import distributed
        group = self.process_group
        if not (self.training and distributed.is_initialized() and distributed.get_world_size(group) > 1):
            return super().forward(input)
        self._check(input)
        dims, total = [d for d in range(input.dim()) if d != 1], _sum_over_ranks(group)
        shape = [1, -1] + [1] * (input.dim() - 2)
        values = input.float() if input.dtype in (_C.float16, _C.bfloat16) else input
        count = total(values.new_tensor([input.numel() / input.shape[1]]))
        mean = total(values.sum(dims)) / count
        centred = values - mean.view(shape)
        variance = total((centred * centred).sum(dims)) / count
        if self.track_running_stats:
            self.num_batches_tracked.add_(1)
            momentum = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
            with no_grad():
                unbiased = variance * (count / (count - 1))
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)
        result = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            result = result * self.weight.view(shape)
            result = result if self.bias is None else result + self.bias.view(shape)
        return result.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """`module` with a SyncBatchNorm of `process_group` in place of every BatchNorm; parameters and buffers stay the same
        objects."""
        result = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            result = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                         process_group, bias=module.bias is not None)
            result._parameters, result._buffers = module._parameters, module._buffers
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


class _InstanceNorm(_Norm):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Device = None, dtype: Dtype = None, *,
                 bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        unbatched = input.dim() == min(self._allowed)
        result = F.instance_norm(input.unsqueeze(0) if unbatched else input, self.running_mean, self.running_var,
                                 self.weight, self.bias, self.training or not self.track_running_stats,
                                 self.momentum or 0.0, self.eps)
        return result.squeeze(0) if unbatched else result


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of [N, C, L] with `num_features` channels: batch norm of each sample on its own. `eps`, `momentum`,
    `affine`, `track_running_stats` and `bias` as in BatchNorm1d."""
    _allowed = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of [N, C, H, W] with `num_features` channels: batch norm of each sample on its own. `eps`, `momentum`,
    `affine`, `track_running_stats` and `bias` as in BatchNorm2d."""
    _allowed = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance norm of [N, C, D, H, W] with `num_features` channels: batch norm of each sample on its own. `eps`, `momentum`,
    `affine`, `track_running_stats` and `bias` as in BatchNorm3d."""
    _allowed = (4, 5)


def _shape(value):
    return (value,) if isinstance(value, int) else tuple(value)


class LayerNorm(Module):
    """Each row minus its mean, over its standard deviation. A row has the last dims, of sizes `normalized_shape`; `eps` is
    added to the variance; `elementwise_affine` adds a learned scale and `bias` a shift."""
    weight: Parameter | Any
    bias: Parameter | Any

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True,
                 bias: bool = True, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine = _shape(normalized_shape), eps, elementwise_affine
        make = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(_C.ones(self.normalized_shape, **make)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(_C.zeros(self.normalized_shape, **make))
                                if elementwise_affine and bias else None)

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return _C.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
                f"bias={self.bias is not None}")


class RMSNorm(Module):
    """Each row over the root of its mean square. A row has the last dims, of sizes `normalized_shape`; `eps` is added to the
    mean square (None: the smallest step of the dtype at 1); `elementwise_affine` adds a learned scale."""
    weight: Parameter | Any

    def __init__(self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True,
                 device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine = _shape(normalized_shape), eps, elementwise_affine
        self.register_parameter("weight", Parameter(_C.ones(self.normalized_shape, device=device, dtype=dtype))
                                if elementwise_affine else None)

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return _C.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Each of `num_groups` groups of the `num_channels` channels of a sample minus its mean, over its standard deviation.
    `eps` is added to the variance; `affine` adds a learned scale and `bias` a shift for each channel."""
    weight: Parameter | Any
    bias: Parameter | Any

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
                 device: Device = None, dtype: Dtype = None, *, bias: bool = True) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        make = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(_C.ones(num_channels, **make)) if affine else None)
        self.register_parameter("bias", Parameter(_C.zeros(num_channels, **make)) if affine and bias else None)

    def reset_parameters(self) -> None:
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return _C.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
                f"bias={self.bias is not None}")


class LocalResponseNorm(Module):
    """x / (`k` + `alpha` · mean of the squares of `size` neighbouring channels) to the power `beta`."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return _C.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


CrossMapLRN2d = LocalResponseNorm


class _Dropout(Module):
    _function: Callable[..., Tensor]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeroes elements with probability `p` while training and divides the others by 1 - p; `inplace`."""
    _function = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """Zeroes whole channels of [N, C, L] with probability `p` while training and divides the others by 1 - p; `inplace`."""
    _function = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """Zeroes whole channels of [N, C, H, W] with probability `p` while training and divides the others by 1 - p; `inplace`."""
    _function = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """Zeroes whole channels of [N, C, D, H, W] with probability `p` while training and divides the others by 1 - p; `inplace`."""
    _function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """Sets elements to SELU's negative limit with probability `p` while training, and keeps mean and variance; `inplace`."""
    _function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """AlphaDropout of whole channels: `p`, `inplace`."""
    _function = staticmethod(F.feature_alpha_dropout)
