"""Folding a batch norm into the layer before it, for inference."""
import copy

from ... import _C
from ..parameter import Parameter


def _scale(bn_rv, bn_w, bn_rm, bn_eps):
    weight = _C.ones_like(bn_rm) if bn_w is None else bn_w
    return weight * _C.rsqrt(bn_rv + bn_eps)


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """Weight and bias of a convolution followed by a batch norm."""
    scale = _scale(bn_rv, bn_w, bn_rm, bn_eps)
    bias = _C.zeros_like(bn_rm) if conv_b is None else conv_b
    shift = _C.zeros_like(bn_rm) if bn_b is None else bn_b
    shape = [1, -1] + [1] * (conv_w.dim() - 2) if transpose else [-1] + [1] * (conv_w.dim() - 1)
    return (Parameter((conv_w * scale.reshape(shape)).to(conv_w.dtype).detach(), conv_w.requires_grad),
            Parameter(((bias - bn_rm) * scale + shift).to(conv_w.dtype).detach(), conv_w.requires_grad))


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of the convolution that computes bn(conv(x)); both must be in eval mode."""
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps,
                                                    bn.weight, bn.bias, transpose)
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Weight and bias of a linear layer followed by a batch norm."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear, bn):
    """A copy of the linear layer that computes bn(linear(x)); both must be in eval mode."""
    return fuse_conv_bn_eval(linear, bn)
