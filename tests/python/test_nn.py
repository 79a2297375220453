"""Modules, optimizers, data, files."""
import copy
import io
import os
import pickle
import warnings
import weakref

import numpy as np
import pytest

import tensora as torch
import tensora.nn.functional as F
from tensora import nn
from tensora.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.rest = nn.Sequential(nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("temporary", torch.zeros(1), persistent=False)

    def forward(self, x):
        return self.rest(self.first(x)) * self.scale


def test_attributes_register():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "rest.2.weight", "rest.2.bias"]
    assert set(net.state_dict()) == {n for n, _ in net.named_parameters()} | {"seen"}
    assert len(list(net.modules())) == 6 and isinstance(net.rest[2], nn.Linear)
    with pytest.raises(TypeError):
        net.scale = torch.ones(1)
    with pytest.raises(AttributeError):
        net.nothing
    net.scale = None
    assert "scale" not in dict(net.named_parameters())
    del net.first
    assert not hasattr(net, "first")

    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)
    with pytest.raises(AttributeError, match="before Module.__init__"):
        Early()


def test_state_dict_round_trip(tmp_path):
    a, b = Net(), Net()
    b.load_state_dict(a.state_dict())
    for name in ("model.pt", "model.safetensors"):
        torch.save(a.state_dict(), tmp_path / name)
        b = Net()
        assert not b.load_state_dict(torch.load(tmp_path / name)).missing_keys
        assert torch.equal(a.first.weight, b.first.weight)
    buffer = io.BytesIO()
    torch.save({"x": torch.ones(2), "n": [1, 2.5, "t", None, True]}, buffer)
    buffer.seek(0)
    assert torch.load(buffer)["n"] == [1, 2.5, "t", None, True]
    state = a.state_dict()
    del state["scale"]
    state["more"] = torch.ones(1)
    with pytest.raises(RuntimeError, match="Missing key.*scale"):
        b.load_state_dict(state)
    assert b.load_state_dict(state, strict=False).unexpected_keys == ["more"]
    state["first.weight"] = torch.ones(1)
    with pytest.raises(RuntimeError, match="size mismatch"):
        b.load_state_dict(state, strict=False)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "nothing.pt")


def test_whole_modules_are_made_only_where_the_program_says_so(tmp_path):
    a = Net()
    torch.save({"model": a, "epoch": 3}, tmp_path / "object.pt")
    with pytest.raises(pickle.UnpicklingError, match="weights_only=False"):
        torch.load(tmp_path / "object.pt")
    b = torch.load(tmp_path / "object.pt", weights_only=False)["model"]
    assert torch.equal(a.first.weight, b.first.weight) and b.first.weight.requires_grad
    layers = {type(m) for m in a.modules()}
    with torch.serialization.safe_globals(layers):
        assert torch.load(tmp_path / "object.pt")["epoch"] == 3
    assert not torch.serialization.get_safe_globals()

    class Evil:
        def __reduce__(self):
            return os.system, ("true",)
    torch.save([Evil()], tmp_path / "evil.pt")
    with pytest.raises(pickle.UnpicklingError, match="system"):
        torch.load(tmp_path / "evil.pt")


def test_copies_and_moves():
    net = Net().eval()
    x = torch.randn(2, 4)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(other(x), net(x))
        other.first.weight.data.zero_()
        assert not torch.equal(other(x), net(x))
    weight = net.first.weight
    net.double()
    assert net.first.weight is weight and weight.dtype is torch.float64 and net.seen.dtype is torch.float64
    assert not net.train(False).rest[1].training


def test_tied_weights():
    embedding, output = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
    output.weight = embedding.weight
    model = nn.ModuleList([embedding, output])
    assert len(list(model.parameters())) == 1 and copy.deepcopy(model)[0].weight is not embedding.weight
    both = copy.deepcopy(model)
    assert both[0].weight is both[1].weight


def test_hooks():
    layer, seen = nn.Linear(2, 2), []
    x = torch.ones(1, 2, requires_grad=True)
    handles = [layer.register_forward_pre_hook(lambda m, args: seen.append("before")),
               layer.register_forward_hook(lambda m, args, out: out * 2),
               layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].shape, go[0].shape)))]
    result = layer(x)
    assert torch.allclose(result, 2 * F.linear(x, layer.weight, layer.bias))
    result.sum().backward()
    assert seen == ["before", ((1, 2), (1, 2))]
    for handle in handles:
        handle.remove()
    assert torch.allclose(layer(x), F.linear(x, layer.weight, layer.bias))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "NAdam", "RAdam", "RMSprop",
                                  "Lion", "Adafactor", "ASGD"])
def test_optimizers_learn_and_save(name):
    x, target = torch.randn(64, 4), torch.randn(4)
    w = nn.Parameter(torch.full((4,), 0.5))
    optimizer = getattr(torch.optim, name)([w], lr={"Adadelta": 30.0, "SGD": 0.1, "Lion": 0.02, "Adafactor": 0.3}.get(name, 0.05))

    def loss():
        return F.mse_loss(x @ w, x @ target)
    start = loss().item()
    for _ in range(60):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert loss().item() < 0.7 * start
    state = optimizer.state_dict()
    other = getattr(torch.optim, name)([nn.Parameter(w.detach().clone())], lr=1.0)
    other.load_state_dict(state)
    assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    assert set(other.state_dict()["state"][0]) == set(state["state"][0])


@pytest.mark.parametrize("maximize", [False, True])
def test_lbfgs(maximize):
    w = nn.Parameter(torch.tensor([3.0, -2.0]))
    optimizer = torch.optim.LBFGS([w], line_search_fn="strong_wolfe", maximize=maximize)

    def closure():
        optimizer.zero_grad()
        loss = ((w - 1) ** 2).sum() * (-1 if maximize else 1)
        loss.backward()
        return loss
    optimizer.step(closure)
    assert torch.allclose(w, torch.ones(2), atol=1e-4)


def test_groups_and_schedulers():
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([{"params": [a]}, {"params": [b], "lr": 1.0}], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    (a + b).backward()
    optimizer.step()
    assert a.item() == pytest.approx(0.9) and b.item() == pytest.approx(0.0)
    scheduler.step()
    assert scheduler.get_last_lr() == [0.05, 0.5]
    optimizer.param_groups[0]["lr"] = 1.0
    optimizer.step()
    assert a.item() == pytest.approx(-0.1)
    with pytest.raises(ValueError):
        torch.optim.Adam([a], lr=-1.0)
    with pytest.raises(ValueError):
        torch.optim.SGD([], lr=0.1)
    with pytest.raises(TypeError):
        torch.optim.SGD(a, lr=0.1)


def test_an_optimizer_of_ones_own():
    class Sign(torch.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["count"] = self.state[p].get("count", 0) + 1
                    p.add_(p.grad.sign(), alpha=-group["lr"])
    w = nn.Parameter(torch.ones(2))
    optimizer = Sign([w], 0.5)
    w.sum().backward()
    optimizer.step()
    assert w.tolist() == [0.5, 0.5] and optimizer.state_dict()["state"][0]["count"] == 1


def test_layers_run():
    x = torch.randn(2, 3, 8, 8)
    for layer in (nn.Conv2d(3, 4, 3, padding="same"), nn.ConvTranspose2d(3, 4, 2, stride=2), nn.MaxPool2d(2),
                  nn.AvgPool2d(2), nn.AdaptiveAvgPool2d((1, None)), nn.BatchNorm2d(3), nn.GroupNorm(3, 3),
                  nn.InstanceNorm2d(3), nn.Upsample(scale_factor=2), nn.Flatten(), nn.ReflectionPad2d(1), nn.GELU(),
                  nn.Softmax(dim=1), nn.PReLU(), nn.LayerNorm([3, 8, 8]), nn.RMSNorm(8), nn.Dropout2d(0.5)):
        assert layer(x).numel() and repr(layer).startswith(type(layer).__name__)
        assert copy.deepcopy(layer)(x).shape == layer(x).shape
    sequence = torch.randn(5, 2, 3)
    for layer in (nn.LSTM(3, 4, 2, bidirectional=True), nn.GRU(3, 4), nn.RNN(3, 4)):
        output, state = layer(sequence)
        packed = nn.utils.rnn.pack_padded_sequence(sequence, [5, 3])
        assert output.shape[0] == 5 and layer(packed)[0].data.shape[0] == 8
    assert nn.MultiheadAttention(4, 2, batch_first=True)(*[torch.randn(2, 5, 4)] * 3)[1].shape == (2, 5, 5)
    assert nn.Transformer(8, 2, 1, 1, 16)(torch.randn(3, 2, 8), torch.randn(4, 2, 8)).shape == (4, 2, 8)
    values, indices = nn.MaxPool2d(2, return_indices=True)(x)
    assert nn.MaxUnpool2d(2)(values, indices).shape == x.shape
    for loss in (nn.CrossEntropyLoss(label_smoothing=0.1), nn.NLLLoss()):
        assert loss(torch.randn(4, 3).log_softmax(1), torch.tensor([0, 1, 2, 0])).dim() == 0


def test_weight_norm_and_spectral_norm():
    layer = nn.utils.weight_norm(nn.Linear(3, 2))
    assert set(dict(layer.named_parameters())) == {"bias", "weight_g", "weight_v"}
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.weight_g.grad is not None
    assert "weight" in dict(nn.utils.remove_weight_norm(layer).named_parameters())
    normed = nn.utils.spectral_norm(nn.Linear(4, 4), n_power_iterations=20)
    normed(torch.ones(1, 4))
    assert torch.linalg.matrix_norm(normed.weight, 2).item() == pytest.approx(1, abs=0.05)


class Squares(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        if i == 7 and getattr(self, "broken", False):
            raise KeyError("sample 7")
        return {"x": np.float32(i), "y": torch.tensor(i * i)}, str(i)


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader(workers):
    batches = list(DataLoader(Squares(), batch_size=4, num_workers=workers))
    assert [len(b[1]) for b in batches] == [4, 4, 2] and batches[2][0]["y"].tolist() == [64, 81]
    assert batches[0][0]["x"].dtype is torch.float32
    order = [int(i) for b in DataLoader(Squares(), batch_size=3, shuffle=True, drop_last=True, num_workers=workers)
             for i in b[1]]
    assert len(order) == 9 and order != sorted(order)
    broken = Squares()
    broken.broken = True
    with pytest.raises(KeyError, match="sample 7"):
        list(DataLoader(broken, num_workers=workers))

    class Stream(IterableDataset):
        def __iter__(self):
            info = torch.utils.data.get_worker_info()
            start, step = (info.id, info.num_workers) if info else (0, 1)
            return iter(range(start, 6, step))
    assert sorted(x for b in DataLoader(Stream(), batch_size=2, num_workers=workers) for x in b.tolist()) == list(range(6))
    first = next(iter(DataLoader(Squares(), num_workers=workers)))
    assert first[1] == ("0",)


def test_splits_and_tensor_dataset():
    data = TensorDataset(torch.arange(10), torch.arange(10) * 2)
    parts = random_split(data, [0.7, 0.3], generator=torch.Generator().manual_seed(1))
    assert [len(p) for p in parts] == [7, 3] and parts[0][0][1] == 2 * parts[0][0][0]


def test_distributions():
    from tensora import distributions as D
    normal = D.Normal(torch.tensor([0., 1.]), torch.tensor([1., 2.]))
    assert normal.sample((1000,)).mean(0)[1].item() == pytest.approx(1, abs=0.3)
    assert D.kl_divergence(normal, normal).tolist() == [0, 0]
    assert D.Categorical(logits=torch.zeros(3)).entropy().item() == pytest.approx(np.log(3))
    assert D.Gamma(3.0, 2.0).sample((4000,)).mean().item() == pytest.approx(1.5, abs=0.1)
    assert D.Beta(2.0, 2.0).sample((2000,)).mean().item() == pytest.approx(0.5, abs=0.05)
    assert D.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2)).item() == pytest.approx(-1.8379, abs=1e-3)


def test_scaler_and_clipping():
    w = nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale((w * w).sum() / 2).backward()
    assert w.grad.tolist() == [24, 32]
    scaler.unscale_(optimizer)
    assert nn.utils.clip_grad_norm_([w], 1.0).item() == pytest.approx(5)
    scaler.step(optimizer)
    scaler.update()
    assert torch.allclose(w, torch.tensor([2.4, 3.2]), atol=1e-5)
    scaler.scale((w * float("inf")).sum()).backward()
    before = w.tolist()
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == before and scaler.get_scale() == 4


def test_assert_close():
    torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 2"):
        torch.testing.assert_close(torch.tensor([1., 2.]), torch.tensor([1., 3.]))
    with pytest.raises(AssertionError, match="dtype"):
        torch.testing.assert_close(torch.ones(1), torch.ones(1, dtype=torch.float64))


def test_tensorboard(tmp_path):
    from tensora.utils.tensorboard import SummaryWriter
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_scalar("loss", torch.tensor(0.5), 1)
        writer.add_histogram("weights", torch.randn(100), 1)
        writer.add_text("note", "text", 2)
    files = list((tmp_path / "run").iterdir())
    assert len(files) == 1 and files[0].stat().st_size > 100


def test_bilinear_without_bias():
    layer = nn.Bilinear(3, 2, 4, bias=False)
    assert layer.bias is None and list(layer.state_dict()) == ["weight"]
    assert layer(torch.ones(5, 3), torch.ones(5, 2)).shape == (5, 4)


def test_workers_of_streams_give_their_batches_in_turn():
    import time
    from tensora.utils.data import default_collate, get_worker_info

    class Parts(IterableDataset):
        def __iter__(self):
            number = get_worker_info().id
            time.sleep(0.05 * (1 - number))  # the second worker is ready first
            return iter(range(number * 5, number * 5 + 5))
    for _ in range(3):
        batches = [batch.tolist() for batch in DataLoader(Parts(), 3, num_workers=2)]
        assert batches == [[0, 1, 2], [5, 6, 7], [3, 4], [8, 9]]
    assert default_collate([("x", 1), ("y", 2)])[0] == ("x", "y") and default_collate(["x", "y"]) == ["x", "y"]


# ---- hooks ------------------------------------------------------------------------------------------------

def test_hooks_of_all_modules():
    from tensora.nn.modules import module as modules
    calls, layer, x = [], nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)
    layer.register_forward_pre_hook(lambda m, args: calls.append("own pre"))
    layer.register_forward_hook(lambda m, args, out: calls.append("own"))
    layer.register_full_backward_hook(lambda m, gi, go: calls.append("own back"))
    handles = [modules.register_module_forward_pre_hook(lambda m, args: calls.append("pre")),
               modules.register_module_forward_hook(lambda m, args, kwargs, out: calls.append("all") or out * 2, with_kwargs=True),
               modules.register_module_full_backward_pre_hook(lambda m, go: calls.append("back pre")),
               modules.register_module_full_backward_hook(lambda m, gi, go: (gi[0] * 0,))]
    layer(x).sum().backward()
    assert calls == ["pre", "own pre", "all", "own", "back pre", "own back"] and x.grad.tolist() == [[0, 0]]
    for handle in handles:
        handle.remove()
    layer(x)
    assert calls[6:] == ["own pre", "own"]


def test_hooks_on_registration():
    from tensora.nn.modules import module as modules
    names = []
    with modules.register_module_parameter_registration_hook(lambda m, name, p: names.append(name)), \
            modules.register_module_buffer_registration_hook(lambda m, name, b: names.append(name)), \
            modules.register_module_module_registration_hook(lambda m, name, child: name == "layer" and nn.Identity() or None):
        net = nn.Module()
        net.layer = nn.Linear(1, 1)
        net.norm = nn.BatchNorm1d(1)
    assert names == ["weight", "bias", "weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    assert isinstance(net.layer, nn.Identity) and isinstance(net.norm, nn.BatchNorm1d)


def test_both_modules_of_utilities_have_their_names():
    state = {"module.weight": 1}
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert state == {"weight": 1} and nn.utils.rnn.pad_sequence


def test_hooks_that_are_always_called():
    calls = []

    class Fails(nn.Module):
        def forward(self, x, fail=True):
            if fail:
                raise KeyError("mine")
            return x
    net = Fails()
    net.register_forward_hook(lambda m, args, out: calls.append(out), always_call=True)
    failing = net.register_forward_hook(lambda m, args, out: 1 / 0, always_call=True, prepend=True)
    with pytest.raises(KeyError, match="mine"), pytest.warns(UserWarning, match="silenced"):
        net(1)
    failing.remove()
    net(1, fail=False)
    pre = net.register_forward_pre_hook(lambda m, args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        net(1, fail=False)
    assert calls == [None, 1, None]
    pre.remove()
    net.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match="new_kwargs"):
        net(1, fail=False)


def test_backward_hooks_of_modules_whose_inputs_have_no_gradient():
    layer = nn.Linear(2, 3)
    result = None
    layer.register_full_backward_hook(lambda m, gi, go: result)
    layer(torch.ones(1, 2)).sum().backward()
    result = (torch.ones(1, 2),)
    with pytest.raises(RuntimeError, match="no input requires gradient"):
        layer(torch.ones(1, 2)).sum().backward()


def _counts(module, *rest):
    module.counted = getattr(module, "counted", 0) + 1


def test_hooks_on_state():
    layer = nn.Linear(2, 2)
    layer.register_load_state_dict_pre_hook(_counts)
    copied = pickle.loads(pickle.dumps(layer))
    copied.load_state_dict(layer.state_dict())
    assert copied.counted == 1 and not hasattr(layer, "counted")
    layer.register_state_dict_post_hook(lambda m, state, prefix, metadata: {})
    with pytest.raises(RuntimeError, match="must return None"):
        layer.state_dict()
    other = nn.Linear(2, 2)
    other._register_state_dict_hook(lambda m, state, prefix, metadata: {"mine": 1})
    assert other.state_dict() == {"mine": 1}
    other.register_load_state_dict_post_hook(lambda m, keys: keys)
    with pytest.raises(AssertionError, match="inplace"):
        other.load_state_dict({}, strict=False)
    alone = nn.Linear(1, 1)
    alone.register_load_state_dict_pre_hook(_counts)
    reference = weakref.ref(alone)
    del alone
    assert reference() is None


def test_modules_load_from_the_entries_of_their_own():
    net, seen = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Linear(1, 1))), []
    net[1].register_load_state_dict_pre_hook(lambda module, state, *rest: seen.append(sorted(state)))
    state = net.state_dict()
    state["1.more"] = state["2.weight"] = torch.ones(1)
    assert net.load_state_dict(state, strict=False).unexpected_keys == ["2.weight", "1.more"]
    assert seen == [["1.0.bias", "1.0.weight", "1.more"]]


@pytest.mark.parametrize("batch_first", [False, True])
def test_transformers_check_their_inputs(batch_first):
    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=batch_first)
    x = torch.randn(4, 4, 8)
    other = x[:3] if batch_first else x[:, :3]
    assert model(x, x).shape == x.shape and model(x[0], x[1]).shape == (4, 8)
    for src, tgt, message in ((x, other, "batch"), (x[..., :7], x, "d_model"), (x, x[..., :7], "d_model")):
        with pytest.raises(RuntimeError, match=message):
            model(src, tgt)


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_of_tensors_of_other_sizes_warn(loss):
    x = torch.randn(3, 1)
    with pytest.warns(UserWarning, match="broadcasting"):
        assert loss(x, torch.randn(3)).dim() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(x, torch.randn(3, 1))


def test_gradients_are_converted_with_their_parameters():
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    layer.double()
    assert layer.weight.grad.dtype is torch.float64 and layer.weight.grad.tolist() == [[1, 1], [1, 1]]
