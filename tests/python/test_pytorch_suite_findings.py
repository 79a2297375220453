"""What PyTorch's own tests found: each test is a promise that was broken once."""
import copy
import subprocess
import sys
import warnings

import pytest

import tensora
from tensora import nn
from tensora.autograd import functional
from tensora.optim import lr_scheduler


def schedule_of(kind, *args, **kwargs):
    layer = nn.Linear(2, 2)
    optimizer = tensora.optim.SGD(layer.parameters(), lr=0.5, momentum=0.9)
    return optimizer, kind(optimizer, *args, **kwargs)


# ---- nn.init ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("call", [
    lambda: nn.init.calculate_gain("nothing"), lambda: nn.init.calculate_gain("leaky_relu", "1"),
    lambda: nn.init.kaiming_normal_(tensora.ones(())), lambda: nn.init.xavier_uniform_(tensora.ones(3)),
    lambda: nn.init.eye_(tensora.ones(2)), lambda: nn.init.dirac_(tensora.ones(2, 2)),
    lambda: nn.init.sparse_(tensora.ones(2), 0.1), lambda: nn.init.orthogonal_(tensora.ones(3)),
    lambda: nn.init.kaiming_uniform_(tensora.ones(2, 2), mode="fan")])
def test_initial_values_refuse_with_value_errors(call):
    with pytest.raises(ValueError):
        call()


def test_initial_values_warn():
    with pytest.warns(UserWarning, match="no-op"):
        nn.init.kaiming_uniform_(tensora.empty(0, 3))
    with pytest.warns(FutureWarning, match="deprecated"):
        assert nn.init.constant(tensora.empty(2), 3.0).tolist() == [3, 3]


# ---- schedules --------------------------------------------------------------------------------------------------

def test_a_schedule_before_the_optimizer_warns():
    _, schedule = schedule_of(lr_scheduler.StepLR, 3)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    optimizer, schedule = schedule_of(lr_scheduler.StepLR, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        schedule.step()
        with pytest.raises(UserWarning, match="epoch"):
            schedule.step(3)


def test_a_cycle_after_another_schedule_has_its_own_rates():
    optimizer, first = schedule_of(lr_scheduler.CosineAnnealingLR, T_max=20)
    second = lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=0.3, step_size_up=1, step_size_down=3)
    for i in range(40):
        optimizer.step()
        (first if i <= 20 else second).step()
    assert 0.1 <= optimizer.param_groups[0]["lr"] <= 0.3
    assert optimizer.param_groups[0]["max_momentum"] == 0.9


def test_rates_given_as_tensors_are_copied():
    rate = tensora.tensor(0.1)
    optimizer, schedule = schedule_of(lr_scheduler.OneCycleLR, max_lr=rate, total_steps=10)
    before = optimizer.param_groups[0]["max_lr"]
    rate.mul_(0.5)
    assert optimizer.param_groups[0]["max_lr"] == before


def test_plateaus_cover_new_groups():
    optimizer, schedule = schedule_of(lr_scheduler.ReduceLROnPlateau, patience=0)
    optimizer.add_param_group({"params": [nn.Parameter(tensora.ones(1))], "lr": 1.0})
    for _ in range(3):
        schedule.step(1.0)
    assert optimizer.param_groups[1]["lr"] == pytest.approx(0.01)
    optimizer, schedule = schedule_of(lr_scheduler.ReduceLROnPlateau, patience=0, min_lr=[0.1])
    optimizer.add_param_group({"params": [nn.Parameter(tensora.ones(1))]})
    with pytest.raises(RuntimeError, match="number of param groups"):
        for _ in range(3):
            schedule.step(1.0)


def test_the_state_of_callable_objects_is_kept():
    class Factor:
        def __init__(self, value):
            self.value = value

        def __call__(self, epoch):
            return self.value
    _, schedule = schedule_of(lr_scheduler.LambdaLR, Factor(0.5))
    _, other = schedule_of(lr_scheduler.LambdaLR, Factor(0.25))
    other.load_state_dict(copy.deepcopy(schedule.state_dict()))
    assert other.lr_lambdas[0].value == 0.5


# ---- optimizers -------------------------------------------------------------------------------------------------

def test_groups_name_the_options_that_pytorch_names():
    group = tensora.optim.AdamW([nn.Parameter(tensora.ones(1))], foreach=True).param_groups[0]
    assert group["foreach"] is True and group["fused"] is None and group["decoupled_weight_decay"] is True
    assert tensora.optim.Rprop([nn.Parameter(tensora.ones(1))]).param_groups[0]["capturable"] is False


def test_a_scaler_steps_optimizers_of_python():
    class Halves(tensora.optim.Optimizer):
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.data -= 0.5 * p.grad
    for make in (lambda p: Halves(p, {}), lambda p: tensora.optim.Rprop(p, lr=0.5), lambda p: tensora.optim.SGD(p, lr=0.5)):
        weight = nn.Parameter(tensora.ones(2))
        optimizer, scaler, calls = make([weight]), tensora.amp.GradScaler("cpu", init_scale=8.0), []
        optimizer.register_step_post_hook(lambda *args: calls.append(1))
        scaler.scale(weight.sum()).backward()
        scaler.unscale_(optimizer)
        assert weight.grad.tolist() == [1, 1]
        scaler.step(optimizer)
        scaler.update()
        assert weight.tolist() == [0.5, 0.5]
        assert calls or type(optimizer) is Halves
        weight.grad = tensora.full((2,), float("inf"))
        scaler.scale(tensora.ones(1))
        scaler.step(optimizer)
        scaler.update()
        assert weight.tolist() == [0.5, 0.5] and scaler.get_scale() == 4


@pytest.mark.parametrize("kind", [tensora.optim.SGD, tensora.optim.Rprop])
def test_hooks_around_steps_and_states(kind):
    from tensora.optim import optimizer as module
    weight, calls = nn.Parameter(tensora.ones(2)), []
    optimizer = kind([weight], lr=0.5)
    with module.register_optimizer_step_pre_hook(lambda o, args, kwargs: calls.append("all before")), \
            module.register_optimizer_step_post_hook(lambda o, args, kwargs: calls.append("all after")), \
            optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append("after")):
        replaced = optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: calls.append("closure") or 3), {}))
        assert optimizer.step() == 3
        replaced.remove()
        optimizer.step()
    optimizer.step()
    assert calls == ["all before", "closure", "after", "all after", "all before", "after", "all after"]
    with pytest.raises(RuntimeError, match="new_kwargs"), optimizer.register_step_pre_hook(lambda o, args, kwargs: 3):
        optimizer.step()
    calls.clear()
    optimizer.register_state_dict_pre_hook(lambda o: calls.append("save"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    state = optimizer.state_dict()
    assert state["more"] == 1 and calls == ["save"]
    optimizer.register_load_state_dict_pre_hook(lambda o, state: calls.append(state.pop("more")))
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append("loaded"))
    optimizer.register_load_state_dict_pre_hook(lambda o, state: calls.append("first"), prepend=True)
    optimizer.load_state_dict(state)
    assert calls == ["save", "first", 1, "loaded"] and state["more"] == 1


# ---- derivatives ------------------------------------------------------------------------------------------------

def test_functional_derivatives_under_no_grad():
    x = tensora.tensor([1.0, 2.0])
    with tensora.no_grad():
        assert functional.hessian(lambda x: (x ** 3).sum(), x).tolist() == [[6, 0], [0, 12]]
        assert functional.jvp(lambda x: x ** 2, x, x)[1].tolist() == [2, 8]
        assert functional.hvp(lambda x: (x ** 3).sum(), x, x)[1].tolist() == [6, 24]


@pytest.mark.parametrize("call, kind, message", [
    (lambda x: functional.vjp(lambda x: x * 2, x), RuntimeError, "v can only be None"),
    (lambda x: functional.vjp(lambda x: 1, x), TypeError, "must be either a Tensor or a tuple"),
    (lambda x: functional.hessian(lambda x: x, x), RuntimeError, "single element"),
    (lambda x: functional.jacobian(lambda x: tensora.ones(2), x, strict=True), RuntimeError, "does not require gradients"),
    (lambda x: functional.hessian(lambda x: x.sum(), x, strict=True), RuntimeError, "strict mode"),
    (lambda x: functional.jacobian(lambda x: x, x, strict=True, vectorize=True), RuntimeError, "not supported together"),
    (lambda x: functional.vhp(lambda x: x.sum(), x, tensora.ones(3)), RuntimeError, "invalid size")])
def test_functional_derivatives_check_their_arguments(call, kind, message):
    with pytest.raises(kind, match=message):
        call(tensora.ones(2))


def test_batched_gradients():
    x = tensora.tensor([1.0, 2.0], requires_grad=True)
    (rows,) = tensora.autograd.grad(x ** 2, x, tensora.eye(2), is_grads_batched=True)
    assert rows.tolist() == [[2, 0], [0, 4]]


# ---- names ------------------------------------------------------------------------------------------------------

def test_a_module_does_not_hide_the_function_of_its_name():
    program = ("import torch, torch.autograd.gradcheck, torch.multiprocessing.spawn\n"
               "import torch.utils.checkpoint\n"
               "assert torch.autograd.gradcheck(lambda x: x * x, torch.ones(2, dtype=torch.float64, requires_grad=True))\n"
               "assert torch.multiprocessing.spawn.__name__ == 'spawn' and callable(torch.multiprocessing.spawn)\n"
               "from torch.multiprocessing.spawn import spawn\n"
               "with torch.backends.cudnn.flags(enabled=False): assert not torch.backends.cudnn.enabled\n"
               "assert torch.backends.cudnn.enabled and torch.jagged\n")
    subprocess.run([sys.executable, "-m", "tensora.compat", "-c", program], check=True)


# ---- modules ----------------------------------------------------------------------------------------------------

def test_backward_hooks_keep_the_type_of_results():
    import collections
    Pair = collections.namedtuple("Pair", "a b")

    class Two(nn.Module):
        def forward(self, x):
            return Pair(x * 2, "text")
    seen, module = [], Two()
    module.register_full_backward_hook(lambda module, before, after: seen.append((before, after)))
    out = module(tensora.ones(2, requires_grad=True))
    assert type(out) is Pair and out.b == "text"
    out.a.sum().backward()
    (before, after), = seen
    assert before[0].tolist() == [2, 2] and after[0].tolist() == [1, 1] and after[1] is None
    module.register_full_backward_hook(lambda module, before, after: (before[0], before[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input"):
        module(tensora.ones(2, requires_grad=True)).a.sum().backward()

    class Named(nn.Module):
        def forward(self, x):
            return {"x": x}
    module = Named()
    module.register_full_backward_hook(lambda *args: None)
    with pytest.warns(UserWarning, match="Tensor or a tuple"):
        assert list(module(tensora.ones(1, requires_grad=True))) == ["x"]


def test_bags_from_a_table():
    table = tensora.tensor([[1.0, 2.0], [3.0, 6.0]])
    bag = nn.EmbeddingBag.from_pretrained(table, mode="sum")
    assert bag(tensora.tensor([[0, 1]])).tolist() == [[4, 8]] and not bag.weight.requires_grad


def test_checkpoints_take_and_give_containers():
    from tensora.utils.checkpoint import checkpoint
    weight, y = nn.Parameter(tensora.tensor([2.0])), tensora.ones(1, requires_grad=True)

    def function(x, options, scale):
        return {"out": (x * weight + options["z"] * scale, 3), "in": [x]}
    result = checkpoint(function, tensora.ones(1), {"z": y * 3}, scale=y * 3)
    assert result["out"][1] == 3 and result["in"][0].tolist() == [1]
    result["out"][0].backward()
    assert y.grad.tolist() == [18] and weight.grad.tolist() == [1]


def test_means_of_weights():
    from tensora.optim import swa_utils
    for options in ({"avg_fn": swa_utils.get_swa_avg_fn()}, {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}):
        layer = nn.Linear(1, 1, bias=False)
        averaged = swa_utils.AveragedModel(layer, **options)
        for value in (1.0, 2.0, 6.0):
            layer.weight.data.fill_(value)
            averaged.update_parameters(layer)
        assert averaged.module.weight.item() == pytest.approx(3)


# ---- testing ----------------------------------------------------------------------------------------------------

def test_random_tensors_of_tests_are_in_range():
    from tensora.testing import make_tensor
    whole = make_tensor(1000, dtype=tensora.int64, low=0, high=3)
    assert sorted(set(whole.tolist())) == [0, 1, 2]
    assert make_tensor((4, 6), dtype=tensora.uint8).max() <= 9
    assert make_tensor(50, dtype=tensora.complex64).imag.abs().max() > 0
    assert make_tensor(3, 4, dtype=tensora.float32, noncontiguous=True).is_contiguous() is False
    with pytest.raises(ValueError, match="requires_grad"):
        make_tensor(2, dtype=tensora.int64, requires_grad=True)


def test_gradcheck_of_tangents_and_batches():
    x = tensora.randn(3, dtype=tensora.float64, requires_grad=True)
    assert tensora.autograd.gradcheck(lambda x: x.sin() * x, x, check_forward_ad=True, check_batched_grad=True)
    with pytest.raises(ValueError, match="check_forward_ad"):
        tensora.autograd.gradcheck(tensora.sin, x, check_batched_forward_grad=True)
    with pytest.raises(RuntimeError, match="forward mode mismatch"):  # the step is too wide for such a curve
        tensora.autograd.gradcheck(lambda x: x ** 3, x, eps=1.0, check_forward_ad=True, check_backward_ad=False)


def test_small_names():
    assert list(reversed(tensora.tensor([1, 2, 3]))) == [3, 2, 1]
    assert tensora.GradScaler is tensora.amp.GradScaler
    with pytest.raises(IndexError, match="out of range"):
        nn.Sequential(nn.ReLU()).insert(3, nn.ReLU())
    packed = nn.utils.rnn.pack_sequence([tensora.ones(2, 1)])
    assert packed.double().data.dtype is tensora.float64 and packed.half().data.dtype is tensora.float16


def test_nodes_of_the_graph_can_be_compared():
    x = tensora.ones(2, requires_grad=True)
    y = x * 2
    z = y + 1
    assert y.grad_fn == y.grad_fn and not y.grad_fn != y.grad_fn and y.grad_fn != z.grad_fn
    assert {y.grad_fn: "y"}[z.grad_fn.next_functions[0][0]] == "y" and y.grad_fn != 3


# ---- distributions ----------------------------------------------------------------------------------------------

def test_parameters_of_transforms_have_samples_of_their_own():
    from tensora import distributions as D
    shifted = D.TransformedDistribution(D.Normal(0.0, 1.0), D.AffineTransform(tensora.zeros(4, 5), tensora.ones(4, 5)))
    assert len(set(shifted.sample().flatten().tolist())) == 20
    assert shifted.sample((7,)).shape == (7, 4, 5) and shifted.log_prob(tensora.zeros(4, 5)).shape == (4, 5)
    joint = D.TransformedDistribution(D.Normal(0.0, 1.0), D.AffineTransform(tensora.zeros(5), tensora.ones(5), event_dim=1))
    assert joint.sample((7,)).shape == (7, 5) and joint.log_prob(tensora.zeros(7, 5)).shape == (7,)


def test_composed_transforms_have_composed_inverses():
    from tensora import distributions as D
    nothing, both = D.ComposeTransform([]), D.ComposeTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)])
    assert nothing == nothing.inv and both.inv.parts == [both.parts[1].inv, both.parts[0].inv]
    assert both.inv.inv is both
    x = tensora.tensor([0.5, 1.0])
    assert tensora.allclose(both.inv(both(x)), x, 1e-5, 1e-6)


def test_gaussian_nll_loss_takes_one_variance_for_a_dim():
    x, y = tensora.arange(6.).reshape(2, 3), tensora.ones(2, 3)
    for shape in ((1, 3), (2, 1)):
        var = tensora.full(shape, 2.0)
        assert tensora.equal(nn.functional.gaussian_nll_loss(x, y, var), nn.functional.gaussian_nll_loss(x, y, var.expand(2, 3)))
    for shape in ((1, 1), (3,), (2, 2)):
        with pytest.raises(ValueError, match="var must have the shape of input"):
            nn.functional.gaussian_nll_loss(x, y, tensora.ones(shape))


def test_embedding_bag_ends_at_the_last_offset():
    table = tensora.arange(8.).reshape(4, 2).requires_grad_()
    rows = tensora.tensor([[1, 2], [2, 3]])
    bag = tensora.nn.EmbeddingBag(4, 2, include_last_offset=True, _weight=table.detach().clone())
    assert bag(rows).tolist() == [[3, 4], [5, 6]]  # the rows of a matrix end their bags themselves
    assert bag(rows.flatten(), tensora.tensor([0, 2, 4])).tolist() == [[3, 4], [5, 6]]
    for mode in ("sum", "mean", "max"):
        table.grad = None
        empty = nn.functional.embedding_bag(rows.flatten(), table, tensora.tensor([0]), mode=mode, include_last_offset=True)
        empty.sum().backward()
        assert empty.shape == (0, 2) and not table.grad.any()


def test_gather_takes_sparse_grad():
    x = tensora.ones(2, 2, requires_grad=True)
    index = tensora.tensor([[0, 0], [1, 0]])
    tensora.gather(x, 1, index, sparse_grad=True).sum().backward()
    assert x.grad.tolist() == [[2, 0], [1, 1]]  # dense, as that of embedding
    assert x.gather(1, index, sparse_grad=False).equal(x.detach())
    with pytest.raises(TypeError):
        tensora.gather(x, 1, index, True)


def test_schedulers_step_to_a_named_epoch():
    schedule = tensora.optim.lr_scheduler
    for make, expected in (
            (lambda o: schedule.ConstantLR(o, factor=0.3, total_iters=4), [0.15, 0.15, 0.5, 0.15]),
            (lambda o: schedule.PolynomialLR(o, total_iters=5, power=0.9), [0.315723, 0.315723, 0.0, 0.409026]),
            (lambda o: schedule.LinearLR(o, 0.3, total_iters=4), [0.325, 0.325, 0.5, 0.2375])):
        optimizer = tensora.optim.SGD([tensora.nn.Parameter(tensora.ones(1))], lr=0.5)
        scheduler, found = make(optimizer), []
        for epoch in (2, 2, 5, 1):
            optimizer.step()
            with pytest.warns(UserWarning, match="epoch parameter"):
                scheduler.step(epoch)
            found.append(round(optimizer.param_groups[0]["lr"], 6))
        assert found == expected


@pytest.mark.parametrize("make", [
    lambda p: tensora.optim.SGD(p, 0.01, momentum=0.9, weight_decay=0.1), lambda p: tensora.optim.Adam(p, 0.1, amsgrad=True),
    lambda p: tensora.optim.AdamW(p, 0.1), lambda p: tensora.optim.Adagrad(p, 0.1), lambda p: tensora.optim.RMSprop(p, 0.01),
    lambda p: tensora.optim.Adadelta(p), lambda p: tensora.optim.Adamax(p, 0.1), lambda p: tensora.optim.NAdam(p, 0.1),
    lambda p: tensora.optim.RAdam(p, 0.1)])
def test_optimizers_step_complex_parameters(make):
    start = tensora.tensor([[1 + 2j, -0.5j], [0.3 + 0j, 2 - 1j]], dtype=tensora.complex64)
    results = []
    for as_reals in (False, True):
        p = tensora.nn.Parameter(tensora.view_as_real(start).clone() if as_reals else start.clone())
        q = tensora.nn.Parameter(tensora.tensor([1.0, 2.0]))
        optimizer = make([p, q])
        for i in range(6):
            optimizer.zero_grad()
            z = tensora.view_as_complex(p) if as_reals else p
            ((z * (1 + 0.1j * i)).abs().square().sum() + (z.sum() * q.sum()).real).backward()
            optimizer.step()
            if i == 3:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        results.append((p.detach() if as_reals else tensora.view_as_real(p.detach()), q.detach()))
    assert all(tensora.equal(a, b) for a, b in zip(*results))
