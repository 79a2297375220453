"""Losses as modules."""
from .. import functional as F
from .module import Module
from .shape import PairwiseDistance

__all__ = ["CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "MultiMarginLoss",
           "MultiLabelSoftMarginLoss", "TripletMarginWithDistanceLoss", "CTCLoss"]


class _Loss(Module):
    """Attributes by name, and a function that takes them."""
    _attributes = {}

    def __init__(self, *args, **kwargs):
        super().__init__()
        names = list(self._attributes)
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__}() takes at most {len(names)} arguments ({len(args)} given)")
        values = {**self._attributes, **dict(zip(names, args))}
        for key, value in kwargs.items():
            if key in ("size_average", "reduce"):
                if value is not None:
                    values["reduction"] = F._reduction("mean", value if key == "size_average" else None,
                                                       value if key == "reduce" else None)
                continue
            if key not in names:
                raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument '{key}'")
            values[key] = value
        self._check(**values)
        for key, value in values.items():
            if key in ("weight", "pos_weight"):
                self.register_buffer(key, value)
            else:
                setattr(self, key, value)

    def _check(self, **_):
        """Raises if an attribute is out of range."""

    def forward(self, *inputs):
        return self._function(*inputs, **{key: getattr(self, key) for key in self._attributes})


def _loss(name, function, **attributes):
    __all__.append(name)
    return type(name, (_Loss,), {"_attributes": attributes, "_function": staticmethod(function),
                                 "__module__": __name__, "__doc__": function.__doc__})


CrossEntropyLoss = _loss("CrossEntropyLoss", F.cross_entropy, weight=None, ignore_index=-100, reduction="mean",
                         label_smoothing=0.0)
NLLLoss = _loss("NLLLoss", F.nll_loss, weight=None, ignore_index=-100, reduction="mean")
BCELoss = _loss("BCELoss", F.binary_cross_entropy, weight=None, reduction="mean")
BCEWithLogitsLoss = _loss("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, weight=None, reduction="mean",
                          pos_weight=None)
MSELoss = _loss("MSELoss", F.mse_loss, reduction="mean")
L1Loss = _loss("L1Loss", F.l1_loss, reduction="mean")
SmoothL1Loss = _loss("SmoothL1Loss", F.smooth_l1_loss, reduction="mean", beta=1.0)
HuberLoss = _loss("HuberLoss", F.huber_loss, reduction="mean", delta=1.0)
KLDivLoss = _loss("KLDivLoss", F.kl_div, reduction="mean", log_target=False)
PoissonNLLLoss = _loss("PoissonNLLLoss", F.poisson_nll_loss, log_input=True, full=False, eps=1e-8, reduction="mean")
GaussianNLLLoss = _loss("GaussianNLLLoss", F.gaussian_nll_loss, full=False, eps=1e-6, reduction="mean")
HingeEmbeddingLoss = _loss("HingeEmbeddingLoss", F.hinge_embedding_loss, margin=1.0, reduction="mean")
MarginRankingLoss = _loss("MarginRankingLoss", F.margin_ranking_loss, margin=0.0, reduction="mean")
CosineEmbeddingLoss = _loss("CosineEmbeddingLoss", F.cosine_embedding_loss, margin=0.0, reduction="mean")
SoftMarginLoss = _loss("SoftMarginLoss", F.soft_margin_loss, reduction="mean")
MultiLabelMarginLoss = _loss("MultiLabelMarginLoss", F.multilabel_margin_loss, reduction="mean")
MultiLabelSoftMarginLoss = _loss("MultiLabelSoftMarginLoss", F.multilabel_soft_margin_loss, weight=None,
                                 reduction="mean")
MultiMarginLoss = _loss("MultiMarginLoss", F.multi_margin_loss, p=1, margin=1.0, weight=None, reduction="mean")
TripletMarginLoss = _loss("TripletMarginLoss", F.triplet_margin_loss, margin=1.0, p=2.0, eps=1e-6, swap=False,
                          reduction="mean")


class TripletMarginWithDistanceLoss(_Loss):
    """triplet_margin_loss with a distance of one's own."""
    _attributes = dict(distance_function=None, margin=1.0, swap=False, reduction="mean")
    _function = staticmethod(F.triplet_margin_with_distance_loss)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.distance_function is None:
            self.distance_function = PairwiseDistance()


def _check_margin(self, margin, **_):
    if not margin > 0:
        raise ValueError(f"{type(self).__name__}: expected margin to be greater than 0, got {margin} instead")


def _check_multi_margin(self, p, weight, **_):
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")


def _check_delta(self, delta, **_):
    if not isinstance(delta, (float, int)):
        raise TypeError(f"delta must be a float or int, got: {type(delta)}")


TripletMarginLoss._check = TripletMarginWithDistanceLoss._check = _check_margin
MultiMarginLoss._check = _check_multi_margin
HuberLoss._check = _check_delta
CTCLoss = _loss("CTCLoss", F.ctc_loss, blank=0, reduction="mean", zero_infinity=False)
__all__ = list(dict.fromkeys(__all__))
