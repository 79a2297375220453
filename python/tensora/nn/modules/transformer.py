"""Transformers."""
from __future__ import annotations

import copy
from typing import Any, Callable

from ... import _C
from ..._C import Tensor
from .. import functional as F, init
from ..common_types import Device, Dtype
from .activation import MultiheadAttention
from .container import ModuleList
from .linear import Linear
from .module import Module
from .normalization import Dropout, LayerNorm

__all__ = ["Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer",
           "TransformerDecoderLayer"]


def _function(activation):
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


class _Layer(Module):
    """What encoder and decoder layers share: attention and a feed-forward network."""

    def _setup(self, d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
               bias, device, dtype, norms):
        make = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **make)
        if norms == 3:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **make)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **make)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **make)
        self.norm_first, self.activation = norm_first, _function(activation)
        for i in range(1, norms + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **make))
        for i in range(1, norms + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))

    def _attend(self, x, mask, padding, causal):
        return self.dropout1(self.self_attn(x, x, x, padding, False, mask, is_causal=causal)[0])

    def _feed(self, x, dropout):
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with dropout, a residual sum and a layer norm.

    `d_model` is the hidden size, `nhead` the number of heads, `dim_feedforward` the feed-forward size, `dropout` the
    probability, `activation` "relu", "gelu" or a function, `layer_norm_eps` the norms' epsilon. `batch_first` takes
    [N, L, E] in place of [L, N, E]; `norm_first` puts the norms before attention and network; `bias` adds biases.
    """

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: str | Callable[[Tensor], Tensor] = F.relu, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Device = None,
                 dtype: Dtype = None) -> None:
        super().__init__()
        self._setup(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
                    bias, device, dtype, 2)

    def forward(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool = False) -> Tensor:
        x = src
        if self.norm_first:
            x = x + self._attend(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._feed(self.norm2(x), self.dropout2)
        x = self.norm1(x + self._attend(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._feed(x, self.dropout2))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's result, and a feed-forward network; `d_model`, `nhead`, `dim_feedforward`,
    `dropout`, `activation`, `layer_norm_eps`, `batch_first`, `norm_first` and `bias` as in TransformerEncoderLayer."""

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: str | Callable[[Tensor], Tensor] = F.relu, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Device = None,
                 dtype: Dtype = None) -> None:
        super().__init__()
        self._setup(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
                    bias, device, dtype, 3)

    def _look(self, x, memory, mask, padding, causal):
        return self.dropout2(self.multihead_attn(x, memory, memory, padding, False, mask, is_causal=causal)[0])

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                tgt_is_causal: bool = False, memory_is_causal: bool = False) -> Tensor:
        x, own = tgt, (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._attend(self.norm1(x), *own)
            x = x + self._look(self.norm2(x), *other)
            return x + self._feed(self.norm3(x), self.dropout3)
        x = self.norm1(x + self._attend(x, *own))
        x = self.norm2(x + self._look(x, *other))
        return self.norm3(x + self._feed(x, self.dropout3))


class TransformerEncoder(Module):
    """A stack of `num_layers` copies of `encoder_layer`, with `norm` at its end if one is given. `enable_nested_tensor` and
    `mask_check` choose between implementations in PyTorch and change no result."""

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
                 enable_nested_tensor: bool = True, mask_check: bool = True) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool | None = None) -> Tensor:
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of `num_layers` copies of `decoder_layer`, with `norm` at its end if one is given."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                        bool(tgt_is_causal), memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of `num_encoder_layers` and a decoder of `num_decoder_layers` layers, or `custom_encoder` and
    `custom_decoder`; `d_model`, `nhead`, `dim_feedforward`, `dropout`, `activation`, `layer_norm_eps`, `batch_first`,
    `norm_first` and `bias` as in TransformerEncoderLayer."""

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: str | Callable[[Tensor], Tensor] = F.relu, custom_encoder: Any = None,
                 custom_decoder: Any = None, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
                   device, dtype)
        norm = lambda: LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)  # noqa: E731
        self.encoder = custom_encoder or TransformerEncoder(TransformerEncoderLayer(*options), num_encoder_layers, norm())
        self.decoder = custom_decoder or TransformerDecoder(TransformerDecoderLayer(*options), num_decoder_layers, norm())
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
                memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                src_is_causal: bool | None = None, tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False) -> Tensor:
        if src.dim() == 3 and tgt.dim() == 3 and src.size(1 - self.batch_first) != tgt.size(1 - self.batch_first):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                            tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Device = None, dtype: Dtype = None) -> Tensor:
        """[sz, sz] with -inf above the diagonal: position i meets positions 0 … i; `sz` is the number of positions."""
        return _C.triu(_C.full((sz, sz), float("-inf"), device=device, dtype=dtype or _C.get_default_dtype()), 1)
