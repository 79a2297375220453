"""The losses of nn.functional.

`reduction` says what becomes of the losses of the elements: "none" gives all, "sum" their sum, "mean" their mean.
`size_average` and `reduce` are older names of it: size_average=False is "sum", reduce=False is "none".
"""
from __future__ import annotations

import warnings
from typing import Any, Callable

from .. import _C
from .._C import Tensor

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy",
           "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "linear_cross_entropy",
           "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
           "nll_loss", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
           "triplet_margin_with_distance_loss"]


def _reduction(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def _check_sizes(input: Tensor, target: Tensor) -> None:
    if isinstance(input, Tensor) and isinstance(target, Tensor) and target.shape != input.shape:  # neither is fx's Proxy
        warnings.warn(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will likely "
                      "lead to incorrect results due to broadcasting. Please ensure they have the same size.", stacklevel=3)


def _check_reduction(reduction: str) -> None:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


def _weighted(losses: Tensor, weight: Tensor, input: Tensor, reduction: str, total: Any = None) -> Tensor:
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


def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                  ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:
    """The cross entropy of softmax(`input`) and `target`, which holds class numbers or probabilities; `weight`,
    `ignore_index`, `label_smoothing` and `reduction` as in
    nn.CrossEntropyLoss.

    >>> nn.functional.cross_entropy(tensora.zeros(1, 4), tensora.tensor([2]))
    tensor(1.3863)
    """
    return _C.cross_entropy(input, target, weight, ignore_index, _reduction(reduction, size_average, reduce),
                            label_smoothing)


def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
                         weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
                         label_smoothing: float = 0.0, options: Any = None) -> Tensor:
    """cross_entropy of linear(`input`, `linear_weight`, `linear_bias`) and `target`; the weight may have more dims
    behind the classes. `weight`, `ignore_index`, `label_smoothing` and `reduction` as in nn.CrossEntropyLoss;
    `options` is not implemented."""
    if options is not None:
        raise NotImplementedError("linear_cross_entropy: chunks (options=) are not implemented; use options=None")
    classes, *rest, features = linear_weight.shape
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = _C.linear(input, linear_weight.reshape(-1, features), bias)
    logits = logits.reshape(list(input.shape[:-1]) + [classes] + rest)
    return cross_entropy(logits, target, weight, ignore_index=-100 if ignore_index is None else ignore_index,
                         reduction=reduction, label_smoothing=label_smoothing)


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
             ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """The negative log-probability, which `input` holds, of the class `target`; `weight`, `ignore_index` and `reduction`
    as in nn.NLLLoss."""
    return _C.nll_loss(input, target, weight, ignore_index, _reduction(reduction, size_average, reduce))


def soft_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:
    """log(1 + exp(-`target` · `input`)) for targets of 1 and -1; `reduction`."""
    return _C.soft_margin_loss(input, target, reduction=_reduction(reduction, size_average, reduce))


def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                           reduction: str = "mean") -> Tensor:
    """The hinge loss of every pair of a class in `target`, which ends at -1, and another class of `input`; `reduction`."""
    return _C.multilabel_margin_loss(input, target, reduction=_reduction(reduction, size_average, reduce))


def kl_div(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
           reduction: str = "mean", log_target: bool = False) -> Tensor:
    """`target` · (log target - `input`), where input holds log-probabilities, and with `log_target` the target too;
    `reduction` "batchmean" divides the sum by the size of the batch."""
    return _C.kl_div(input, target, reduction=_reduction(reduction, size_average, reduce), log_target=log_target)


def smooth_l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                   reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Squared differences of `input` and `target` divided by 2 `beta` where they are below `beta`, and absolute ones
    less beta / 2 elsewhere; `reduction`."""
    _check_sizes(input, target)
    return _C.smooth_l1_loss(input, target, reduction=_reduction(reduction, size_average, reduce), beta=beta)


def l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
            reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|`input` - `target`|; `weight` multiplies the losses, and "mean" of `reduction` divides by its sum."""
    _check_sizes(input, target)
    reduction = _reduction(reduction, size_average, reduce)
    if weight is not None:
        return _weighted((input - target).abs(), weight, input, reduction, weight.sum())
    return _C.l1_loss(input, target, reduction)


def mse_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
             reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(`input` - `target`)²; `weight` multiplies the losses, and "mean" of `reduction` divides by its sum."""
    _check_sizes(input, target)
    reduction = _reduction(reduction, size_average, reduce)
    if weight is not None:
        return _weighted((input - target) ** 2, weight, input, reduction, weight.sum())
    return _C.mse_loss(input, target, reduction)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:
    """Half the squared difference of `input` and `target` up to `delta`, and a line beyond it; `weight` multiplies the
    losses; `reduction`."""
    _check_sizes(input, target)
    if weight is not None:
        return _weighted(_C.huber_loss(input, target, "none", delta), weight, input, reduction)
    return _C.huber_loss(input, target, reduction, delta)


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """The cross entropy of the probabilities `input` and `target`; `weight` multiplies the losses; `reduction`."""
    return _C.binary_cross_entropy(input, target, weight, _reduction(reduction, size_average, reduce))


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     size_average: bool | None = None, reduce: bool | None = None,
                                     reduction: str = "mean", pos_weight: Tensor | None = None) -> Tensor:
    """The cross entropy of sigmoid(`input`) and `target`; `weight` multiplies the losses, `pos_weight` their part that
    belongs to targets of 1; `reduction`."""
    return _C.binary_cross_entropy_with_logits(input, target, weight, _reduction(reduction, size_average, reduce),
                                               pos_weight)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:
    """The negative log-likelihood of the counts `target` at the rate exp(`input`), or `input` without `log_input`;
    `full`, `eps` and `reduction` as in nn.PoissonNLLLoss."""
    return _C.poisson_nll_loss(input, target, log_input, full, eps, _reduction(reduction, size_average, reduce))


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> Tensor:
    """The negative log-likelihood of `target` under normal distributions with means `input` and variances `var`, at
    least `eps`; `full` adds the constant log(2π) / 2; `reduction`."""
    return _C.gaussian_nll_loss(input, target, var, full, eps, reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """`input` where `target` is 1, and max(0, `margin` - input) where it is -1; `reduction`."""
    return _C.hinge_embedding_loss(input, target, margin, _reduction(reduction, size_average, reduce))


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                        size_average: bool | None = None, reduce: bool | None = None,
                        reduction: str = "mean") -> Tensor:
    """max(0, `target` · (`input2` - `input1`) + `margin`); `reduction`."""
    return _C.margin_ranking_loss(input1, input2, target, margin, _reduction(reduction, size_average, reduce))


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                          size_average: bool | None = None, reduce: bool | None = None,
                          reduction: str = "mean") -> Tensor:
    """1 - cos(`input1`, `input2`) where `target` is 1, and max(0, cos - `margin`) where it is -1; `reduction`."""
    return _C.cosine_embedding_loss(input1, input2, target, margin, _reduction(reduction, size_average, reduce))


def multi_margin_loss(input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
                      size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """max(0, `margin` - `input` at `target` + input at i) to the power `p`, averaged over the other classes i; `weight`
    has a factor for each class; `reduction`."""
    return _C.multi_margin_loss(input, target, p, margin, weight, _reduction(reduction, size_average, reduce))


def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                size_average: bool | None = None, reduce: bool | None = None,
                                reduction: str = "mean") -> Tensor:
    """The mean over the classes of the cross entropies of sigmoid(`input`) and `target`; `weight` has a factor for each
    class; `reduction`."""
    return _C.multilabel_soft_margin_loss(input, target, weight, _reduction(reduction, size_average, reduce))


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
                        eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
                        reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """max(0, |`anchor` - `positive`| - |anchor - `negative`| + `margin`); `p`, `eps`, `swap` and `reduction` as in
    nn.TripletMarginLoss."""
    return _C.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap,
                                  _reduction(reduction, size_average, reduce))


def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *,
                                      distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
                                      margin: float = 1.0, swap: bool = False, reduction: str = "mean") -> Tensor:
    """triplet_margin_loss of `anchor`, `positive` and `negative` with the distance `distance_function`(x, y), by default
    pairwise_distance; `margin`, `swap` and `reduction` as there."""
    if not margin > 0:
        raise ValueError(f"triplet_margin_with_distance_loss: margin must be greater than 0, got {margin}")
    distance = distance_function or _C.pairwise_distance
    far = distance(anchor, negative)
    if swap:
        far = _C.minimum(far, distance(positive, negative))
    losses = (margin + distance(anchor, positive) - far).clamp_min(0)
    _check_reduction(reduction)
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses
