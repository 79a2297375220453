"""Norms and dropout."""
from ... import _C
from .. import functional as F, init
from ..parameter import Parameter
from ..._modes import no_grad
from .module import Module

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
           "LayerNorm", "RMSNorm", "GroupNorm", "LocalResponseNorm", "CrossMapLRN2d", "Dropout", "Dropout1d",
           "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "SyncBatchNorm"]


class _Norm(Module):
    """Running statistics and an affine map, both optional."""
    _version = 2

    def __init__(self, num_features, eps, momentum, affine, track_running_stats, device, dtype, bias):
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

    def reset_running_stats(self):
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check(self, input):
        if input.dim() not in self._allowed:
            raise ValueError(f"expected {' or '.join(f'{d}D' for d in self._allowed)} input (got {input.dim()}D input)")

    def extra_repr(self):
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")


    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *args):
        # Files from before 2018 have no count: the module keeps its own.
        key = prefix + "num_batches_tracked"
        if local_metadata.get("version") in (None, 1) and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked.clone()
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


class _BatchNorm(_Norm):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None,
                 dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input):
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
    """Batch norm of [N, C] or [N, C, L]."""
    _allowed = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of [N, C, H, W]."""
    _allowed = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch norm of [N, C, D, H, W]."""
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
    """Batch norm over the batches of all processes of the group."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None,
                 device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group

    def _check(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input):
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
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with SyncBatchNorm in place of every BatchNorm; parameters and buffers stay the same objects."""
        result = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            result = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                         process_group)
            result._parameters, result._buffers = module._parameters, module._buffers
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


class _InstanceNorm(_Norm):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None,
                 dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input):
        self._check(input)
        unbatched = input.dim() == min(self._allowed)
        result = F.instance_norm(input.unsqueeze(0) if unbatched else input, self.running_mean, self.running_var,
                                 self.weight, self.bias, self.training or not self.track_running_stats,
                                 self.momentum or 0.0, self.eps)
        return result.squeeze(0) if unbatched else result


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of [N, C, L]."""
    _allowed = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of [N, C, H, W]."""
    _allowed = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance norm of [N, C, D, H, W]."""
    _allowed = (4, 5)


def _shape(value):
    return (value,) if isinstance(value, int) else tuple(value)


class LayerNorm(Module):
    """Each row minus its mean, over its standard deviation."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine = _shape(normalized_shape), eps, elementwise_affine
        make = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(_C.ones(self.normalized_shape, **make)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(_C.zeros(self.normalized_shape, **make))
                                if elementwise_affine and bias else None)

    def reset_parameters(self):
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input):
        return _C.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
                f"bias={self.bias is not None}")


class RMSNorm(Module):
    """Each row over the root of its mean square."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine = _shape(normalized_shape), eps, elementwise_affine
        self.register_parameter("weight", Parameter(_C.ones(self.normalized_shape, device=device, dtype=dtype))
                                if elementwise_affine else None)

    def reset_parameters(self):
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input):
        return _C.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Norm over groups of channels."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        make = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(_C.ones(num_channels, **make)) if affine else None)
        self.register_parameter("bias", Parameter(_C.zeros(num_channels, **make)) if affine and bias else None)

    def reset_parameters(self):
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input):
        return _C.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
                f"bias={self.bias is not None}")


class LocalResponseNorm(Module):
    """Norm over neighbouring channels."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        return _C.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


CrossMapLRN2d = LocalResponseNorm


class _Dropout(Module):
    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input):
        return self._function(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeroes elements with probability p while training."""
    _function = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    _function = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    _function = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    _function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    _function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    _function = staticmethod(F.feature_alpha_dropout)
