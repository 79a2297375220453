"""tensora.compile and tensora.lazy: the function runs at every call, and its kernels are fused."""
import threading

import pytest
import tensora
from tensora import nn


def test_results_are_those_of_eager():
    x = tensora.arange(12, dtype=tensora.float32).reshape(3, 4)
    f = tensora.compile(lambda a: (a * 2 + 1).relu().t())
    assert f(x).tolist() == (x * 2 + 1).relu().t().tolist()


def test_the_body_runs_at_every_call():
    state = {"scale": 2.0, "calls": 0}

    @tensora.compile
    def f(x):
        state["calls"] += 1
        return x * state["scale"] + 1

    x = tensora.ones(3)
    assert f(x).tolist() == [3, 3, 3]
    state["scale"] = 5.0
    assert f(x).tolist() == [6, 6, 6]
    assert state["calls"] == 2


def test_training_step_equals_eager():
    def train(compiled):
        tensora.manual_seed(1)
        net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 2))
        optimizer = tensora.optim.AdamW(net.parameters(), lr=1e-2)
        x, y = tensora.randn(16, 6), tensora.randn(16, 2)

        def step():
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.item()

        run = tensora.compile(step) if compiled else step
        return [run() for _ in range(5)]

    assert train(True) == pytest.approx(train(False), rel=1e-5)


def test_modules_stay_modules():
    net = nn.Linear(3, 2)
    assert tensora.compile(net, mode="reduce-overhead") is net
    x = tensora.ones(4, 3)
    assert tensora.allclose(net(x), x @ net.weight.t() + net.bias)
    net(x).sum().backward()
    assert net.weight.grad is not None


def test_reading_a_value_inside_a_scope():
    with tensora.lazy():
        x = tensora.ones(4) * 3
        if (x.sum() > 10).item():
            x = x + 1
        assert x.numpy().tolist() == [4, 4, 4, 4]
        y = x.data
        x.add_(1)
        assert y.tolist() == [5, 5, 5, 5]


def test_an_error_leaves_what_came_before():
    x = tensora.zeros(2)
    with pytest.raises(Exception):
        with tensora.lazy():
            x.add_(1)
            tensora.ones(2, 3) @ tensora.ones(2, 3)
    assert x.tolist() == [1, 1]


def test_explain_and_stats():
    before = tensora.jit_stats()["ops"]
    text = tensora.explain(lambda x: (x * 2 + 1).exp(), tensora.ones(5))
    assert "mul add exp" in text and "kernels" in text
    assert tensora.jit_stats()["ops"] > before


def test_explain_names_lines():
    def f(x):
        y = (x * 2 + 1).exp()
        if y.sum().item() > 0:
            y = y @ y
        return y.relu() + 1

    first = f.__code__.co_firstlineno
    text = tensora.explain(f, tensora.ones(4, 4))
    assert f"the host reads or writes a tensor at test_compile.py:{first + 2}" in text
    assert f"matmul at test_compile.py:{first + 3}: " in text
    assert f"relu add at test_compile.py:{first + 4}: " in text


# ---- replay


def test_replay_skips_the_body():
    bodies = []

    @tensora.compile(replay=True)
    def f(x, scale, extra=None):
        bodies.append(scale)
        y = x * scale + 1
        return {"y": y.relu(), "parts": (y.sum(), None if extra is None else extra + y)}

    with tensora.no_grad():
        for i in range(6):
            x = tensora.full((3,), i - 2.0)
            result = f(x, 2.0)
            assert result["y"].tolist() == (x * 2 + 1).relu().tolist()
            assert result["parts"][0].item() == (x * 2 + 1).sum().item() and result["parts"][1] is None
        assert len(bodies) == 2 and f.replayed() == 4
        x = tensora.ones(3)
        for _ in range(3):
            assert f(x, 3.0, extra=x)["parts"][1].tolist() == [5, 5, 5]  # other arguments, other recordings
            assert f(x, 3)["y"].tolist() == [4, 4, 4]
        assert f.replayed() == 6


def test_replay_draws_new_numbers_and_reads_captured_tensors():
    weight = tensora.ones(4)
    f = tensora.compile(lambda x: tensora.dropout(x, 0.5, True) * weight, replay=True)
    x = tensora.ones(4)
    with tensora.no_grad():
        for i in range(5):
            weight.fill_(i)
            tensora.manual_seed(i)
            expected = tensora.dropout(x, 0.5, True) * weight
            tensora.manual_seed(i)
            assert f(x).tolist() == expected.tolist()
    assert f.replayed() == 3


def test_replay_refuses_and_explains():
    counter = []

    def f(x):
        counter.append(1)
        return x * len(counter)

    changing = tensora.compile(f, replay=True)
    with tensora.no_grad():
        for i in range(4):
            assert changing(tensora.ones(2)).tolist() == [i + 1, i + 1]
    assert changing.replayed() == 0 and "not replayed: " in changing.describe()

    verified = tensora.compile(lambda x: x * box[0], replay=True, verify=2)
    box = [tensora.ones(2)]
    with tensora.no_grad(), pytest.raises(RuntimeError, match="out of date"):
        for _ in range(8):
            verified(tensora.ones(2))
            if verified.replayed():
                box[0] = tensora.zeros(2)
    with pytest.raises(TypeError, match="returns tensors, got float"):
        tensora.compile(lambda x: x.sum().item(), replay=True)(tensora.ones(2))
    with pytest.raises(TypeError, match="values that can be hashed, got set"):
        tensora.compile(lambda x, y: x, replay=True)(tensora.ones(2), {1})
    with pytest.raises(ValueError, match="replay is off"):
        tensora.compile(lambda x: x, verify=3)


def test_replay_tells_signatures_apart():
    f = tensora.compile(lambda x, scale: x * scale, replay=True)
    x = tensora.ones(1)
    with tensora.no_grad():
        for _ in range(3):
            for scale, text in ((0.0, "[0.0]"), (-0.0, "[-0.0]"), (0, "[0.0]"), (float("nan"), "[nan]")):
                assert str(f(x, scale).tolist()) == text
        assert f.replayed() == 4


def test_replay_in_threads():
    weight = tensora.rand(16, 16)

    def step(x):
        return (x @ weight).softmax(-1).relu() + x

    f = tensora.compile(step, replay=True)
    wrong = []

    def work(number):
        with tensora.no_grad():
            for i in range(40):
                x = tensora.full((8, 16), number + i * 0.01)
                if not tensora.allclose(f(x), step(x)):
                    wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and f.replayed() > 60


def test_replay_of_a_module():
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).eval()
    x = tensora.randn(3, 4)
    with tensora.no_grad():
        expected = net(x)
        assert tensora.compile(net, replay=True) is net
        for _ in range(4):
            assert tensora.allclose(net(x), expected)
        net[0].weight.mul_(0)
        net[0].bias.mul_(0)
        assert tensora.allclose(net(x), net[2].bias.expand(3, 2))
    assert net.forward.replayed() == 3


def test_replay_follows_changes_of_modules():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4)).eval()
    f = tensora.compile(lambda x: net(x), replay=True)
    x = tensora.randn(8, 4)

    def expect_eager():
        for _ in range(3):
            tensora.manual_seed(3)
            start = {key: value.clone() for key, value in net.state_dict().items()}
            expected = net(x)
            net.load_state_dict(start)
            tensora.manual_seed(3)
            assert tensora.allclose(f(x), expected)

    with tensora.no_grad():
        expect_eager()
        assert f.replayed() == 1
        net.train()
        expect_eager()
        net.eval()  # nothing is lost by calling it again
        expect_eager()
        before = f.replayed()
        net.eval()
        expect_eager()
        assert f.replayed() == before + 3
        net[0].weight = nn.Parameter(tensora.randn(4, 4))
        expect_eager()
        net[2].running_mean = tensora.ones(4)
        expect_eager()
        net[1] = nn.ReLU()
        expect_eager()
        net.load_state_dict({key: value + 1 for key, value in net.state_dict().items()}, assign=True)
        expect_eager()
        net.double()
        x = x.double()
        expect_eager()


def test_replay_follows_data():
    weight = nn.Parameter(tensora.ones(3))
    f = tensora.compile(lambda x: x * weight, replay=True)
    x = tensora.ones(3)
    with tensora.no_grad():
        for _ in range(4):
            assert f(x).tolist() == [1, 1, 1]
        weight.data = tensora.full((3,), 2.0)
        for _ in range(4):
            assert f(x).tolist() == [2, 2, 2]
        weight.data *= 2  # the same memory
        assert f(x).tolist() == [4, 4, 4] and f.replayed() == 5


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Rprop", "ASGD"])
@pytest.mark.parametrize("first", [True, False])
def test_training_steps_are_replayed(kind, first):
    def train(replay):
        tensora.manual_seed(1)
        net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 2))
        optimizer = getattr(tensora.optim, kind)(net.parameters(), lr=1e-2)
        scheduler = tensora.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)

        def step(x, y):
            if first:
                optimizer.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            if not first:
                optimizer.zero_grad()
            return loss.detach()

        run = tensora.compile(step, replay=True) if replay else step
        losses = []
        for i in range(12):
            losses.append(run(tensora.randn(16, 6), tensora.randn(16, 2)).item())
            scheduler.step()
            if i == 9:
                optimizer.param_groups[0]["lr"] = 0.5
        count = optimizer.state[next(net.parameters())].get("step", tensora.tensor(0))
        return losses + [float(count)] + next(net.parameters()).flatten().tolist(), run

    actual, run = train(True)
    assert actual == pytest.approx(train(False)[0], rel=1e-4, abs=1e-5)
    assert run.replayed() >= (4 if kind in ("SGD", "Adam", "AdamW") else 0), run.describe()


def test_what_would_be_stale_is_not_replayed():
    net = nn.Linear(3, 2)
    x = tensora.ones(4, 3)

    def described(make):
        optimizer = make()
        scheduler = tensora.optim.lr_scheduler.StepLR(optimizer, 100)

        def step():
            optimizer.zero_grad()
            loss = net(x).sum()
            loss.backward()
            optimizer.step()
            if type(optimizer) is tensora.optim.SGD:
                scheduler.step()
            return loss.detach()

        run = tensora.compile(step, replay=True)
        for _ in range(5):
            run()
        assert run.replayed() == 0
        return run.describe()

    class Mine(tensora.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.1})

        def step(self, closure=None):
            with tensora.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p -= group["lr"] * p.grad

    assert "a learning-rate scheduler steps" in described(lambda: tensora.optim.SGD(net.parameters(), lr=0.1))
    assert "a step of its own" in described(lambda: Mine(net.parameters()))
    hooked = tensora.optim.Adam(net.parameters())
    hooked.register_step_post_hook(lambda *args: None)
    assert "has hooks" in described(lambda: hooked)


def test_arguments_of_torch_compile():
    f = lambda x: x * 2
    x = tensora.ones(3, dtype=tensora.bfloat16)
    assert tensora.compile(f, backend="eager") is f and tensora.compile(f, disable=True) is f
    for mode in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        assert tensora.compile(f, mode=mode, dynamic=True)(x).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="unknown mode 'fast'"):
        tensora.compile(f, mode="fast")
    with pytest.raises(RuntimeError, match="either mode or options"):
        tensora.compile(f, mode="default", options={})
    with pytest.warns(UserWarning, match="backend .* has no effect"):
        tensora.compile(f, backend="mine")
    with pytest.warns(UserWarning, match="'epilogue_fusion' has no effect"):
        tensora.compile(f, options={"epilogue_fusion": True})
    y = tensora.randn(1000).to(tensora.bfloat16)
    chain = lambda x: ((x * 1.1 + 0.3).sin() * 3.3 - 1.7).tanh()
    wide = tensora.compile(chain, options={"wide": True})(y)
    assert tensora.equal(tensora.compile(chain, options={"wide": False})(y), chain(y))
    assert not tensora.equal(wide, chain(y))
    assert tensora.equal(wide, chain(y.float()).to(tensora.bfloat16))
