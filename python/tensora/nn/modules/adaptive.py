"""Softmax over many classes, in clusters by frequency."""
from __future__ import annotations

from typing import NamedTuple, Sequence

from ... import _C
from ..._C import Tensor
from .. import functional as F
from ..common_types import Device, Dtype
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Softmax of `in_features` numbers over `n_classes` classes, ordered by falling frequency, in clusters.

    Classes up to `cutoffs[0]` and one class per cluster form the head; each cluster of rarer classes, which begins at the
    next cutoff, has a projection whose size shrinks by `div_value`. `head_bias` adds a bias to the head.
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
                 head_bias: bool = False, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (cutoffs != sorted(cutoffs) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1
                or len(set(cutoffs)) != len(cutoffs) or any(int(c) != c for c in cutoffs)):
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where "
                             "each value is between 1 and n_classes-1")
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = cutoffs + [n_classes]
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        make = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **make)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(in_features, hidden, bias=False, **make),
                                        Linear(hidden, classes, bias=False, **make)))

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """(log-probability of each target, their negative mean)"""
        input, target = input_, target_
        if input.size(0) != target.size(0) and target.dim() > 0:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.dim() != target.dim() + 1 or target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, with an input of one dimension more")
        single = target.dim() == 0
        rows, targets = (input.unsqueeze(0), target.unsqueeze(0)) if single else (input, target)
        if rows.shape[0] and not 0 <= int(targets.min()) <= int(targets.max()) < self.n_classes:
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                               f"[{int(targets.min())}, {int(targets.max())}] were found. ")
        in_head, output = targets.clone(), None
        output = _C.zeros(rows.shape[0], dtype=rows.dtype, device=rows.device)
        for i, tail in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            chosen = ((targets >= low) & (targets < high)).nonzero().squeeze(1)
            if chosen.numel() == 0:
                continue
            in_head[chosen] = self.shortlist_size + i
            scores = F.log_softmax(tail(rows[chosen]), dim=1)
            output = output.index_add(0, chosen, scores.gather(1, (targets[chosen] - low).unsqueeze(1)).squeeze(1))
        head = F.log_softmax(self.head(rows), dim=1)
        output = output + head.gather(1, in_head.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if single else output, loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, :self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            place = self.shortlist_size + i
            parts.append(F.log_softmax(tail(input), dim=1) + head[:, place:place + 1])
        return _C.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class of each row."""
        return self.log_prob(input).argmax(1)
