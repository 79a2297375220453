"""Linear maps and embeddings. `device` and `dtype` say where and as what parameters are made."""
from __future__ import annotations

from typing import Any

import math

from ... import _C
from ..._C import Tensor
from .. import functional as F, init
from ..common_types import Device, Dtype
from ..parameter import Parameter
from .module import Module

__all__ = ["Identity", "Linear", "Bilinear", "Embedding", "EmbeddingBag", "NonDynamicallyQuantizableLinear"]


class Identity(Module):
    """Returns its input; takes any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """y = x Wᵀ + b, from `in_features` to `out_features` numbers in the last dim; b is there if `bias`.

    >>> nn.Linear(2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    __constants__ = ["in_features", "out_features"]
    weight: Parameter
    bias: Parameter | Any

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Device = None,
                 dtype: Dtype = None) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(_C.empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_C.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return _C.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under PyTorch's name of attention's output projection: `in_features`, `out_features`, `bias` as there."""


class Bilinear(Module):
    """y = x1ᵀ A x2 + b, from `in1_features` and `in2_features` to `out_features` numbers; b is there if `bias`."""
    weight: Parameter
    bias: Parameter | Any

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
                 device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(_C.empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(_C.empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return _C.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
                f"out_features={self.out_features}, bias={self.bias is not None}")


class Embedding(Module):
    """A table of `num_embeddings` vectors of `embedding_dim` numbers, looked up by number.

    The vector at `padding_idx` begins as zeros and gets no gradient. Vectors whose `norm_type`-norm is above `max_norm` are
    scaled down when they are looked up. `scale_grad_by_freq` divides gradients by how often their vector occurs. With
    `sparse` the gradient is a sparse tensor of the vectors that were used, for `optim.SparseAdam`, `SGD` and `Adagrad`.
    """
    weight: Parameter

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
                 max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                 sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False, device: Device = None,
                 dtype: Dtype = None) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx = padding_idx % num_embeddings
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            self.weight = Parameter(_C.empty(num_embeddings, embedding_dim, device=device, dtype=dtype), not _freeze)
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight, not _freeze)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
                        **options: Any) -> Embedding:
        """A table of the rows of `embeddings`, which is not trained if `freeze`; `padding_idx` and the other options are
        those of the constructor."""
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, _weight=embeddings, _freeze=freeze, **options)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
                           self.scale_grad_by_freq, self.sparse)

    def extra_repr(self) -> str:
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        text = "".join(f", {name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value)
        return f"{self.num_embeddings}, {self.embedding_dim}{text}" + (", sparse=True" if self.sparse else "")


class EmbeddingBag(Module):
    """Sums, means or maxima (`mode` "sum", "mean", "max") of bags of vectors from a table of `num_embeddings` vectors of
    `embedding_dim` numbers.

    Vectors whose `norm_type`-norm is above `max_norm` are scaled down when they are looked up. `scale_grad_by_freq` divides
    gradients by how often their vector occurs. With `sparse` the gradient is a sparse tensor of
    the vectors that were used, not for the mode "max". With `include_last_offset` the offsets end with the number of indices. Indices equal to `padding_idx` do not count.
    """
    weight: Parameter

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                 _weight: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
                 device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.sparse, self.include_last_offset, self.padding_idx = sparse, include_last_offset, padding_idx
        weight = _C.empty(num_embeddings, embedding_dim, device=device, dtype=dtype) if _weight is None else _weight
        self.weight = Parameter(weight)
        if _weight is None:
            init.normal_(self.weight)
            if padding_idx is not None:
                self.weight.data[padding_idx] = 0

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
                        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                        include_last_offset: bool = False, padding_idx: int | None = None) -> EmbeddingBag:
        """One with the table `embeddings`, which does not change unless `freeze` is false; the rest as above."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        made = cls(rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset,
                   padding_idx)
        made.weight.requires_grad = not freeze
        return made

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return _C.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                                self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)

    def extra_repr(self) -> str:
        usual = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        text = "".join(f", {name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value)
        text += f", mode={self.mode!r}" + (", sparse=True" if self.sparse else "")
        return f"{self.num_embeddings}, {self.embedding_dim}{text}" + (
            f", padding_idx={self.padding_idx}" if self.padding_idx is not None else "")
