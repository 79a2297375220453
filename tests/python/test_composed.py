"""Names that are composed of ops in Python: masked, signal.windows, gradient, histograms, lazy layers; and reprs.

The numbers are PyTorch 2.15's; module_reprs.json holds repr(torch.nn.X(...)) by the expression X(...).
"""
import copy
import json
import math
import pathlib
import pickle

import pytest

import tensora
import tensora as t  # noqa: F401 - named by module_reprs.json
from tensora import nn

X = [[1., -2., 3.], [4., 5., -6.]]
MASK = [[True, False, True], [False, True, True]]
# Of all elements with the mask, of rows with the mask, and of columns without it.
REDUCED = {
    "sum": (3., [4., -1.], [5., 3., -3.]), "prod": (-90., [3., -30.], [4., -10., -18.]),
    "amax": (5., [3., 5.], [4., 5., 3.]), "amin": (-6., [1., -6.], [1., -2., -6.]),
    "argmax": (4., [2., 1.], [1., 1., 0.]), "argmin": (5., [0., 2.], [0., 0., 1.]),
    "mean": (0.75, [2., -0.5], [2.5, 1.5, -1.5]),
    "logsumexp": (5.142946243, [3.126928091, 5.000016689], [4.048587322, 5.000911236, 3.000123262]),
    "norm": (8.426149368, [3.162277699, 7.810249805], [4.123105526, 5.385164807, 6.708203932]),
    "var": (22.91666603, [2., 60.5], [4.5, 24.5, 40.5]),
    "std": (4.787135601, [1.414213538, 7.7781744], [2.121320248, 4.949747562, 6.363960743])}
KEPT = {
    "cumsum": [[1., 1., 4.], [0., 5., -1.]], "cumprod": [[1., 1., 3.], [1., 5., -30.]], "median": [1., -6.],
    "softmax": [[0.119202912, 0., 0.880797029], [0., 0.999983311, 1.670142228e-05]],
    "log_softmax": [[-2.126928091, -math.inf, -0.126928046], [-math.inf, -1.668916047e-05, -11.00001621]],
    "softmin": [[0.880797029, 0., 0.119202912], [0., 1.670142228e-05, 0.999983311]]}


def close(actual, expected):
    tensora.testing.assert_close(actual, tensora.tensor(expected, dtype=actual.dtype), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", REDUCED)
def test_masked_reductions(name):
    x, mask, function = tensora.tensor(X), tensora.tensor(MASK), getattr(tensora.masked, name)
    everything, rows, columns = REDUCED[name]
    close(function(x, mask=mask), everything)
    close(function(x, dim=1, mask=mask), rows)
    close(function(x, dim=0), columns)
    assert function(x, dim=1, mask=mask, keepdim=True).shape == (2, 1)


@pytest.mark.parametrize("name", KEPT)
def test_masked_normalizations(name):
    x, mask = tensora.tensor(X), tensora.tensor(MASK)
    close(getattr(tensora.masked, name)(x, 1, mask=mask), KEPT[name])


def test_masked_rest():
    x, mask, m = tensora.tensor(X), tensora.tensor(MASK), tensora.masked
    close(m.normalize(x, 2., 1, mask=mask), [[0.316227764, 0., 0.948683262], [0., 0.640184402, -0.768221259]])
    close(m.logaddexp(x, x, input_mask=mask), [[1.693147182, -2., 3.693147182], [4., 5.693147182, -5.306852818]])
    assert m.sum(x.to(tensora.int8), mask=mask).dtype is tensora.int64
    assert m.amax(x.to(tensora.int16), 1, mask=tensora.tensor([True, False, False])).tolist() == [1, 4]
    with pytest.raises(IndexError):
        m.sum(x[0], mask=mask)
    x.requires_grad_()
    m.mean(x, mask=mask).backward()
    assert x.grad.tolist() == [[0.25, 0., 0.25], [0., 0.25, 0.25]]


WINDOWS = {"bartlett": [0., .5, 1.], "blackman": [0., 0.34, 1.], "cosine": [0.309017, 0.809017, 1.],
           "exponential": [0.135335, 0.367879, 1.], "gaussian": [0.135335, 0.606531, 1.],
           "general_cosine": [0.4, 0.3, 1.], "general_hamming": [0.08, 0.54, 1.], "hamming": [0.08, 0.54, 1.],
           "hann": [0., 0.5, 1.], "kaiser": [5.3e-05, 0.215673, 1.], "nuttall": [0.000363, 0.226982, 1.]}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    window = getattr(tensora.signal.windows, name)
    options = {"a": [0.5, 0.3, 0.2]} if name == "general_cosine" else {}
    half = WINDOWS[name]
    close(window(5, dtype=tensora.float64, **options), half + half[1::-1])
    close(window(4, sym=False, dtype=tensora.float64, **options), half + half[1:2])
    assert window(0, **options).shape == (0,) and window(1, **options).tolist() == [1.]
    assert window(3, requires_grad=True, **options).requires_grad
    for wrong in (dict(M=-1), dict(M=3, dtype=tensora.int64), dict(M=3, layout="coo")):
        with pytest.raises(ValueError):
            window(**wrong, **options)


def test_window_options():
    windows = tensora.signal.windows
    close(windows.exponential(4, center=1., tau=2., sym=False), [0.606531, 1., 0.606531, 0.367879])
    for wrong in (lambda: windows.exponential(4, center=1.), lambda: windows.exponential(4, tau=0.),
                  lambda: windows.gaussian(4, std=0.), lambda: windows.general_cosine(4, a=[])):
        with pytest.raises(ValueError):
            wrong()


def test_gradient():
    x, coordinates = tensora.tensor([1., 2., 4., 8.]), tensora.tensor([0., 1., 3., 4.])
    for options, expected in ((dict(), [1., 1.5, 3., 4.]), (dict(spacing=2.), [.5, .75, 1.5, 2.]),
                              (dict(edge_order=2), [.5, 1.5, 3., 5.]), (dict(spacing=[coordinates]), [1., 1., 3., 4.]),
                              (dict(spacing=[coordinates], edge_order=2), [1., 1., 3., 5.])):
        found, = tensora.gradient(x, **options)
        close(found, expected)
    rows, columns = tensora.gradient(x.reshape(2, 2), spacing=[1., 2.])
    close(rows, [[3., 6.], [3., 6.]])
    close(columns, [[.5, .5], [2., 2.]])
    close(tensora.gradient(x.reshape(2, 2), dim=1, spacing=2.)[0], [[.5, .5], [2., 2.]])
    close(tensora.gradient(tensora.arange(4))[0], [1., 1., 1., 1.])
    for wrong in (lambda: tensora.gradient(x[:1]), lambda: tensora.gradient(x, edge_order=3),
                  lambda: tensora.gradient(x.reshape(2, 2), spacing=[2.])):
        with pytest.raises(RuntimeError):
            wrong()


def test_histogramdd():
    points = tensora.tensor([[0., 1.], [1., 0.], [2., 0.], [2., 2.]])
    hist, edges = tensora.histogramdd(points, bins=[3, 3], weight=tensora.tensor([1., 2., 4., 8.]))
    assert hist.tolist() == [[0., 1., 0.], [2., 0., 0.], [4., 0., 8.]]
    close(edges[0], [0., 2 / 3, 4 / 3, 2.])
    line = tensora.tensor([[0., 0.], [1., 1.], [2., 2.]])
    found = tensora.histogramdd(line, bins=[2, 2], range=[0., 1., 0., 1.], density=True)
    assert found.hist.tolist() == [[2., 0.], [0., 2.]] and found.bin_edges[1].tolist() == [0., 0.5, 1.]
    assert tensora.histogramdd(line, 3).hist.tolist() == [[1., 0., 0.], [0., 1., 0.], [0., 0., 1.]]
    bins = [tensora.tensor([0., .5, 2.]), tensora.tensor([0., 1.])]
    assert tensora.histogramdd(line[:2], bins).hist.tolist() == [[1.], [1.]]


def test_copies_of_views():
    x = tensora.arange(6.).reshape(2, 3).requires_grad_()
    for name, arguments in (("permute", ((1, 0),)), ("t", ()), ("unsqueeze", (0,)), ("expand", ((4, 2, 3),)), ("alias", ()),
                            ("narrow", (1, 0, 2)), ("diagonal", ()), ("view", (3, 2)), ("transpose", (0, 1)),
                            ("as_strided", ((2,), (1,))), ("squeeze", ()), ("unfold", (1, 2, 1)), ("select", (0, 1))):
        copy = getattr(tensora, name + "_copy")(x, *arguments)
        view = x if name == "alias" else getattr(x, name)(*arguments)
        assert copy.equal(view) and not copy._shares_storage(x) and copy.requires_grad, name
    assert [p.tolist() for p in tensora.unbind_copy(x, 1)] == [[0., 3.], [1., 4.], [2., 5.]]
    assert [p.shape[1] for p in tensora.split_with_sizes_copy(x, [1, 2], 1)] == [1, 2]
    assert tensora.constant_pad_nd(x, [1, 0], 7.)[:, 0].tolist() == [7., 7.]


def test_nonzero_static():
    x = tensora.tensor([1., 0., 4., 8.])
    assert tensora.nonzero_static(x, size=5).tolist() == [[0], [2], [3], [-1], [-1]]
    assert x.nonzero_static(size=2, fill_value=-7).tolist() == [[0], [2]]
    assert tensora.nonzero_static(tensora.eye(2), size=3, fill_value=-7).tolist() == [[0, 0], [1, 1], [-7, -7]]


# ---- layers ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_lazy_convolutions(kind, n):
    lazy, plain = getattr(nn, f"Lazy{kind}{n}d"), getattr(nn, f"{kind}{n}d")
    layer = lazy(4, 3, groups=2)
    assert layer.has_uninitialized_params() and isinstance(layer, plain)
    optimizer = tensora.optim.SGD(layer.parameters(), lr=0.1)
    x = tensora.randn(2, 6, *[5] * n)
    y = layer(x)
    assert type(layer) is plain and layer.in_channels == 6 and y.shape[:2] == (2, 4)
    assert layer.weight.shape == plain(6, 4, 3, groups=2).weight.shape and layer.weight.isfinite().all()
    before = layer.weight.detach().clone()
    y.sum().backward()
    optimizer.step()
    assert not layer.weight.equal(before)
    again = lazy(4, 3, groups=2)
    assert isinstance(again.weight, nn.parameter.UninitializedParameter)
    copied = copy.deepcopy(pickle.loads(pickle.dumps(again)))
    for other in (again, copied):
        other.load_state_dict(layer.state_dict())
        assert type(other) is lazy and not other.has_uninitialized_params()
        assert other(x).equal(layer(x)) and type(other) is plain
    with pytest.raises(RuntimeError, match="uninitialized"):
        layer.load_state_dict(lazy(4, 3, groups=2).state_dict())
    assert lazy(4, 3)(x[0]).shape[0] == 4  # without a batch
    with pytest.raises(ValueError, match="divisible"):
        lazy(4, 3, groups=4)(x)


def test_lazy_norms_and_linear():
    for n in (1, 2, 3):
        for kind in ("BatchNorm", "InstanceNorm"):
            layer = getattr(nn, f"Lazy{kind}{n}d")(bias=False)
            x = tensora.randn(2, 3, *[4] * n)
            assert layer(x).shape == x.shape and type(layer) is getattr(nn, f"{kind}{n}d")
            assert layer.weight.tolist() == [1.] * 3 and layer.bias is None and layer.num_features == 3
    linear = nn.LazyLinear(3)
    assert linear(tensora.ones(2, 5)).shape == (2, 3) and type(linear) is nn.Linear and linear.in_features == 5


def test_differences_beside_infinities():
    inf, nan = float("inf"), float("nan")
    found, = tensora.gradient(tensora.tensor([1., inf, 3., 5., nan, 1., -inf, -inf, inf]))
    expected = [inf, 1, -inf, nan, -2, nan, -inf, inf, inf]
    assert all(a == b or a != a and b != b for a, b in zip(found.tolist(), expected))


def test_lazy_modules_of_a_program():
    class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.factor, self.shift = nn.parameter.UninitializedParameter(), nn.parameter.UninitializedBuffer()

        def initialize_parameters(self, x, *, size=None):
            if self.has_uninitialized_params():
                self.factor.materialize(x.shape[-1:])
                self.shift.materialize(size or x.shape[-1:])
                with tensora.no_grad():
                    self.factor.fill_(2)
                    self.shift.fill_(1)

        def forward(self, x, *, size=None):
            return x * self.factor + self.shift
    scale = Scale().half()
    parameters = list(scale.parameters())
    with pytest.raises(RuntimeError, match="shape"):
        scale.factor.shape  # noqa: B018
    with pytest.raises(RuntimeError, match="share"):
        scale.share_memory()
    for norm in (nn.utils.weight_norm, nn.utils.spectral_norm):
        with pytest.raises(ValueError, match="uninitialized"):
            norm(nn.LazyLinear(2))
    assert nn.LazyConvTranspose1d(2, 3)(tensora.ones(1, 4, 5), output_size=[7]).shape == (1, 2, 7)
    assert repr(scale.factor) == "<UninitializedParameter>"
    assert scale(tensora.ones(2, 3).half(), size=(1,)).tolist() == [[3] * 3] * 2
    assert type(scale.factor) is nn.Parameter and scale.factor is parameters[0] and scale.factor.dtype is tensora.float16
    assert scale.shift.shape == (1,) and not scale.has_uninitialized_params() and list(scale.state_dict()) == ["factor", "shift"]
    assert scale(tensora.ones(3).half()).tolist() == [3] * 3 and not scale._forward_pre_hooks

    class Forgets(Scale):
        def initialize_parameters(self, x, *, size=None):
            """Leaves the parameters as they are."""
    with pytest.raises(RuntimeError, match="fully initialized"):
        Forgets()(tensora.ones(2))
    loaded = Scale()
    loaded.load_state_dict(scale.state_dict())
    assert loaded.factor.tolist() == [2] * 3 and loaded(tensora.ones(3)).tolist() == [3] * 3
    with pytest.raises(RuntimeError, match="size mismatch"):
        nn.LazyLinear(2).load_state_dict({"weight": tensora.ones(3, 1), "bias": tensora.ones(2)})


def test_norms_without_bias():
    for layer in (nn.BatchNorm1d(2, bias=False), nn.BatchNorm2d(2, bias=False), nn.InstanceNorm1d(2, affine=True, bias=False),
                  nn.GroupNorm(1, 2, bias=False), nn.LayerNorm(2, bias=False)):
        assert layer.bias is None and layer.weight is not None and "bias" not in layer.state_dict()
        layer.reset_parameters()
    x = tensora.randn(4, 2)
    assert nn.BatchNorm1d(2, bias=False)(x).equal(nn.BatchNorm1d(2)(x))
    assert nn.GroupNorm(1, 2, bias=False)(x).equal(nn.GroupNorm(1, 2)(x))


REPRS = json.loads(pathlib.Path(__file__).with_name("module_reprs.json").read_text())


@pytest.mark.parametrize("expression", REPRS)
def test_modules_print_as_in_pytorch(expression):
    assert repr(eval("nn." + expression)) == REPRS[expression]


def test_dtypes_and_numbers_print_as_in_pytorch():
    assert repr(tensora.float32) == str(tensora.float32) == "torch.float32"
    assert repr(tensora.ones(1, dtype=tensora.uint8)) == "tensor([1], dtype=torch.uint8)"
    assert f"{tensora.tensor(0.5)} {tensora.tensor(2):03d} {tensora.ones(1)}" == "0.5 002 tensor([1.])"
    assert repr(tensora.distributions.Normal(0., 1.)) == "Normal(loc: 0.0, scale: 1.0)"


# ---- the array API ---------------------------------------------------------------------------------

def test_array_api_of_2024():
    xp = tensora.ones(1).__array_namespace__()
    assert xp.__array_api_version__ == "2024.12"
    x = xp.asarray([[1., 0.], [3., 4.]])
    assert xp.fft.fft(x, axis=0).equal(tensora.fft.fft(x, dim=0))
    assert xp.fft.fftn(x, axes=(0,)).equal(tensora.fft.fftn(x, dim=(0,)))
    assert xp.fft.irfft(xp.fft.rfft(x, axis=0), n=2, axis=0).allclose(x)
    assert xp.fft.fftshift(x, axes=(1,)).equal(tensora.fft.fftshift(x, dim=(1,)))
    assert xp.fft.fftfreq(4, d=0.5).tolist() == [0., 0.5, -1., -0.5]
    assert xp.count_nonzero(x).item() == 3 and xp.count_nonzero(x, axis=0, keepdims=True).tolist() == [[2, 1]]
    assert xp.diff(x, axis=0).tolist() == [[2., 4.]] and xp.diff(x, prepend=x[:, :1]).shape == (2, 2)
    assert xp.cumulative_prod(xp.asarray([1, 2, 3]), include_initial=True).tolist() == [1, 1, 2, 6]
    assert xp.take_along_axis(x, xp.asarray([[0], [1]]), axis=1).tolist() == [[1.], [4.]]
    assert xp.add(1, xp.asarray([1, 2])).tolist() == [2, 3] and xp.maximum(x, 2.).tolist() == [[2., 2.], [3., 4.]]
    assert xp.subtract(1, xp.asarray([1], dtype=xp.int8)).dtype is xp.int8
    assert xp.__array_namespace_info__().capabilities()["max dimensions"] == 16
    assert xp.ones([1] * 16).ndim == 16
