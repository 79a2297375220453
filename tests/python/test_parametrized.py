"""Pruning, parametrizations, and layers folded into one another."""
import copy
import pickle

import pytest

import tensora
from tensora import nn
from tensora.nn.utils import fusion, parametrizations, parametrize, prune


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


def test_parametrized_weights_follow_the_original():
    layer = nn.Linear(3, 3)
    before = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert tensora.equal(layer.weight, layer.weight.T) and tensora.equal(layer.weight.triu(), before.triu())
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert parametrize.is_parametrized(layer, "weight") and parametrize.type_before_parametrizations(layer) is nn.Linear
    layer(tensora.randn(2, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad is not None
    layer.weight = tensora.eye(3)
    assert tensora.equal(layer.weight, tensora.eye(3))
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight
    twin = copy.deepcopy(layer)
    twin.weight = 2 * tensora.eye(3)
    assert tensora.equal(layer.weight, tensora.eye(3)) and tensora.equal(twin.weight, 2 * tensora.eye(3))
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter) and sorted(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError):
        parametrize.register_parametrization(layer, "nothing", Symmetric())


def test_weight_norm_by_its_newer_names():
    layer = nn.Conv1d(2, 4, 3)
    before = layer.weight.detach().clone()
    parametrizations.weight_norm(layer)
    assert tensora.allclose(layer.weight, before, 1e-5, 1e-6)
    assert set(layer.state_dict()) == {"bias", "parametrizations.weight.original0", "parametrizations.weight.original1"}
    assert layer.parametrizations.weight.original0.shape == (4, 1, 1)
    layer.parametrizations.weight.original0.data.mul_(2)
    assert tensora.allclose(layer.weight, 2 * before, 1e-5, 1e-6)


def test_spectral_norm_and_orthogonal():
    layer = parametrizations.spectral_norm(nn.Linear(5, 4))
    for _ in range(20):
        layer(tensora.randn(1, 5))
    assert tensora.linalg.svdvals(layer.weight.detach())[0].item() == pytest.approx(1, abs=1e-3)
    assert {"parametrizations.weight.original", "parametrizations.weight.0._u"} <= set(layer.state_dict())
    for shape in ((4, 4), (5, 3), (3, 5)):
        for kind in ("matrix_exp", "cayley"):
            layer = parametrizations.orthogonal(nn.Linear(*shape), orthogonal_map=kind)
            for _ in range(2):
                w = layer.weight.detach()
                product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
                assert tensora.allclose(product, tensora.eye(min(shape)), 1e-4, 1e-5), (shape, kind)
                layer.parametrizations.weight.original.data.add_(tensora.randn(layer.weight.shape) * 0.3)


def test_pruning_keeps_masks_and_gradients():
    layer = nn.Linear(10, 4)
    weight = layer.weight.detach().clone()
    prune.l1_unstructured(layer, "weight", amount=0.5)
    assert int((layer.weight == 0).sum()) == 20 and set(dict(layer.named_buffers())) == {"weight_mask"}
    threshold = weight.abs().reshape(-1).sort()[0][20]
    assert tensora.equal(layer.weight_mask.bool(), weight.abs() >= threshold)
    layer(tensora.randn(3, 10)).sum().backward()
    assert bool((layer.weight_orig.grad[layer.weight_mask == 0] == 0).all())
    prune.random_unstructured(layer, "weight", amount=4)
    assert int((layer.weight_mask == 0).sum()) == 24 and prune.is_pruned(layer)
    prune.remove(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and int((layer.weight == 0).sum()) == 24 and not prune.is_pruned(layer)


def test_structured_global_and_custom_pruning():
    layer = nn.Conv2d(3, 6, 3)
    prune.ln_structured(layer, "weight", amount=2, n=2, dim=0)
    assert int((layer.weight.abs().sum((1, 2, 3)) == 0).sum()) == 2
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    prune.global_unstructured([(model[0], "weight"), (model[1], "weight")], prune.L1Unstructured, amount=10)
    assert sum(int((m.weight == 0).sum()) for m in model) == 10
    prune.custom_from_mask(model[0], "bias", tensora.tensor([1, 0, 1, 0]))
    assert model[0].bias[1].item() == 0
    for wrong, kind in ((lambda: prune.random_unstructured(nn.Linear(2, 2), "weight", 9), ValueError),
                        (lambda: prune.random_unstructured(nn.Linear(2, 2), "weight", 1.5), ValueError),
                        (lambda: prune.remove(nn.Linear(2, 2), "weight"), ValueError),
                        (lambda: prune.random_structured(nn.Linear(2, 2), "bias", 1, 0), ValueError)):
        with pytest.raises(kind):
            wrong()


def test_folding_a_batch_norm():
    conv, norm = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)
    norm(tensora.randn(4, 3, 5, 5))
    conv.eval(), norm.eval()
    x = tensora.randn(2, 2, 6, 6)
    assert tensora.allclose(fusion.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)), 1e-4, 1e-5)
    linear, norm = nn.Linear(4, 3).eval(), nn.BatchNorm1d(3).eval()
    y = tensora.randn(5, 4)
    assert tensora.allclose(fusion.fuse_linear_bn_eval(linear, norm)(y), norm(linear(y)), 1e-4, 1e-5)


def test_sync_batch_norm_of_one_process():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert type(converted[1]) is nn.SyncBatchNorm and sorted(converted.state_dict()) == sorted(net.state_dict())
    x = tensora.randn(6, 3)
    assert tensora.allclose(converted(x), nn.functional.batch_norm(net[0](x), None, None, training=True), 1e-5, 1e-6)


def test_a_further_parametrization_computes_from_the_former():
    class Double(nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            return x / 2

    class Outer(nn.Module):
        def forward(self, a, b):
            return a[:, None] * b

        def right_inverse(self, x):
            return x[:, 0], x[0] / x[0, 0]
    layer = nn.Linear(3, 3, bias=False)
    parametrize.register_parametrization(layer, "weight", Outer())
    before = layer.weight.detach()
    parametrize.register_parametrization(layer, "weight", Double())
    assert tensora.allclose(layer.weight, 2 * before) and len(list(layer.parameters())) == 2
    layer.weight = before
    assert tensora.allclose(layer.weight, before)


@pytest.mark.parametrize("forward, inverse, message", [
    (lambda x: x.double(), None, "change the dtype"), (lambda x: x[0], None, "change the shape"), (lambda x: 3, None, "return a tensor"),
    (lambda x: x, lambda x: x[0], "same shape"), (lambda x: x, lambda x: x.half(), "dtype"), (lambda x: x, lambda x: 3, "must return")])
def test_parametrizations_keep_dtype_and_shape(forward, inverse, message):
    class Wrong(nn.Module):
        def forward(self, x):
            return forward(x)
    if inverse is not None:
        Wrong.right_inverse = lambda self, x: inverse(x)
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", nn.Identity())
    with pytest.raises(ValueError, match=message):
        parametrize.register_parametrization(layer, "weight", Wrong())
    if message != "same shape":  # of a first one the result counts alone
        with pytest.raises(ValueError, match=message):
            parametrize.register_parametrization(nn.Linear(2, 2), "weight", Wrong())


def test_spectral_norm_of_complex_weights():
    layer = nn.Linear(2, 2, dtype=tensora.complex64)
    with tensora.no_grad():
        diagonal = tensora.tensor([3 + 4j, 1 - 1j])
        layer.weight.copy_(tensora.diag(diagonal))
        nn.utils.parametrizations.spectral_norm(layer)
        assert tensora.allclose(layer.weight, tensora.diag(diagonal / 5), atol=1e-4)
