"""tensora.compile and tensora.lazy: the function runs at every call, and its kernels are fused."""
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
