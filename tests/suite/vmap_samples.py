"""Arguments for the ops of vmap_mode.py."""
import itertools

import tensora

MOST = 4  # samples of an op, beside those that were written by hand
TOLERANCES = {tensora.float32: 1e-6, tensora.complex64: 1e-6}  # of results; 1e-8 for other dtypes

_LEFT_OUT, _RAISES = {}, {}


def _left_out(reason, names):
    _LEFT_OUT.update(dict.fromkeys(names.split(), reason))


def _raises(message, names):
    _RAISES.update(dict.fromkeys(names.split(), message))


_left_out("has no tensors among its arguments", """arange bartlett_window blackman_window empty empty_strided eye fft.fftfreq
fft.rfftfreq full hamming_window hann_window linspace logspace ones rand randint randn randperm rotary_tables scalar_tensor
tril_indices triu_indices zeros""")
_left_out("gives no tensors", "allclose equal is_contiguous is_nonzero is_same_size is_signed nelement")
_left_out("gives memory without values", "empty_like new_empty new_empty_strided")
_left_out("changes the gradients of parameters", "clip_grad_norm_ clip_grad_value_")
_left_out("is a part of sparse tensors, which vmap does not take", "csr_matmul csr_sampled_matmul csr_transpose")
_left_out("is about blocks of numbers, which have no element's shape", "quantize dequantize")
_left_out("is a part of the engine of language models", "sample_tokens paged_advance")

_raises("random operation", """bernoulli bernoulli_ cauchy_ dropout dropout_ dropout1d dropout2d dropout3d exponential_
geometric_ gumbel_softmax log_normal_ multinomial normal normal_ rand_like randint_like randn_like random_ uniform_
poisson binomial""")
_raises("is not possible in a vmapped function", """as_strided_ resize_ squeeze_ swapaxes_ swapdims_ t_ transpose_
unsqueeze_""")


def error_of(name):
    """What vmap of the op says in place of a result, or nothing."""
    return _RAISES.get(name)


def reason(name):
    """Why the op is left out, or nothing."""
    return _LEFT_OUT.get(name)


def x(*sizes, seed=0):
    """Numbers between 0.2 and 0.95, no two alike."""
    count = 1
    for size in sizes:
        count *= size
    order = tensora.arange(count, dtype=tensora.float64) * (5 if count % 5 else 7) % max(count, 1)
    return ((order + 0.5 + seed / 7) / (count + 1) * 0.75 + 0.2).reshape(sizes)


def i(*sizes, below=2):
    return (tensora.arange(x(*sizes).numel()) % below).reshape(sizes)


def b(*sizes):
    return i(*sizes).bool()


def z(*sizes):
    return tensora.complex(x(*sizes), x(*sizes, seed=1))


def spd(n):
    m = x(n, n)
    return m @ m.t() + tensora.eye(n, dtype=tensora.float64)


# Kinds of worlds: what all tensors of a call are.
_WORLDS = [lambda k: x(2, 3, seed=k), lambda k: x(3, seed=k), lambda k: x(3, 3, seed=k), lambda k: i(2, 3, below=3),
           lambda k: b(2, 3), lambda k: x(2, 3, 3, seed=k), lambda k: x(2, 2, 4, 4, seed=k), lambda k: x(seed=k),
           lambda k: x(2, 2, 4, seed=k), lambda k: z(2, 3), lambda k: i(3, below=3), lambda k: x(1, 2, 4, 4, 4, seed=k),
           lambda k: i(2, 3, below=3).int(), lambda k: z(3, 3)]
_INDICES = {"index", "indices", "target", "targets", "mask", "condition", "offsets", "labels", "sorter", "pivots"}
_NUMBERS = {"int": [1, 0, 2, -1], "float": [0.5], "Number": [2, 0.5], "bool": [False, True],
            "int | Sequence[int]": [1, (0,), (2, 3), (1, 1), (2,)], "Sequence[int]": [(0,), (0, 1), (2, 1)], "str": ["sum", "none"],
            "float | Sequence[float]": [0.5, (0.5, 0.5)], "int | Sequence[int] | str": [1], "Number | str": [2],
            "dtype": [tensora.float64], "device | str | int": ["cpu"], "memory_format": [tensora.contiguous_format],
            "tuple[float, float]": [(0.0, 1.0)]}


def of(name):
    """The calls that were written by hand."""
    return [(arguments, keywords) for arguments, keywords in CALLS.get(name, lambda: [])()]


def drawn(name, overloads):
    """Calls with what is required, tensors of one kind."""
    for world in _WORLDS:
        for overload in overloads:
            choices = []
            for at, (parameter, kind, required, _) in enumerate(overload["parameters"]):
                if not required:
                    continue
                if kind == "Tensor":
                    tensor = world(at)
                    alike = [tensor]
                    if parameter in _INDICES:
                        alike = [i(*tensor.shape), b(*tensor.shape), i(*tensor.shape[:1]), tensor]
                    choices.append(alike)
                elif kind == "Sequence[Tensor]":
                    choices.append([[world(at), world(at + 1)]])
                else:
                    choices.append(_NUMBERS.get(kind.replace(" | None", ""), [None]))
            for arguments in itertools.islice(itertools.product(*choices), 40):
                yield arguments, {}


def _along():
    """One tensor and dims of every kind."""
    for dim in (0, 1, -1, -2):
        yield (x(2, 3), dim), {}
    yield (x(2, 3, 2), 1), {}


def _over():
    yield from _along()
    yield (x(2, 3),), {}
    yield (x(2, 3, 2),), dict(dim=(0, -1), keepdim=True)
    yield (x(3),), dict(dim=0)


def _shaped(*sizes):
    return lambda: [((x(2, 3), size), {}) for size in sizes]


def _pairs(*shapes, **keywords):
    return lambda: [(tuple(x(*shape, seed=k) for k, shape in enumerate(pair)), keywords) for pair in shapes]


def _conv(dims, transposed=False):
    def calls():
        space, kernel = (5, 4, 4)[:dims], (3, 2, 2)[:dims]
        weight = x(2, 4, *kernel) if transposed else x(4, 2, *kernel)
        yield (x(1, 2, *space), weight), {}
        yield (x(2, *space), weight, x(4)), dict(stride=2, padding=1)
        if not transposed:
            yield (x(2, 4, *space), x(4, 2, *kernel), None), dict(groups=2, padding="same")
    return calls


def _recurrent(gates, cell=False):
    def calls():
        if cell:
            hidden = (x(2, 2), x(2, 2, seed=1)) if cell == "lstm" else x(2, 2)
            yield (x(2, 3), hidden, x(gates * 2, 3), x(gates * 2, 2)), {}
            return
        hidden = [x(1, 2, 2), x(1, 2, 2, seed=1)] if gates == 4 else x(1, 2, 2)
        yield (x(3, 2, 3), hidden, [x(gates * 2, 3), x(gates * 2, 2)], False, 1, 0.0, False, False, False), {}
    return calls


def _factored(function):
    def calls():
        lu, pivots = tensora.linalg.lu_factor(spd(3))
        return function(lu, pivots)
    return calls


def _rotary(*last):
    cos = x(3, 2).cos()
    yield (x(1, 2, 3, 4), x(1, 2, 3, 4, seed=1), cos, x(3, 2).sin(), *last), {}


CALLS = {
    **dict.fromkeys("sum mean amax amin nansum nanmean logsumexp std var all any".split(), _over),
    **dict.fromkeys("softmax log_softmax cumsum cumprod argmax argmin sort argsort unbind prod cummax cummin logcumsumexp squeeze "
                    "max min median unsqueeze glu".split(), _along),
    "glu": lambda: [((x(2, 4), d), {}) for d in (0, 1, -1)],
    "topk": lambda: [((x(2, 3), 2, d), {}) for d in (0, 1, -1)],
    "reshape": _shaped((3, 2), (-1,), (1, 6, 1)), "view": _shaped((3, 2), (-1,), (1, 6, 1)),
    "permute": _shaped((1, 0), (-1, 0)), "expand": _shaped((2, 3), (4, 2, 3), (-1, 3)), "repeat": _shaped((2, 1), (2, 1, 3)),
    "flip": _shaped((0,), (1,), (0, -1)), "tile": _shaped((2,), (2, 1, 3)),
    "flatten": lambda: [((x(2, 3, 2), 1), {}), ((x(2, 3, 2), 0, 1), {}), ((x(2, 3),), {}), ((x(),), {})],
    "transpose": lambda: [((x(2, 3, 2), 0, -1), {}), ((x(2, 3, 2), -2, 2), {})],
    "movedim": lambda: [((x(2, 3, 2), 0, -1), {}), ((x(2, 3, 2), (0, 1), (2, 0)), {})],
    "diagonal": lambda: [((x(2, 3),), {}), ((x(2, 3), 1), {}), ((x(2, 3, 2), 0, 0, 2), {})],
    "matmul": _pairs(((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)), ((2, 1, 2, 3), (3, 3, 4)), ((2, 2, 3), (3, 4))),
    "mm": _pairs(((2, 3), (3, 4))), "bmm": _pairs(((2, 2, 3), (2, 3, 4))), "mv": _pairs(((2, 3), (3,))),
    "dot": _pairs(((3,), (3,))), "inner": _pairs(((3,), (3,)), ((2, 3), (4, 3))), "outer": _pairs(((2,), (3,))),
    "kron": _pairs(((2, 3), (2, 2))), "cdist": _pairs(((2, 3), (4, 3)), ((2, 2, 3), (2, 4, 3))),
    "addmm": lambda: [((x(2, 4), x(2, 3), x(3, 4)), {}), ((x(4), x(2, 3), x(3, 4)), dict(beta=0.5, alpha=2))],
    "addmv": lambda: [((x(2), x(2, 3), x(3)), {}), ((x(2), x(2, 3), x(3)), dict(alpha=2))],
    "addmv_": lambda: [((x(2), x(2, 3), x(3)), {})],
    "addr_": lambda: [((x(2, 3), x(2), x(3)), {})],
    "addbmm": lambda: [((x(2, 4), x(2, 2, 3), x(2, 3, 4)), {})],
    "addbmm_": lambda: [((x(2, 4), x(2, 2, 3), x(2, 3, 4)), {})],
    "baddbmm": lambda: [((x(2, 2, 4), x(2, 2, 3), x(2, 3, 4)), {})],
    "linear": lambda: [((x(2, 3), x(4, 3), x(4)), {}), ((x(3), x(4, 3)), {}), ((x(2, 2, 3), x(4, 3), x(4)), {})],
    "linear_activation": lambda: [((x(2, 3), x(4, 3), x(4), "relu"), {})],
    "bilinear": lambda: [((x(2, 3), x(2, 4), x(5, 3, 4), x(5)), {})],
    **{f"conv{d}d": _conv(d) for d in (1, 2, 3)}, **{f"conv_transpose{d}d": _conv(d, True) for d in (1, 2, 3)},
    "convolution": lambda: [((x(1, 2, 5, 4), x(4, 2, 3, 2), x(4), [1, 1], [1, 0], [1, 1], False, [0, 0], 1), {})],
    "layer_norm": lambda: [((x(2, 3), (3,), x(3), x(3, seed=1)), {}), ((x(2, 2, 3), (2, 3)), {})],
    "rms_norm": lambda: [((x(2, 3), (3,), x(3)), {}), ((x(2, 3), (3,)), {})],
    "group_norm": lambda: [((x(2, 4, 3), 2, x(4), x(4, seed=1)), {})],
    "batch_norm": lambda: [((x(2, 3, 4), x(3), x(3, seed=1), x(3, seed=2), x(3, seed=3)), {})],
    "embedding": lambda: [((i(2, 3, below=4), x(4, 2)), {}), ((i(below=4), x(4, 2)), dict(padding_idx=1))],
    "embedding_bag": lambda: [((i(2, 3, below=4), x(4, 2)), dict(mode=mode)) for mode in ("sum", "mean", "max")],
    "gather": lambda: [((x(2, 3), d, i(2, 2, below=2)), {}) for d in (0, 1, -1)],
    "scatter": lambda: [((x(2, 3), d, i(2, 2, below=2), x(2, 2)), {}) for d in (0, 1)],
    "scatter_add": lambda: [((x(2, 3), d, i(2, 2, below=2), x(2, 2)), {}) for d in (0, 1)],
    "index_select": lambda: [((x(2, 3), d, i(2, below=2)), {}) for d in (0, 1, -1)],
    "index_add": lambda: [((x(2, 3), 0, i(2, below=2), x(2, 3)), {}), ((x(2, 3), 1, i(2, below=2), x(2, 2)), dict(alpha=2))],
    "index_reduce": lambda: [((x(2, 3), 0, i(2, below=2), x(2, 3), how), {}) for how in ("prod", "mean", "amax")],
    "index_reduce_": lambda: [((x(2, 3), 0, i(2, below=2), x(2, 3), "prod"), {})],
    "take_along_dim": lambda: [((x(2, 3), i(2, 1, below=3), 1), {})],
    "select_scatter": lambda: [((x(2, 3), x(3), 0, 1), {}), ((x(2, 3), x(2), 1, -1), {})],
    "diagonal_scatter": lambda: [((x(2, 3), x(2)), {})],
    "as_strided_scatter": lambda: [((x(2, 3), x(2, 2), (2, 2), (3, 1)), {})],
    "cat": lambda: [(([x(2, 3), x(2, 1)], 1), {}), (([x(2, 3), x(1, 3)],), {})],
    "stack": lambda: [(([x(2, 3), x(2, 3, seed=1)], d), {}) for d in (0, 1, -1)],
    "einsum": lambda: [(("ij,jk->ik", [x(2, 3), x(3, 4)]), {}), (("ii->i", [x(3, 3)]), {}), (("...i,i", [x(2, 3), x(3)]), {})],
    "where": lambda: [((b(2, 3), x(2, 3), x(3)), {}), ((b(3), x(2, 3), x()), {})],
    "clamp": lambda: [((x(2, 3), 0.3, 0.6), {}), ((x(2, 3),), dict(max=0.5)), ((x(2, 3), x(3), x(2, 1)), {})],
    "clip": lambda: [((x(2, 3), 0.3, 0.6), {})],
    "clamp_": lambda: [((x(2, 3), 0.3, 0.6), {})], "clip_": lambda: [((x(2, 3), 0.3, 0.6), {})],
    "masked_fill": lambda: [((x(2, 3), b(2, 3), 0.5), {}), ((x(2, 3), b(3), x()), {})],
    "cholesky": lambda: [((spd(3),), {})], "linalg.cholesky": lambda: [((spd(3),), {}), ((spd(3),), dict(upper=True))],
    "cholesky_solve": lambda: [((x(3, 2), tensora.linalg.cholesky(spd(3))), {})],
    "linalg.solve": lambda: [((spd(3), x(3, 2)), {}), ((spd(3), x(3)), {})],
    "linalg.lu_solve": _factored(lambda lu, pivots: [((lu, pivots, x(3, 2)), {})]),
    "lu_solve": _factored(lambda lu, pivots: [((x(3, 2), lu, pivots), {})]),
    "lu_unpack": _factored(lambda lu, pivots: [((lu, pivots), {})]),
    "linalg.ldl_solve": lambda: [((*tensora.linalg.ldl_factor(spd(3)), x(3, 2)), {})],
    **dict.fromkeys(("linalg.householder_product", "orgqr"), lambda: [((x(3, 2), x(2)), {})]),
    "ormqr": lambda: [((x(3, 2), x(2), x(3, 2, seed=1)), {})],
    "linalg.svd": lambda: [((spd(3),), {})], "linalg.eigh": lambda: [((spd(3),), {})], "linalg.inv": lambda: [((spd(3),), {})],
    "affine_grid": lambda: [((x(1, 2, 3), (1, 1, 3, 4)), dict(align_corners=False))],
    "grid_sample": lambda: [((x(1, 2, 3, 4), x(1, 2, 2, 2)), dict(align_corners=False))],
    "interpolate": lambda: [((x(1, 2, 3, 4),), dict(size=(5, 6))), ((x(1, 2, 3, 4),), dict(scale_factor=2.0, mode="bilinear"))],
    "fractional_max_pool2d": lambda: [((x(1, 2, 5, 5), (2, 2), (3, 3), x(1, 2, 2)), {})],
    "fractional_max_pool3d": lambda: [((x(1, 2, 5, 5, 5), (2, 2, 2), (3, 3, 3), x(1, 2, 3)), {})],
    "stft": lambda: [((x(16), 8), dict(return_complex=True, window=x(8)))],
    "istft": lambda: [((tensora.stft(x(16), 8, return_complex=True, window=tensora.ones(8, dtype=tensora.float64)), 8),
                       dict(window=tensora.ones(8, dtype=tensora.float64)))],
    "view_as_complex": lambda: [((x(3, 2),), {})], "bfloat16": lambda: [((x(2, 3),), {})], "half": lambda: [((x(2, 3),), {})],
    "cfloat": lambda: [((x(2, 3),), {})], "cdouble": lambda: [((x(2, 3),), {})],
    "lstm": _recurrent(4), "nn.lstm": _recurrent(4), "gru": _recurrent(3), "nn.gru": _recurrent(3),
    **dict.fromkeys(("rnn_relu", "rnn_tanh", "nn.rnn_relu", "nn.rnn_tanh"), _recurrent(1)),
    "lstm_cell": _recurrent(4, "lstm"), "gru_cell": _recurrent(3, "gru"),
    "apply_rotary": lambda: _rotary(), "apply_rotary_from": lambda: _rotary(0),
    "apply_rotary_at": lambda: _rotary(i(1, 3, below=3)), "rotary_embedding": lambda: [((x(1, 2, 3, 4), x(3, 2).cos(), x(3, 2).sin()), {})],
    "varlen_attention": lambda: [((x(5, 2, 4), x(5, 2, 4, seed=1), x(5, 2, 4, seed=2), tensora.tensor([0, 2, 5]).int(),
                                   tensora.tensor([0, 2, 5]).int(), 3, 3), {})],
    # What is a function or an operator of the package, and no declaration's.
    "F.cross_entropy": lambda: [((x(4, 3), i(4, below=3)), {}), ((x(3), i(below=3)), {}), ((x(4, 3), x(4, 3)), dict(reduction="none"))],
    "F.nll_loss": lambda: [((x(4, 3).log(), i(4, below=3)), {})],
    "F.scaled_dot_product_attention": lambda: [((x(2, 3, 4), x(2, 3, 4, seed=1), x(2, 3, 4, seed=2)), dict(is_causal=causal))
                                               for causal in (False, True)],
    "F.max_pool2d": lambda: [((x(1, 2, 4, 4), 2), {})], "F.avg_pool2d": lambda: [((x(1, 2, 4, 4), 2), {})],
    "F.adaptive_avg_pool2d": lambda: [((x(1, 2, 4, 4), (2, 2)), {})], "F.pad": lambda: [((x(2, 3), (1, 2)), {})],
    "F.one_hot": lambda: [((i(3, below=3), 3), {})], "F.normalize": lambda: [((x(2, 3),), {})],
    "F.cosine_similarity": _pairs(((2, 3), (2, 3))), "F.instance_norm": lambda: [((x(2, 3, 4),), {})],
    "F.mse_loss": _pairs(((2, 3), (2, 3))), "F.unfold": lambda: [((x(1, 2, 4, 4), 2), {})],
    "operator.getitem": lambda: [((x(2, 3), at), {}) for at in (
        0, slice(0, 1), (slice(None), 1), (..., None), i(2), (i(2), slice(None)), (slice(None), i(2, below=3)))],
    "operator.setitem": lambda: [((x(2, 3), at, value), {}) for at in (0, (slice(None), 1)) for value in (0.5, x())],
}
