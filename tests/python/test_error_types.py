"""What PyTorch refuses is refused, by an exception of the same type: programs catch these by type."""
import pytest

import tensora as torch
import tensora.nn.functional as F
from tensora import nn

X = torch.randn(3, 4)
MASK = torch.tensor([True, False])


def parameters():
    return [nn.Parameter(torch.zeros(2, 2))]


OPTIMIZERS = {
    "SGD": ("lr", "momentum", "weight_decay"), "Adam": ("lr", "eps", "weight_decay"),
    "AdamW": ("lr", "eps", "weight_decay"), "Adamax": ("lr", "eps", "weight_decay"),
    "Adagrad": ("lr", "lr_decay", "eps", "weight_decay", "initial_accumulator_value"),
    "Adadelta": ("lr", "rho", "eps", "weight_decay"), "NAdam": ("lr", "eps", "weight_decay", "momentum_decay"),
    "RAdam": ("lr", "eps", "weight_decay"), "RMSprop": ("lr", "alpha", "eps", "weight_decay", "momentum"),
    "ASGD": ("lr", "lambd", "alpha", "weight_decay"), "Rprop": ("lr",), "Adafactor": ("lr", "d", "weight_decay"),
    "Lion": ("lr", "weight_decay"), "Muon": ("lr", "weight_decay", "momentum"), "LBFGS": ("lr",),
}


@pytest.mark.parametrize("name, option", [(n, o) for n, options in OPTIMIZERS.items() for o in options])
def test_optimizers_refuse_negative_options(name, option):
    make = getattr(torch.optim, name)
    make(parameters(), **{option: 1.0} if option not in ("rho", "alpha") else {})
    with pytest.raises(ValueError):
        make(parameters(), **{option: -0.1})
    if name not in ("LBFGS",):
        optimizer = make(parameters())
        if name not in ("ASGD", "Rprop"):
            with pytest.raises(ValueError):
                optimizer.add_param_group({"params": parameters(), option: -0.1})
            assert len(optimizer.param_groups) == 1


def test_groups_are_all_with_names_or_all_without():
    a, b = parameters() + parameters()
    with pytest.raises(ValueError, match="with/without names"):
        torch.optim.SGD([("a", a), b])
    with pytest.raises(ValueError, match="with/without names"):
        torch.optim.SGD([{"params": [("a", a)]}, {"params": [b]}])
    optimizer = torch.optim.SGD([("a", a)], lr=0.5)
    assert optimizer.param_groups[0]["param_names"] == ["a"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a"]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [b]})
    a.grad = torch.ones(2, 2)
    optimizer.step()
    assert a.data.tolist() == [[-0.5, -0.5], [-0.5, -0.5]]


LOSSES = [F.l1_loss, F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.kl_div, F.poisson_nll_loss, F.soft_margin_loss,
          F.hinge_embedding_loss, F.multilabel_soft_margin_loss, F.binary_cross_entropy_with_logits]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_losses_refuse_unknown_reductions(loss):
    for reduction in ("average", "", "MEAN"):
        with pytest.raises(ValueError):
            loss(X, X, reduction=reduction)


CASES = {
    "reduction of a weighted loss": (ValueError, lambda: F.mse_loss(X, X, weight=X, reduction="average")),
    "reduction of cross_entropy": (ValueError, lambda: F.cross_entropy(X, torch.tensor([0, 1, 2]), reduction="x")),
    "reduction of gaussian_nll_loss": (ValueError, lambda: F.gaussian_nll_loss(X, X, X.abs(), reduction="x")),
    "reduction of triplet_margin_with_distance_loss": (
        ValueError, lambda: F.triplet_margin_with_distance_loss(X, X, X, reduction="x")),
    "margin of triplet_margin_loss": (ValueError, lambda: F.triplet_margin_loss(X, X, X, margin=-1)),
    "margin of triplet_margin_with_distance_loss": (
        ValueError, lambda: F.triplet_margin_with_distance_loss(X, X, X, margin=0)),
    "p of multi_margin_loss": (ValueError, lambda: F.multi_margin_loss(X, torch.tensor([0, 1, 2]), p=3)),
    "weight of multi_margin_loss": (
        ValueError, lambda: F.multi_margin_loss(X, torch.tensor([0, 1, 2]), weight=torch.ones(1, 4))),
    "shape of BCE's target": (ValueError, lambda: F.binary_cross_entropy(X.sigmoid(), X[0])),
    "shape of BCE's target with logits": (ValueError, lambda: F.binary_cross_entropy_with_logits(X, X[0])),
    "range of BCE's target": (RuntimeError, lambda: F.binary_cross_entropy(X.sigmoid(), torch.full((3, 4), 2.0))),
    "variance": (ValueError, lambda: F.gaussian_nll_loss(X, X, -torch.ones(3, 4))),
    "negative fweights": (RuntimeError, lambda: X.cov(fweights=torch.tensor([1, 1, -1, 1]))),
    "negative aweights": (RuntimeError, lambda: X.cov(aweights=torch.tensor([1.0, 1.0, -1.0, 1.0]))),
    "masked_fill of a complex number": (
        RuntimeError, lambda: torch.zeros(2, dtype=torch.int64).masked_fill(MASK, 1j)),
    "masked_fill_ of a complex number": (RuntimeError, lambda: torch.zeros(2).masked_fill_(MASK, 1j)),
    "masked_fill of a complex tensor": (RuntimeError, lambda: torch.zeros(2).masked_fill(MASK, torch.tensor(1j))),
    "cat of a tensor": (TypeError, lambda: torch.cat(X)),
    "stack of a tensor": (TypeError, lambda: torch.stack(X)),
    "hstack of a tensor": (TypeError, lambda: torch.hstack(X)),
    "cat of nothing": (ValueError, lambda: torch.cat([])),
    "bounds of hardtanh": (ValueError, lambda: F.hardtanh(X, 1, -1)),
    "eps of batch_norm": (ValueError, lambda: F.batch_norm(X, None, None, training=True, eps=0.0)),
    "eps of batch_norm in eval": (
        ValueError, lambda: F.batch_norm(X, torch.zeros(4), torch.ones(4), eps=-1e-5)),
    "one value per channel": (ValueError, lambda: F.batch_norm(X[:1], None, None, training=True)),
    "pdist of a batch": (RuntimeError, lambda: F.pdist(torch.zeros(2, 2, 2))),
    "negative p of pdist": (RuntimeError, lambda: F.pdist(X, -1.0)),
    "mode of cdist": (ValueError, lambda: torch.cdist(X, X, compute_mode="fast")),
    "grad of nothing": (
        RuntimeError, lambda: torch.autograd.grad([torch.ones(1, requires_grad=True) * 2], [], [torch.ones(1)])),
}


@pytest.mark.parametrize("case", CASES)
def test_error_types(case):
    kind, call = CASES[case]
    with pytest.raises(kind) as raised:
        call()
    assert raised.type is kind


@pytest.mark.parametrize("dims", (1, 2, 3))
@pytest.mark.parametrize("kind", ("avg", "max"))
def test_sizes_of_adaptive_pools(dims, kind):
    pool = getattr(F, f"adaptive_{kind}_pool{dims}d")
    image = torch.ones([1] + [4] * dims)
    assert pool(image, 2).shape == (1,) + (2,) * dims
    assert pool(image, (2,) * dims).shape == (1,) + (2,) * dims
    if dims > 1:
        assert pool(image, (2,) + (None,) * (dims - 1)).shape == (1, 2) + (4,) * (dims - 1)
    for size in ((), -1, (-1,) * dims, -2):
        with pytest.raises(RuntimeError):
            pool(image, size)
    with pytest.raises((RuntimeError, ValueError)):
        pool(image, (2,) * (dims + 1))


def test_in_place_on_a_leaf_is_named_as_in_pytorch():
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        w.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        w[0].add_(1)


I = torch.ones(1, 1, 4, 4)
TYPES = {
    "ValueError": [
        lambda: F.interpolate(I), lambda: F.interpolate(I, size=2, scale_factor=2.0),
        lambda: F.interpolate(I, size=(2, 2, 2)), lambda: F.interpolate(I, size=2, align_corners=True),
        lambda: F.grid_sample(I, torch.ones(1, 1, 1, 2), mode="x"), lambda: F.lp_pool2d(I, 0, 2),
        lambda: F.max_unpool2d(I, torch.zeros(1, 1, 4, 4, dtype=torch.int64), 2, output_size=(99, 99)),
        lambda: F.embedding_bag(torch.tensor([0, 1]), X), lambda: F.embedding_bag(torch.tensor([[0]]), X, mode="x"),
        lambda: F.nll_loss(X, torch.tensor([0])), lambda: F.local_response_norm(X, 2),
        lambda: nn.TripletMarginLoss(margin=-1), lambda: nn.MultiMarginLoss(p=3), lambda: nn.RNN(0, 3),
        lambda: nn.Conv2d(4, 4, 3, stride=2, padding="same"), lambda: nn.Softmax2d()(X),
        lambda: nn.CircularPad1d(1)(I), lambda: nn.GRUCell(4, 2)(X, torch.ones(1, 1, 1, 2)),
        lambda: nn.LSTM(4, 2)(torch.ones(1, 1, 4, dtype=torch.float64)), lambda: nn.Bilinear(0, 1, 1),
        lambda: F.adaptive_avg_pool2d(torch.ones(2, 2), (2, 2)),
        lambda: torch.optim.Adam(parameters(), lr=torch.ones(2)),
    ],
    "NotImplementedError": [
        lambda: torch.ones(2, dtype=torch.int64).mean(), lambda: -torch.tensor([True]),
        lambda: F.gelu(torch.ones(2, dtype=torch.int64)), lambda: F.softmax(torch.ones(2, dtype=torch.int64), 0),
        lambda: torch.tensor([1j]) < torch.tensor([1j]), lambda: torch.tensor([1j]).floor(),
        lambda: F.interpolate(I, size=2, mode="linear"), lambda: F.interpolate(I, size=2, mode="x"),
        lambda: F.pad(X, (1, 1), mode="x"), lambda: F.layer_norm(torch.ones(2, dtype=torch.int64), (2,)),
        lambda: F.embedding_bag(torch.tensor([[0]]), X, per_sample_weights=torch.ones(1, 1), mode="mean"),
    ],
    "IndexError": [
        lambda: X.sum(5), lambda: X[7], lambda: torch.fft.fft(torch.tensor(1.0)), lambda: torch.tensor(1).unbind(),
        lambda: torch.zeros(5, 0).amax(1), lambda: X.index_select(0, torch.tensor([9])),
        lambda: F.embedding(torch.tensor([9]), X), lambda: torch.tensor(1).roll(0, 0),
    ],
    "RuntimeError": [
        lambda: X.gather(0, torch.tensor([[9]])), lambda: X.scatter(0, torch.tensor([[9]]), 1.0),
        lambda: X.view(5), lambda: X @ X, lambda: F.cross_entropy(X, torch.tensor([[0, 1, 2]] * 3)),
    ],
    "TypeError": [
        lambda: torch.tensor([1j]).sort(), lambda: torch.maximum(torch.tensor([1j]), torch.tensor([1j])),
        lambda: torch.fft.rfft(torch.tensor([1j])), lambda: torch.cat([X, None]), lambda: nn.RNN(2, 3, bias=1),
        lambda: nn.Softmax(dim=1.0), lambda: nn.HuberLoss(delta=1j),
    ],
    "AssertionError": [lambda: nn.Hardtanh(1, 1)],
}


@pytest.mark.parametrize("kind, number", [(k, i) for k, calls in TYPES.items() for i in range(len(calls))])
def test_types_of_errors(kind, number):
    with pytest.raises(Exception) as raised:
        TYPES[kind][number]()
    assert raised.type.__name__ == kind, str(raised.value)


def test_cross_entropy_of_probabilities_ignores_no_index():
    F.cross_entropy(X, X.softmax(1))
    with pytest.raises(RuntimeError, match="ignore_index"):
        F.cross_entropy(X, X.softmax(1), ignore_index=1)


def test_schedules_refuse_wrong_arguments():
    """What PyTorch 2.15 refuses, by a fuzzer of constructors."""
    schedules = torch.optim.lr_scheduler

    def sgd():
        return torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
    for make, error in (
            (lambda o: schedules.LambdaLR(o, 0.5), TypeError), (lambda o: schedules.MultiplicativeLR(o, None), TypeError),
            (lambda o: schedules.LinearLR(o, end_factor=1.5), ValueError), (lambda o: schedules.LinearLR(o, end_factor=-1), ValueError),
            (lambda o: schedules.CosineAnnealingWarmRestarts(o, 2, 0), ValueError),
            (lambda o: schedules.CosineAnnealingWarmRestarts(o, 2, 1.5), ValueError),
            (lambda o: schedules.CyclicLR(o, [0.1, 0.2], 1.0), ValueError), (lambda o: schedules.CyclicLR(o, 0.1, ()), ValueError),
            (lambda o: schedules.OneCycleLR(o, 1.0, total_steps=10, pct_start=2.0), ValueError),
            (lambda o: schedules.OneCycleLR(o, 1.0, total_steps=1.5), ValueError),
            (lambda o: schedules.OneCycleLR(o, [1.0, 2.0], total_steps=10), ValueError),
            (lambda o: schedules.ReduceLROnPlateau(o, threshold_mode="foo"), ValueError),
            (lambda o: schedules.ReduceLROnPlateau(o, min_lr=[0.1, 0.2]), ValueError),
            (lambda o: schedules.SequentialLR(o, [schedules.ConstantLR(o), schedules.ExponentialLR(sgd(), 0.9)], [2]), ValueError),
            (lambda o: schedules.SequentialLR(o, [schedules.ConstantLR(o), schedules.ReduceLROnPlateau(o)], [2]), ValueError),
            (lambda o: schedules.SequentialLR(o, [3], []), TypeError),
            (lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o), schedules.ExponentialLR(sgd(), 0.9)]), ValueError),
            (lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o)], sgd()), ValueError),
            (lambda o: schedules.ChainedScheduler([]), ValueError)):
        with pytest.raises(error):
            make(sgd())
    o = sgd()
    chained = schedules.ChainedScheduler(iter([schedules.ConstantLR(o), schedules.ExponentialLR(o, 0.9)]))
    chained.step()
    assert chained.get_last_lr() == [pytest.approx(0.1 / 3 * 0.9)]


@pytest.mark.parametrize("name", ["SGD", "Adam", "LBFGS", "Muon", "ASGD", "SparseAdam"])
def test_options_of_a_state_dict_are_checked(name):
    make = lambda: getattr(torch.optim, name)([torch.nn.Parameter(torch.ones(2, 2))])  # noqa: E731
    state = make().state_dict()
    wrong = [(0, 1), (None, 1.0), ("maximize", torch.ones(2)), ("maximize", "yes"), ("lr", "fast"),
             ("fused", torch.ones(2)), ("foreach", 3)]
    wrong += [("max_iter", 1e300), ("max_iter", 2.0), ("history_size", torch.tensor(3))] if name == "LBFGS" else [("ns_steps", 2.5)] if name == "Muon" else []
    for option, value in wrong:
        if isinstance(option, str) and option not in state["param_groups"][0]:
            continue
        optimizer = make()
        before = repr(optimizer.state_dict())
        with pytest.raises(TypeError, match="load_state_dict"):
            optimizer.load_state_dict({**state, "param_groups": [{**state["param_groups"][0], option: value}]})
        assert repr(optimizer.state_dict()) == before
