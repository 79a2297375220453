"""Attention with projections, as a function."""
from __future__ import annotations

import math

from .. import _C
from .._C import Tensor


def multi_head_attention_forward(
        query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
        in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None,
        add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Tensor | None,
        training: bool = True, key_padding_mask: Tensor | None = None, need_weights: bool = True,
        attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
        k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
        static_v: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
    """What nn.MultiheadAttention computes of `query`, `key` and `value` [L, N, E] or [L, E].

    `embed_dim_to_check` must be E, which `num_heads` heads divide. The projections are `in_proj_weight` and `in_proj_bias`,
    or, with `use_separate_proj_weight`, `q_proj_weight`, `k_proj_weight` and `v_proj_weight`, and at the end
    `out_proj_weight` and `out_proj_bias`. `bias_k` and `bias_v` are a further key and value, `add_zero_attn` adds ones of
    zeros; `static_k` and `static_v` replace projected keys and values. `dropout_p` is the probability for the weights if
    `training`. `key_padding_mask`, `attn_mask`, `is_causal`, `need_weights` and `average_attn_weights` as in the layer.
    """
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
        attn_mask = _C.pad(attn_mask, (0, 1)) if attn_mask is not None else None
        key_padding_mask = _C.pad(key_padding_mask, (0, 1)) if key_padding_mask is not None else None
    head = width // num_heads
    q, k, v = (x.reshape(x.shape[0], batch, num_heads, -1).permute(1, 2, 0, 3) for x in (q, k, v))
    k = k if static_k is None else _static(static_k, "static_k", batch, num_heads, head)
    v = v if static_v is None else _static(static_v, "static_v", batch, num_heads, head)
    if add_zero_attn:
        k, v = (_C.cat([x, x.new_zeros(batch, num_heads, 1, head)], 2) for x in (k, v))
        attn_mask = _C.pad(attn_mask, (0, 1)) if attn_mask is not None else None
        key_padding_mask = _C.pad(key_padding_mask, (0, 1)) if key_padding_mask is not None else None
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
