"""The functions behind the layers. Those that are not written out here are the ops themselves."""
from __future__ import annotations

import builtins
import warnings
from typing import TYPE_CHECKING, Any, Sequence

from .. import _C
from .._C import Tensor
from .common_types import Dtype, _ratio_2_t, _ratio_3_t, _size_2_t, _size_3_t, _size_any_opt_t, _size_any_t

if TYPE_CHECKING:
    from .._C import (
        adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices as
        adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
        affine_grid as affine_grid, avg_pool1d as avg_pool1d, avg_pool3d as avg_pool3d, bilinear as bilinear, celu_ as
        celu_, channel_shuffle as channel_shuffle, conv1d as conv1d, conv2d as conv2d, conv3d as conv3d,
        conv_transpose1d as conv_transpose1d, conv_transpose2d as conv_transpose2d, conv_transpose3d as
        conv_transpose3d, cosine_similarity as cosine_similarity, ctc_loss as ctc_loss, elu_ as elu_, embedding_bag as
        embedding_bag, fold as fold, glu as glu, group_norm as group_norm, hardtanh_ as hardtanh_, instance_norm as
        instance_norm, leaky_relu_ as leaky_relu_, linear as linear, local_response_norm as local_response_norm,
        lp_pool1d as lp_pool1d, lp_pool3d as lp_pool3d, max_pool1d_with_indices as max_pool1d_with_indices,
        max_pool2d_with_indices as max_pool2d_with_indices, max_pool3d_with_indices as max_pool3d_with_indices,
        max_unpool1d as max_unpool1d, max_unpool2d as max_unpool2d, max_unpool3d as max_unpool3d, pairwise_distance as
        pairwise_distance, pdist as pdist, pixel_shuffle as pixel_shuffle, pixel_unshuffle as pixel_unshuffle, prelu
        as prelu, relu_ as relu_, rms_norm as rms_norm, rrelu_ as rrelu_, selu_ as selu_, softplus as softplus,
        softshrink as softshrink, softsign as softsign, tanhshrink as tanhshrink, threshold_ as threshold_)

    def unfold(input: Tensor, kernel_size: _size_any_t, dilation: _size_any_t = 1, padding: _size_any_t = 0,
               stride: _size_any_t = 1) -> Tensor: ...

# Every function of the core is here too; names with a form for layers and one for tensors have the former.
globals().update({name: value for name, value in vars(_C).items()
                  if type(value).__name__ == "builtin_function" and not name.startswith("_")})
globals().update({name: value for name, value in vars(_C.nn).items() if not name.startswith("__")})


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(0, input); with `inplace` written over `input`."""
    return (_C.relu_ if inplace else _C.relu)(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(0, input), 6); with `inplace` written over `input`."""
    return (_C.relu6_ if inplace else _C.relu6)(input)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu with the scale and alpha that keep mean 0 and variance 1; with `inplace` written over `input`."""
    return (_C.selu_ if inplace else _C.selu)(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """input · sigmoid(input); with `inplace` written over `input`."""
    return (_C.silu_ if inplace else _C.silu)(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """input · tanh(softplus(input)); with `inplace` written over `input`."""
    return (_C.mish_ if inplace else _C.mish)(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(0, input / 6 + 1 / 2), 1); with `inplace` written over `input`."""
    return (_C.hardsigmoid_ if inplace else _C.hardsigmoid)(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """input · hardsigmoid(input); with `inplace` written over `input`."""
    return (_C.hardswish_ if inplace else _C.hardswish)(input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, and `alpha` (exp(input) - 1) elsewhere; with `inplace` written over `input`."""
    return (_C.elu_ if inplace else _C.elu)(input, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, input) + min(0, `alpha` (exp(input / alpha) - 1)); with `inplace` written over `input`."""
    return (_C.celu_ if inplace else _C.celu)(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """input where it is positive, and `negative_slope` input elsewhere; with `inplace` written over `input`."""
    return (_C.leaky_relu_ if inplace else _C.leaky_relu)(input, negative_slope)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`input` where it is greater than `threshold`, and `value` elsewhere; with `inplace` written over `input`."""
    return (_C.threshold_ if inplace else _C.threshold)(input, threshold, value)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` clamped to [`min_val`, `max_val`]; with `inplace` written over `input`."""
    return (_C.hardtanh_ if inplace else _C.hardtanh)(input, min_val, max_val)


def rrelu(input: Tensor, lower: float = 1. / 8, upper: float = 1. / 3, training: bool = False,
          inplace: bool = False) -> Tensor:
    """`input` where it is positive, and `input` times a slope elsewhere: if `training` a random one between `lower` and
    `upper` for each element, otherwise their mean; with `inplace` written over `input`."""
    return (_C.rrelu_ if inplace else _C.rrelu)(input, lower, upper, training)


def _drop(function: Any, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training:
        return input
    result = function(input, p, training)
    return input.copy_(result) if inplace else result


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements of `input` with probability `p` and divides the others by 1 - p.
    Without `training` it is the identity; `inplace` writes over the input."""
    return _drop(_C.dropout, input, p, training, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of `input` [N, C, L] with probability `p` and divides the others by 1 - p.
    Without `training` it is the identity; `inplace` writes over the input."""
    return _drop(_C.dropout1d, input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of `input` [N, C, H, W] with probability `p` and divides the others by 1 - p.
    Without `training` it is the identity; `inplace` writes over the input."""
    return _drop(_C.dropout2d, input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of `input` [N, C, D, H, W] with probability `p` and divides the others by 1 - p.
    Without `training` it is the identity; `inplace` writes over the input."""
    return _drop(_C.dropout3d, input, p, training, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Sets elements of `input` to SELU's negative limit with probability `p`, and keeps mean and variance.
    Without `training` it is the identity; `inplace` writes over the input."""
    return _drop(_C.alpha_dropout, input, p, training, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """alpha_dropout of whole channels of `input` with probability `p`.
    Without `training` it is the identity; `inplace` writes over the input."""
    return _drop(_C.feature_alpha_dropout, input, p, training, inplace)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype = None) -> Tensor:
    """exp(input) over its sum along `dim`, computed in `dtype` if one is given."""
    return _C.softmax(input, _dim(input, dim), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype = None) -> Tensor:
    """The logarithm of softmax(input) along `dim`, computed in `dtype` if one is given."""
    return _C.log_softmax(input, _dim(input, dim), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype = None) -> Tensor:
    """softmax(-input) along `dim`, computed in `dtype` if one is given."""
    return _C.softmax(-input, _dim(input, dim), dtype)


def _dim(input: Tensor, dim: int | None) -> int:
    return dim if dim is not None else (0 if input.dim() in (0, 1, 3) else 1)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Samples of the Gumbel-softmax distribution of `logits` at temperature `tau` along `dim`. `hard` makes them one-hot
    and keeps their gradients; `eps` has no effect."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    return _C.gumbel_softmax(logits, float(tau), hard, dim)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input · Φ(input), with Φ the distribution function of the normal distribution; `approximate` "tanh" is faster."""
    return _C.gelu(input, approximate)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input))"""
    return _C.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent of `input`."""
    return _C.tanh(input)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input` where |input| is greater than `lambd`, and 0 elsewhere."""
    return _C.hardshrink(input, lambd)


def logsigmoid(input: Tensor) -> Tensor:
    """log(1 / (1 + exp(-input)))"""
    return _C.logsigmoid(input)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A vector of `num_classes` numbers, one 1 and zeros, for each element of `tensor`; -1 takes its maximum plus 1."""
    return _C.one_hot(tensor, num_classes)


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """The rows of `weight` that `input` names. The row `padding_idx` gets no gradient; rows whose `norm_type`-norm is above
    `max_norm` are scaled down in place; `scale_grad_by_freq` divides gradients by how often their row occurs. With
    `sparse` the gradient is a sparse tensor of the rows that were used."""
    return _C.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)


def _max_pool(name: str, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
              return_indices: bool) -> Any:
    function = getattr(_C, name + "_with_indices" if return_indices else name)
    return function(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)


def _adaptive(dims: int, function: Any, input: Tensor, size: Any) -> Any:
    """Calls the op with the size that it takes: -1 stands for None there, and a single number for all dims."""
    if isinstance(size, int):
        size = (size,) * dims
    elif dims > 1 and input.dim() <= len(size):
        raise ValueError(f"adaptive pooling: input must have at least {len(size) + 1} dims, got {input.dim()}")
    if len(size) != dims:
        raise RuntimeError(f"adaptive pooling: output_size must be an int or {dims} ints, got {size}")
    if builtins.any(wanted is not None and wanted < 0 for wanted in size):
        raise RuntimeError(f"adaptive pooling: output_size must not be negative, got {size}")
    return function(input, [-1 if wanted is None else wanted for wanted in size])


def max_pool1d(input: Tensor, kernel_size: _size_any_t, stride: _size_any_t | None = None, padding: _size_any_t = 0,
               dilation: _size_any_t = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The maxima of windows of `input`; `kernel_size`, `stride`, `padding`, `dilation`, `ceil_mode` and `return_indices` as
    in nn.MaxPool1d."""
    return _max_pool("max_pool1d", input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def adaptive_max_pool1d(input: Tensor, output_size: _size_any_opt_t, return_indices: bool = False) -> Any:
    """The maxima of windows of `input` that give a result of `output_size`; with `return_indices` also their positions."""
    function = _C.adaptive_max_pool1d_with_indices if return_indices else _C.adaptive_max_pool1d
    return _adaptive(1, function, input, output_size)


def adaptive_avg_pool1d(input: Tensor, output_size: _size_any_opt_t) -> Tensor:
    """The means of windows of `input` that give a result of `output_size`."""
    return _adaptive(1, _C.adaptive_avg_pool1d, input, output_size)


def max_pool2d(input: Tensor, kernel_size: _size_any_t, stride: _size_any_t | None = None, padding: _size_any_t = 0,
               dilation: _size_any_t = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The maxima of windows of `input`; `kernel_size`, `stride`, `padding`, `dilation`, `ceil_mode` and `return_indices` as
    in nn.MaxPool2d."""
    return _max_pool("max_pool2d", input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: _size_any_opt_t, return_indices: bool = False) -> Any:
    """The maxima of windows of `input` that give a result of `output_size`; with `return_indices` also their positions."""
    function = _C.adaptive_max_pool2d_with_indices if return_indices else _C.adaptive_max_pool2d
    return _adaptive(2, function, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: _size_any_opt_t) -> Tensor:
    """The means of windows of `input` that give a result of `output_size`."""
    return _adaptive(2, _C.adaptive_avg_pool2d, input, output_size)


def max_pool3d(input: Tensor, kernel_size: _size_any_t, stride: _size_any_t | None = None, padding: _size_any_t = 0,
               dilation: _size_any_t = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The maxima of windows of `input`; `kernel_size`, `stride`, `padding`, `dilation`, `ceil_mode` and `return_indices` as
    in nn.MaxPool3d."""
    return _max_pool("max_pool3d", input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: _size_any_opt_t, return_indices: bool = False) -> Any:
    """The maxima of windows of `input` that give a result of `output_size`; with `return_indices` also their positions."""
    function = _C.adaptive_max_pool3d_with_indices if return_indices else _C.adaptive_max_pool3d
    return _adaptive(3, function, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: _size_any_opt_t) -> Tensor:
    """The means of windows of `input` that give a result of `output_size`."""
    return _adaptive(3, _C.adaptive_avg_pool3d, input, output_size)


def _fractional(dims: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any) -> Any:
    name = f"fractional_max_pool{dims}d"
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratios = (output_ratio,) * dims if isinstance(output_ratio, float) else tuple(output_ratio)
        for ratio in ratios:
            if not 0 < ratio < 1:
                raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")
        output_size = [int(size * ratio) for size, ratio in zip(input.shape[-dims:], ratios)]
    if samples is None:
        planes = input.shape[:-dims] if input.dim() == dims + 2 else (1,) + tuple(input.shape[:-dims])
        samples = _C.rand([*planes, dims], dtype=input.dtype, device=input.device)
    return getattr(_C, name)(input, kernel_size, output_size, samples)


def fractional_max_pool2d_with_indices(
        input: Tensor, kernel_size: _size_2_t, output_size: _size_2_t | None = None,
        output_ratio: _ratio_2_t | None = None, return_indices: bool = False,
        _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """fractional_max_pool2d of `input` with positions; `kernel_size`, `output_size` and `output_ratio` as there, and
    `return_indices` changes nothing."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(input: Tensor, kernel_size: _size_2_t, output_size: _size_2_t | None = None,
                          output_ratio: _ratio_2_t | None = None, return_indices: bool = False,
                          _random_samples: Tensor | None = None) -> Any:
    """The maxima of windows of `input` of `kernel_size` at pseudo-random places (Graham, 2014), as many as `output_size` or
    `output_ratio` times the input's size say; with their positions if `return_indices`."""
    both = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]


def fractional_max_pool3d_with_indices(
        input: Tensor, kernel_size: _size_3_t, output_size: _size_3_t | None = None,
        output_ratio: _ratio_3_t | None = None, return_indices: bool = False,
        _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """fractional_max_pool3d of `input` with positions; `kernel_size`, `output_size` and `output_ratio` as there, and
    `return_indices` changes nothing."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d(input: Tensor, kernel_size: _size_3_t, output_size: _size_3_t | None = None,
                          output_ratio: _ratio_3_t | None = None, return_indices: bool = False,
                          _random_samples: Tensor | None = None) -> Any:
    """The maxima of windows of `input` of `kernel_size` at pseudo-random places (Graham, 2014), as many as `output_size` or
    `output_ratio` times the input's size say; with their positions if `return_indices`."""
    both = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: _size_any_t, stride: _size_any_t | None = None,
              ceil_mode: bool = False) -> Tensor:
    """The `norm_type`-norms of windows of `input`; `kernel_size`, `stride` and `ceil_mode` as in nn.LPPool2d."""
    return _C.lp_pool2d(input, norm_type, kernel_size, () if stride is None else stride, ceil_mode)


def avg_pool2d(input: Tensor, kernel_size: _size_any_t, stride: _size_any_t | None = None, padding: _size_any_t = 0,
               ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Tensor:
    """The means of windows of `input`; `kernel_size`, `stride`, `padding`, `ceil_mode`, `count_include_pad` and
    `divisor_override` as in nn.AvgPool2d."""
    return _C.avg_pool2d(input, kernel_size, () if stride is None else stride, padding, ceil_mode, count_include_pad,
                         divisor_override)


def normalize(input: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12,
              out: Tensor | None = None) -> Tensor:
    """`input` over its `p`-norm along `dim`, which counts as at least `eps`; `out` takes the result."""
    if isinstance(dim, int) and out is None:
        return _C.normalize(input, p, dim, eps)
    return _C.div(input, _C.norm(input, p, dim, True).clamp_min(eps), out=out)


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """Each channel of `input` minus its mean, over the root of its variance plus `eps`, times `weight`, plus `bias`. If
    `training` these are the batch's, whose share in `running_mean` and `running_var` is `momentum`; otherwise the
    running ones."""
    return _C.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5) -> Tensor:
    """Each row of `input`, which has the last dims, of sizes `normalized_shape`, minus its mean, over the root of its
    variance plus `eps`, times `weight`, plus `bias`."""
    return _C.layer_norm(input, normalized_shape, weight, bias, eps)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """`input` with `pad` elements added on both sides of the last dims, two numbers for each, the last dim first. `mode` is
    "constant" (`value`, by default 0), "reflect", "replicate" or "circular"."""
    return _C.pad(input, list(pad), mode, value)


def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Tensor:
    """`input` resized to `size` or by `scale_factor`; `mode`, `align_corners` and `recompute_scale_factor` as in
    nn.Upsample. `antialias` averages over all pixels that a pixel of a smaller result covers."""
    if isinstance(size, Tensor):
        size = size.tolist()
    for given in (size, scale_factor):
        if isinstance(given, (list, tuple)) and len(given) != input.dim() - 2:
            raise ValueError(f"Input and output must have the same number of spatial dimensions, but got input with spatial "
                             f"dimensions of {list(input.shape[2:])} and output size or scale factors of {given}")
    return _C.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: bool | None = None) -> Tensor:
    """interpolate(input, size, scale_factor, mode, align_corners)"""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate(input, size, scale_factor) by the nearest neighbour"""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate(input, size, scale_factor), bilinear, with corners on corners"""
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Tensor:
    """`input` at the places of `grid`, from -1 to 1. `mode` is "bilinear", "nearest" or "bicubic", `padding_mode` "zeros",
    "border" or "reflection"; `align_corners`: -1 and 1 are the centres of the corner pixels, not their edges."""
    return _C.grid_sample(input, grid, mode, padding_mode, bool(align_corners))


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
                                 enable_gqa: bool = False) -> Tensor:
    """softmax(query keyᵀ · scale + mask) value.

    `attn_mask` is False at keys that do not count, or numbers that are added to the scores; `dropout_p` is the probability
    for the weights; `is_causal` lets position i see positions 0 … i. `scale` is by default one over the root of the
    head size. `enable_gqa`: query has a multiple of the heads of `key` and `value`.
    """
    return _C.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


from ._attention import multi_head_attention_forward  # noqa: E402,F401 - they call the functions above
from ._losses import *  # noqa: E402,F401,F403
from ._losses import _reduction  # noqa: E402,F401
