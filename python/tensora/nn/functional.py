"""The functions behind the layers. Those that are not written out here are the ops themselves."""
import builtins
import math
import warnings

from .. import _C
from .._C import Tensor

TYPE_CHECKING = False  # type checkers take it for True, and do not see what the next lines make
if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...

# Every function of the core is here too; names with a form for layers and one for tensors have the former.
globals().update({name: value for name, value in vars(_C).items()
                  if type(value).__name__ == "builtin_function" and not name.startswith("_")})
globals().update({name: value for name, value in vars(_C.nn).items() if not name.startswith("__")})


def _inplace(name):
    """An activation that also has `inplace`."""
    plain, writing = getattr(_C, name), getattr(_C, name + "_", None)

    def activation(input, *args, inplace=False, **kwargs):
        if args and args[-1] is True or args and args[-1] is False:
            *args, inplace = args
        return (writing if inplace and writing else plain)(input, *args, **kwargs)
    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = plain.__doc__
    return activation


for _name in ("relu", "relu6", "elu", "selu", "celu", "silu", "mish", "leaky_relu", "hardsigmoid",
              "hardswish", "threshold"):
    globals()[_name] = _inplace(_name)
for _name in ("relu_", "elu_", "selu_", "celu_", "leaky_relu_", "hardtanh_", "threshold_"):
    globals()[_name] = getattr(_C, _name)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """Clamped between two numbers."""
    return (_C.hardtanh_ if inplace else _C.hardtanh)(input, min_val, max_val)


def rrelu(input, lower=1. / 8, upper=1. / 3, training=False, inplace=False):
    return (_C.rrelu_ if inplace else _C.rrelu)(input, lower, upper, training)


def _dropout(name):
    plain = getattr(_C, name)
    alpha = "alpha" in name

    def dropout(input, p=0.5, training=not alpha, inplace=False):
        if p < 0.0 or p > 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        if not training:
            return input
        result = plain(input, p, training)
        return input.copy_(result) if inplace else result
    dropout.__name__ = dropout.__qualname__ = name
    dropout.__doc__ = plain.__doc__
    return dropout


for _name in ("dropout", "alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d"):
    globals()[_name] = _dropout(_name)


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) over its sum along `dim`."""
    return _C.softmax(input, _dim(input, dim), dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    return _C.log_softmax(input, _dim(input, dim), dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    return _C.softmax(-input, _dim(input, dim), dtype)


def _dim(input, dim):
    return dim if dim is not None else (0 if input.dim() in (0, 1, 3) else 1)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    return _C.gumbel_softmax(logits, float(tau), hard, dim)


def gelu(input, approximate="none"):
    return _C.gelu(input, approximate)


def sigmoid(input):
    return _C.sigmoid(input)


def tanh(input):
    return _C.tanh(input)


def hardshrink(input, lambd=0.5):
    return _C.hardshrink(input, lambd)


def logsigmoid(input):
    return _C.logsigmoid(input)


def one_hot(tensor, num_classes=-1):
    return _C.one_hot(tensor, num_classes)


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """The rows of `weight` that `input` names."""
    return _C.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)


def _pool(name, has_stride=True):
    plain, both = getattr(_C, name), getattr(_C, name + "_with_indices")
    if has_stride:
        def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
            arguments = (input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)
            return both(*arguments) if return_indices else plain(*arguments)
    else:
        def pool(input, output_size, return_indices=False):
            return (both if return_indices else plain)(input, _output_size(input, output_size, int(name[-2])))
    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = plain.__doc__
    return pool


def _output_size(input, size, dims):
    """As the core takes it: -1 stands for None there, and a single number for all dims."""
    if isinstance(size, int):
        size = (size,) * dims
    if dims > 1 and input.dim() <= len(size):
        raise ValueError(f"adaptive pooling: input must have at least {len(size) + 1} dims, got {input.dim()}")
    if len(size) != dims:
        raise RuntimeError(f"adaptive pooling: output_size must be an int or {dims} ints, got {size}")
    if builtins.any(wanted is not None and wanted < 0 for wanted in size):
        raise RuntimeError(f"adaptive pooling: output_size must not be negative, got {size}")
    return [-1 if wanted is None else wanted for wanted in size]


for _n in (1, 2, 3):
    globals()[f"max_pool{_n}d"] = _pool(f"max_pool{_n}d")
    globals()[f"adaptive_max_pool{_n}d"] = _pool(f"adaptive_max_pool{_n}d", has_stride=False)
    globals()[f"adaptive_avg_pool{_n}d"] = (
        lambda plain, dims: lambda input, output_size: plain(input, _output_size(input, output_size, dims)))(
            getattr(_C, f"adaptive_avg_pool{_n}d"), _n)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Divided by the norm along `dim`."""
    if isinstance(dim, int) and out is None:
        return _C.normalize(input, p, dim, eps)
    return _C.div(input, _C.norm(input, p, dim, True).clamp_min(eps), out=out)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    return _C.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return _C.layer_norm(input, normalized_shape, weight, bias, eps)


# ---- losses: the old arguments size_average and reduce are taken too ----

def _reduction(reduction, size_average, reduce):
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def _check_reduction(reduction):
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    """The negative log likelihood of the target classes under softmax(input).

    >>> nn.functional.cross_entropy(tensora.zeros(1, 4), tensora.tensor([2]))
    tensor(1.3863)
    """
    return _C.cross_entropy(input, target, weight, ignore_index, _reduction(reduction, size_average, reduce),
                            label_smoothing)


def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean",
                         ignore_index=None, label_smoothing=0.0, options=None):
    """cross_entropy of linear(input, linear_weight, linear_bias); the weight may have more dims behind the classes."""
    if options is not None:
        raise NotImplementedError("linear_cross_entropy: chunks (options=) are not implemented; use options=None")
    classes, *rest, features = linear_weight.shape
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = _C.linear(input, linear_weight.reshape(-1, features), bias)
    logits = logits.reshape(list(input.shape[:-1]) + [classes] + rest)
    return cross_entropy(logits, target, weight, ignore_index=-100 if ignore_index is None else ignore_index,
                         reduction=reduction, label_smoothing=label_smoothing)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    return _C.nll_loss(input, target, weight, ignore_index, _reduction(reduction, size_average, reduce))


def _loss(name):
    plain = getattr(_C, name)

    def loss(input, target, size_average=None, reduce=None, reduction="mean", **options):
        return plain(input, target, reduction=_reduction(reduction, size_average, reduce), **options)
    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = plain.__doc__
    return loss


for _name in ("soft_margin_loss", "multilabel_margin_loss", "kl_div", "smooth_l1_loss"):
    globals()[_name] = _loss(_name)


def _weighted(losses, weight, input, reduction, total=None):
    """Reduces losses times weights; the mean divides by `total`, or by the number of losses."""
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    _check_reduction(reduction)
    losses = losses * weight
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if total is None else losses.sum() / total


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The mean absolute difference."""
    reduction = _reduction(reduction, size_average, reduce)
    if weight is not None:
        return _weighted((input - target).abs(), weight, input, reduction, weight.sum())
    return _C.l1_loss(input, target, reduction)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The mean squared difference."""
    reduction = _reduction(reduction, size_average, reduce)
    if weight is not None:
        return _weighted((input - target) ** 2, weight, input, reduction, weight.sum())
    return _C.mse_loss(input, target, reduction)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Squared differences up to `delta`, absolute ones beyond it."""
    if weight is not None:
        return _weighted(_C.huber_loss(input, target, "none", delta), weight, input, reduction)
    return _C.huber_loss(input, target, reduction, delta)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    return _C.binary_cross_entropy(input, target, weight, _reduction(reduction, size_average, reduce))


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean",
                                     pos_weight=None):
    return _C.binary_cross_entropy_with_logits(input, target, weight, _reduction(reduction, size_average, reduce),
                                               pos_weight)


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                     reduction="mean"):
    return _C.poisson_nll_loss(input, target, log_input, full, eps, _reduction(reduction, size_average, reduce))


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    return _C.gaussian_nll_loss(input, target, var, full, eps, reduction)


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    return _C.hinge_embedding_loss(input, target, margin, _reduction(reduction, size_average, reduce))


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    return _C.margin_ranking_loss(input1, input2, target, margin, _reduction(reduction, size_average, reduce))


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    return _C.cosine_embedding_loss(input1, input2, target, margin, _reduction(reduction, size_average, reduce))


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    return _C.multi_margin_loss(input, target, p, margin, weight, _reduction(reduction, size_average, reduce))


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    return _C.multilabel_soft_margin_loss(input, target, weight, _reduction(reduction, size_average, reduce))


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None,
                        reduce=None, reduction="mean"):
    return _C.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap,
                                  _reduction(reduction, size_average, reduce))


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction="mean"):
    if not margin > 0:
        raise ValueError(f"triplet_margin_with_distance_loss: margin must be greater than 0, got {margin}")
    distance = distance_function or pairwise_distance  # noqa: F821 - an op
    far = distance(anchor, negative)
    if swap:
        far = _C.minimum(far, distance(positive, negative))
    losses = (margin + distance(anchor, positive) - far).clamp_min(0)
    _check_reduction(reduction)
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


# ---- the rest ----

def pad(input, pad, mode="constant", value=None):
    """Elements added on both sides of the last dims."""
    return _C.pad(input, list(pad), mode, value)


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    """Resized to `size`, or by `scale_factor`."""
    if isinstance(size, Tensor):
        size = size.tolist()
    return _C.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    return interpolate(input, size, scale_factor, mode, align_corners)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):
    """softmax(query keyᵀ scale + mask) value"""
    return _C.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def multi_head_attention_forward(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias,
                                 bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias,
                                 training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
                                 use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
                                 v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True,
                                 is_causal=False):
    """Attention with projections, as PyTorch's function; tensors are [L, N, E], or [L, E]."""
    batched = query.dim() == 3
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        weights = in_proj_weight.chunk(3)
    biases = in_proj_bias.chunk(3) if in_proj_bias is not None else (None,) * 3
    q, k, v = (_C.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
    if bias_k is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        k, v = _C.cat([k, bias_k.repeat(1, batch, 1)]), _C.cat([v, bias_v.repeat(1, batch, 1)])
        attn_mask = pad(attn_mask, (0, 1)) if attn_mask is not None else None
        key_padding_mask = pad(key_padding_mask, (0, 1)) if key_padding_mask is not None else None
    head = width // num_heads
    q, k, v = (x.reshape(x.shape[0], batch, num_heads, -1).permute(1, 2, 0, 3) for x in (q, k, v))
    k = k if static_k is None else _static(static_k, "static_k", batch, num_heads, head)
    v = v if static_v is None else _static(static_v, "static_v", batch, num_heads, head)
    if add_zero_attn:
        k, v = (_C.cat([x, x.new_zeros(batch, num_heads, 1, head)], 2) for x in (k, v))
        attn_mask = pad(attn_mask, (0, 1)) if attn_mask is not None else None
        key_padding_mask = pad(key_padding_mask, (0, 1)) if key_padding_mask is not None else None
    mask = _attention_mask(attn_mask, key_padding_mask, batch, num_heads, q.dtype)
    dropout = dropout_p if training else 0.0
    weights = None
    if need_weights:
        scores = (q / math.sqrt(head)) @ k.transpose(-2, -1)
        weights = _C.softmax(scores if mask is None else scores + mask, -1)
        result = _C.dropout(weights, dropout, training) @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        causal = is_causal and key_padding_mask is None and bias_k is None and not add_zero_attn
        result = _C.scaled_dot_product_attention(q, k, v, None if causal else mask, dropout, causal)
    result = _C.linear(result.permute(2, 0, 1, 3).reshape(length, batch, width), out_proj_weight, out_proj_bias)
    if not batched:
        result, weights = result.squeeze(1), weights.squeeze(0) if weights is not None else None
    return result, weights


def _static(given, name, batch, heads, head):
    """Keys or values that were projected before: [N * heads, S, head] as [N, heads, S, head]."""
    if given.dim() != 3 or given.shape[0] != batch * heads or given.shape[2] != head:
        raise AssertionError(f"expecting {name} of shape ({batch * heads}, S, {head}), but got {tuple(given.shape)}")
    return given.reshape(batch, heads, given.shape[1], head)


def _attention_mask(attn_mask, key_padding_mask, batch, heads, dtype):
    """Both masks as one that is added to the scores; None if there is none."""
    def added(mask):
        if mask.dtype is not _C.bool:
            return mask.to(dtype)
        return _C.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(mask, float("-inf"))
    mask = None
    if attn_mask is not None:
        mask = added(attn_mask)
        mask = mask.reshape(batch, heads, *mask.shape[-2:]) if mask.dim() == 3 else mask[None, None]
    if key_padding_mask is not None:
        keys = added(key_padding_mask)[:, None, None, :]
        mask = keys if mask is None else mask + keys
    return mask


def _fractional(dims):
    pool = getattr(_C, f"fractional_max_pool{dims}d")

    def with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                     _random_samples=None):
        name = f"fractional_max_pool{dims}d"
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            ratios = (output_ratio,) * dims if isinstance(output_ratio, float) else tuple(output_ratio)
            for ratio in ratios:
                if not 0 < ratio < 1:
                    raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")
            output_size = [int(size * ratio) for size, ratio in zip(input.shape[-dims:], ratios)]
        if _random_samples is None:
            planes = input.shape[:-dims] if input.dim() == dims + 2 else (1,) + tuple(input.shape[:-dims])
            _random_samples = _C.rand([*planes, dims], dtype=input.dtype, device=input.device)
        return pool(input, kernel_size, output_size, _random_samples)

    def plain(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        """The largest elements of pseudo-random windows (Graham, 2014); with their positions if asked for."""
        both = with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
        return both if return_indices else both[0]
    with_indices.__name__ = with_indices.__qualname__ = f"fractional_max_pool{dims}d_with_indices"
    plain.__name__ = plain.__qualname__ = f"fractional_max_pool{dims}d"
    return plain, with_indices


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional(3)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _C.lp_pool2d(input, norm_type, kernel_size, () if stride is None else stride, ceil_mode)


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    return _C.avg_pool2d(input, kernel_size, () if stride is None else stride, padding, ceil_mode, count_include_pad,
                         divisor_override)


def upsample_nearest(input, size=None, scale_factor=None):
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Samples `input` at the places of `grid`."""
    return _C.grid_sample(input, grid, mode, padding_mode, bool(align_corners))
