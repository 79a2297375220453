"""Names that PyTorch's programs import, and optimizers and schedules against PyTorch's numbers."""
import numpy
import pytest

import tensora
from tensora import nn, optim
from tensora.nn import functional as F


def test_files_of_pytorch_can_be_imported():
    from tensora.nn.attention import SDPBackend, sdpa_kernel
    from tensora.nn.modules.batchnorm import BatchNorm2d, _BatchNorm
    from tensora.nn.modules.utils import _pair, _triple, consume_prefix_in_state_dict_if_present
    from tensora.utils.data.dataloader import DataLoader, default_collate
    assert isinstance(BatchNorm2d(3), _BatchNorm) and BatchNorm2d is nn.BatchNorm2d
    assert _pair(3) == (3, 3) and _pair([1, 2]) == (1, 2) and _triple(0) == (0, 0, 0)
    assert DataLoader is tensora.utils.data.DataLoader and default_collate([1, 2]).tolist() == [1, 2]
    state = {"module.a": 1, "b": 2}
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert state == {"a": 1, "b": 2}
    x = tensora.ones(1, 1, 2, 2)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        assert F.scaled_dot_product_attention(x, x, x).equal(x)
    with pytest.raises(TypeError, match="expected SDPBackend"):
        with sdpa_kernel("flash"):
            pass


@pytest.mark.parametrize("name, hint", [("sparse_bsr_tensor", "sparse_coo and sparse_csr"), ("quantization", "Tensor.quantize"),
                                        ("poisson", "distributions.Poisson"), ("matmull", "did you mean matmul"), ("gost", "lists what differs"),
                                        ("get_thing", "lists what differs"), ("importlib", "lists what differs")])
def test_what_is_not_there_says_what_to_use(name, hint):
    with pytest.raises(AttributeError, match=hint):
        getattr(tensora, name)


def rates(epochs, steps, **options):
    layer = nn.Linear(2, 2)
    optimizer = optim.SGD([{"params": [layer.weight], "lr": 0.3}, {"params": [layer.bias]}], lr=1.0)
    schedule = optim.swa_utils.SWALR(optimizer, anneal_epochs=epochs, **options)
    seen = []
    for _ in range(steps):
        seen.append([group["lr"] for group in optimizer.param_groups])
        schedule.step()
    return numpy.array(seen)


def test_swalr():  # numbers of PyTorch 2.15
    numpy.testing.assert_allclose(rates(2, 4, swa_lr=0.1), [[0.3, 1.0], [0.2, 0.55], [0.1, 0.1], [0.1, 0.1]])
    numpy.testing.assert_allclose(rates(4, 3, swa_lr=[0.1, 0.2], anneal_strategy="linear"),
                                  [[0.3, 1.0], [0.25, 0.8], [0.2, 0.6]])
    assert rates(0, 1, swa_lr=0.1).tolist() == [[0.1, 0.1]]
    for wrong in ({"swa_lr": [1.0]}, {"swa_lr": 1.0, "anneal_strategy": "steep"}, {"swa_lr": 1.0, "epochs": -1}):
        with pytest.raises(ValueError):
            rates(wrong.pop("epochs", 1), 1, **wrong)


def descend(make, steps=5):
    parameter = nn.Parameter(tensora.tensor([-2.0, 0.5, 2.0], dtype=tensora.float64))
    optimizer = make([parameter])

    def closure():
        optimizer.zero_grad()
        loss = ((parameter - 0.3) ** 2).sum()
        loss.backward()
        return loss
    for _ in range(steps):
        loss = optimizer.step(closure)
    return parameter.tolist(), loss.item()


def test_rprop():  # numbers of PyTorch 2.15
    found, loss = descend(lambda p: optim.Rprop(p, lr=0.3), steps=4)
    numpy.testing.assert_allclose(found, [-0.3896, 0.35, 0.3896], rtol=1e-12)
    assert loss == pytest.approx(1.831428, rel=1e-12)
    for wrong in ({"lr": -1}, {"etas": (1.5, 2)}, {"etas": (0.5, 0.9)}):
        with pytest.raises(ValueError):
            optim.Rprop([nn.Parameter(tensora.ones(1))], **wrong)


def test_asgd_takes_a_closure_that_computes_gradients():
    found, loss = descend(lambda p: optim.ASGD(p, lr=0.1))
    numpy.testing.assert_allclose(found, [-0.45364111813368446, 0.36552304884774145, 0.8570215490365971], rtol=1e-7)
    assert loss == pytest.approx(1.3789831944000235, rel=1e-7)  # PyTorch 2.15 keeps its rates in float32


@pytest.mark.parametrize("kind", [optim.ASGD, optim.Rprop, optim.SGD])
def test_hooks_and_closures_of_every_kind(kind):
    weight = tensora.ones(2, requires_grad=True)
    optimizer, calls = kind([weight], lr=0.1), []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))

    def closure():
        optimizer.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2
    assert calls == ["before", "after"] and bool((weight < 1).all())
