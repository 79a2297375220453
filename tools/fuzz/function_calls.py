"""What the functions of the package are called with: one line each, which draws the arguments.

A name may end in `:` and a word, where a function has several kinds of calls.
"""
import torch

import composed_calls
import functional_calls
import matrix_calls
from samples import COMPLEX, FLOATS, INTEGERS, shape

REAL = ["float32", "float64"]
NUMBERS = [*INTEGERS, *FLOATS]


def broadcast(d, sizes):
    return [1 if d.rng.random() < 0.2 else size for size in sizes[d.pick(0, 0, 0, 1):]]


def two(d, dtypes=NUMBERS, **options):
    """Two tensors, or a tensor and a number."""
    x = d.any(dtypes=dtypes)
    if d.rng.random() < 0.3:
        return d(x, d.pick(0, 1, 2, -1, 3, 0.5, -1.5, 2.0, True), **options)
    other = d.pick(str(x.theirs.dtype)[6:], d.rng.choice(dtypes))
    return d(x, d.x(*broadcast(d, list(x.theirs.shape)), dtype=other, calm=False), **options)


def along(d, least=1, **options):
    """A tensor and one of its dims."""
    x = d.any(d.pick(*range(least, 4)))
    return d(x, d.dim(x.theirs.dim()), **options)


def over(d, dtypes=None, **options):
    """A tensor, some of its dims or none given, and keepdim."""
    x = d.any(dtypes=dtypes)
    dims = d.dims(x.theirs.dim(), 1)
    if not dims or d.flag():
        return d(x, **options)
    return d(x, dim=d.pick(dims, dims[0]), keepdim=d.flag(), **options)


def tensors(d, ranks=(1, 2, 3), vary=0, count=None):
    """Tensors of one dtype that differ at most in one dim."""
    sizes, dtype = shape(d.rng, d.pick(*ranks)), d.rng.choice(NUMBERS)
    result = []
    for _ in range(count or d.pick(1, 2, 3)):
        own = list(sizes)
        if own and vary is not None and vary < len(own):
            own[vary] = d.pick(own[vary], 1, 2, 3)
        result.append(d.x(*own, dtype=dtype))
    return result


def indexed(d, dtype=None):
    """A tensor of at least one element, a dim and some of its positions."""
    sizes = [max(size, 1) for size in shape(d.rng, d.pick(1, 2, 3))]
    dim = d.rng.randrange(len(sizes))
    x = d.x(*sizes, dtype=dtype or d.rng.choice(NUMBERS))
    return x, dim, d.ints(d.pick(0, 1, 3), below=sizes[dim] + (d.rng.random() < 0.03))


def rows_of(d, x, dim, count, dtype=None):
    sizes = list(x.theirs.shape)
    sizes[dim] = count
    return d.x(*sizes, dtype=dtype or str(x.theirs.dtype)[6:])


def index_add(d):
    x, dim, index = indexed(d)
    return d(x, dim, index, rows_of(d, x, dim, index.theirs.numel()), alpha=d.pick(..., 2))


def index_copy(d):
    x, dim, index = indexed(d)
    index = d.of(index.theirs.unique())
    return d(x, dim, index, rows_of(d, x, dim, index.theirs.numel()))


def index_fill(d):
    x, dim, index = indexed(d)
    return d(x, dim, index, d.pick(0, 1, 2))


def index_reduce(d):
    x, dim, index = indexed(d, d.dtype)
    return d(x, dim, index, rows_of(d, x, dim, index.theirs.numel()), d.pick("prod", "mean", "amax", "amin"),
             include_self=d.flag())


def scattered(d):
    """A tensor, a dim, places in it and a source."""
    sizes = [max(size, 1) for size in shape(d.rng, d.pick(1, 2, 3))]
    dim = d.rng.randrange(len(sizes))
    places = [d.pick(1, 2, 4) if i == dim else d.rng.randint(1, size) for i, size in enumerate(sizes)]
    x = d.x(*sizes)
    return x, dim, d.ints(*places, below=sizes[dim]), d.x(*places)


def scatter_reduce(d):
    x, dim, index, src = scattered(d)
    return d(x, dim, index, src, d.pick("sum", "prod", "mean", "amax", "amin"), include_self=d.flag())


def take_along_dim(d):
    x, dim, index, _ = scattered(d)
    return d(x, index, dim)


def subscript(d, sizes):
    """A subscript of NumPy's kinds: numbers, slices, None, ..., masks and positions."""
    parts, left, broadcast_to = [], list(sizes), d.pick([], [2], [2, 1])
    while left:
        kind, size = d.pick("number", "slice", "slice", "none", "positions", "mask", "rest"), left[0]
        if kind == "none":
            parts.append(None)
            if len(parts) > 4:
                break
            continue
        if kind == "rest":
            parts.append(...)
            break
        left.pop(0)
        if kind == "number" and size:
            parts.append(d.rng.randrange(-size, size))
        elif kind == "positions" and size:
            parts.append(d.ints(*broadcast_to, below=size, least=-size))
        elif kind == "mask" and d.rng.random() < 0.3:
            parts.append(d.x(size, dtype="bool"))
        else:
            parts.append(slice(d.pick(None, 0, 1, -2), d.pick(None, 2, 5, -1), d.pick(None, 1, 2)))
    return tuple(parts)


def get_item(d):
    x = d.any(d.pick(1, 2, 3))
    return d(x, subscript(d, x.theirs.shape))


def index_put(d):
    sizes = [max(size, 1) for size in shape(d.rng, d.pick(1, 2, 3))]
    x, accumulate = d.x(*sizes), d.flag()
    if d.flag():
        return d(x, (d.x(*sizes[:d.rng.randint(1, len(sizes))], dtype="bool"),), d.x(), accumulate=accumulate)
    used = d.rng.randint(1, len(sizes))
    # Places that differ in the first dim: which of several values stays is not certain.
    count = sizes[0] if not accumulate else 3
    first = d.of(permutation(d, sizes[0])) if not accumulate else d.ints(3, below=sizes[0])
    places = (first, *[d.ints(count, below=size) for size in sizes[1:used]])
    return d(x, places, d.x(*d.pick([], [count] + sizes[used:], [1] + sizes[used:])), accumulate=accumulate)


def permutation(d, count):
    return torch.tensor(d.rng.sample(range(count), count), dtype=torch.int64)


def searchsorted(d):
    dtype = getattr(torch, d.rng.choice(["float32", "float64", "int32", "int64"]))
    rows, size = d.pick([], [2]), d.pick(0, 1, 4, 7)
    row = torch.tensor([d.rng.randint(-4, 4) for _ in range(size * (2 if rows else 1))]).view(*rows, size)
    return d(d.of(row.sort(-1).values.to(dtype)), d.x(*rows, d.pick(1, 3), dtype=str(dtype)[6:]), right=d.flag(),
             out_int32=d.flag())


def bucketize(d):
    edges = d.rng.sample(range(-4, 5), d.pick(1, 3, 5))
    return d(d.any(dtypes=REAL), d.of(torch.tensor(sorted(edges), dtype=getattr(torch, d.dtype))), right=d.flag())


def quantile(d):
    x = d.x(*[max(size, 1) for size in shape(d.rng, d.pick(1, 2, 3))], calm=d.flag())
    q = d.pick(0.0, 0.25, 0.5, 0.9, 1.0)
    if d.flag():
        q = d.of(torch.tensor([0.1, 0.5, 1.0][:d.pick(1, 3)], dtype=x.theirs.dtype))
    return d(x, q, dim=d.pick(None, d.dim(x.theirs.dim())), keepdim=d.flag(),
             interpolation=d.pick("linear", "lower", "higher", "midpoint", "nearest"))


def unique(d):
    x = d.any(d.pick(1, 2, 3), dtypes=["bool", *INTEGERS, *REAL], calm=True)
    dim = d.pick(..., ..., d.rng.randrange(x.theirs.dim()))
    return d(x, return_inverse=d.flag(), return_counts=d.flag(), dim=dim)


def unflatten(d):
    first = d.pick(1, 2, 3)
    x = d.x(2, first * 4, 3)
    return d(x, d.pick(1, -2), d.pick((first, 4), (-1, 4), (2, -1, first), (5, -1)))


def as_scattered(d):
    x = d.x(3, 4)
    return d(x, d.x(4), 0, d.pick(0, 2, -1, 3))


def slice_scatter(d):
    start, end, step = d.pick(0, 1, 3), d.pick(2, 4, 9), d.pick(1, 2)
    count = len(range(5)[start:end:step])
    return d(d.x(5, 2), d.x(count, 2), 0, start, end, step)


POINTWISE = ("abs acos acosh angle asin asinh atan atanh ceil conj_physical cos cosh deg2rad digamma erf erfc erfinv exp "
             "exp2 expm1 floor frac isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 "
             "logical_not neg positive rad2deg reciprocal round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt "
             "square tan tanh trunc special.entr special.expit special.gammaln special.ndtr special.ndtri "
             "special.psi nn.functional.relu6 nn.functional.hardsigmoid nn.functional.hardswish "
             "nn.functional.softsign nn.functional.tanhshrink nn.functional.logsigmoid nn.functional.mish "
             "nn.functional.silu nn.functional.selu").split()
BINARY = ("add atan2 bitwise_and bitwise_or bitwise_xor copysign div eq float_power floor_divide fmax fmin fmod gcd ge gt "
          "heaviside hypot lcm ldexp le logaddexp logaddexp2 logical_and logical_or logical_xor lt maximum minimum "
          "mul ne nextafter pow remainder sub true_divide xlogy special.xlog1py").split()
REDUCTIONS = "sum mean nansum nanmean amax amin any all std var logsumexp count_nonzero".split()

CALLS = {
    **{name: lambda d: d(d.any()) for name in POINTWISE},
    **{name: two for name in BINARY},
    **{f"{name}:complex": lambda d: two(d, [*COMPLEX, "float32"]) for name in "add sub mul div pow eq ne".split()},
    **{f"{name}:complex": lambda d: d(d.any(dtypes=[*COMPLEX])) for name in
       ("abs acos acosh angle asin asinh atan atanh cos cosh exp log sgn sigmoid sin sinh sqrt tan tanh "
        "reciprocal rsqrt square").split()},
    "div:rounded": lambda d: two(d, rounding_mode=d.pick("floor", "trunc", None)),
    "add:alpha": lambda d: two(d, alpha=d.pick(1, 2, -1)),
    "rsub": lambda d: two(d, alpha=d.pick(..., 2)),
    **{name: over for name in REDUCTIONS},
    **{f"{name}:complex": lambda d: over(d, list(COMPLEX)) for name in ("sum", "mean")},
    "std_mean": lambda d: over(d, REAL, correction=d.pick(0, 1)),
    "var_mean": lambda d: over(d, REAL, correction=d.pick(0, 1)),
    "prod": lambda d: along(d) if d.flag() else d(d.any(calm=True)),
    "aminmax": lambda d: d(x := d.any(d.pick(1, 2)), dim=d.dim(x.theirs.dim()), keepdim=d.flag()),
    "argmax": lambda d: along(d, keepdim=d.flag()),
    "argmin": lambda d: along(d, keepdim=d.flag()),
    "max": lambda d: along(d, keepdim=d.flag()) if d.flag() else d(d.any()),
    "min": lambda d: along(d, keepdim=d.flag()) if d.flag() else d(d.any()),
    "median": lambda d: d(d.distinct(2, 3), d.pick(0, 1, -1)) if d.flag() else d(d.distinct(5)),
    "nanmedian": lambda d: d(d.distinct(2, 3), d.pick(0, 1, -1)) if d.flag() else d(d.distinct(5)),
    "quantile": quantile,
    "nanquantile": quantile,
    "norm": lambda d: d(d.x(*d.sizes(d.pick(1, 2))), p=d.pick(2, 1, 0, 3, "fro", float("inf"), -1)),
    "dist": lambda d: d(d.scaled(2, 3), d.scaled(d.pick(1, 2), 3), p=d.pick(0, 1, 2, 3, float("inf"))),
    "cov": lambda d: d(d.x(*d.pick([4], [2, 4], [3, 5])), correction=d.pick(0, 1)),
    "corrcoef": lambda d: d(d.x(*d.pick([4], [2, 4], [3, 5]))),
    "histc": lambda d: d(d.x(*d.sizes(d.pick(1, 2)), grad=False), bins=d.pick(1, 5, 100), min=d.pick(0, -2),
                         max=d.pick(0, 3)),
    "histogram": lambda d: d(d.x(*d.sizes(d.pick(1, 2)), grad=False), d.pick(1, 5),
                             range=d.pick((-2.0, 3.0), (0.0, 1.0)),
                             density=d.flag()),
    "bincount": lambda d: d(d.ints(d.pick(0, 1, 6), below=5), minlength=d.pick(0, 3, 9)),
    "trapezoid": lambda d: d(d.x(2, 4), dx=d.pick(1, 0.5), dim=d.pick(0, -1)) if d.flag() else d(d.x(2, 4), d.x(4)),
    "cumulative_trapezoid": lambda d: d(d.x(2, 4), dim=d.pick(0, -1)) if d.flag() else d(d.x(2, 4), d.x(4)),
    "diff": lambda d: d(x := d.any(d.pick(1, 2, 3)), n=d.pick(0, 1, 2, 7), dim=d.dim(x.theirs.dim())),
    "cumsum": along, "cumprod": along, "logcumsumexp": lambda d: d(d.x(3, 4), d.pick(0, 1, -1)),
    "cummax": lambda d: d(d.distinct(3, 4), d.pick(0, 1, -1)),
    "cummin": lambda d: d(d.distinct(3, 4), d.pick(0, 1, -1)),
    "clamp": lambda d: d(d.any(), min=d.pick(None, -1, 0.5), max=d.pick(1, 2, 0)),
    "clamp:tensors": lambda d: d(x := d.any(dtypes=NUMBERS), d.x(*broadcast(d, list(x.theirs.shape))), None),
    "nan_to_num": lambda d: d(d.any(), nan=d.pick(..., 1.5), posinf=d.pick(None, 7.0)),
    "round:decimals": lambda d: d(d.any(dtypes=REAL, calm=True), decimals=d.pick(0, 1, 3, -1)),
    "logit": lambda d: d(d.any(dtypes=FLOATS), eps=d.pick(None, 0.1)),
    "polygamma": lambda d: d(d.pick(0, 1, 2), d.positive(2, 3)),
    "mvlgamma": lambda d: d(d.of((d.positive(3).theirs.detach() + 2), True), d.pick(1, 2, 3)),
    "lerp": lambda d: d(d.x(2, 3), d.x(2, 3), d.pick(0.3, 0.8, 1.5)),
    "addcmul": lambda d: d(d.x(2, 3), d.x(2, 3), d.x(3), value=d.pick(1, 2, 0.5)),
    "addcdiv": lambda d: d(d.x(2, 3), d.x(2, 3), d.positive(3), value=d.pick(1, 2, 0.5)),
    "where": lambda d: d(x := d.any(dtypes=["bool"]), d.x(*broadcast(d, list(x.theirs.shape)),
                                                          dtype=d.rng.choice(NUMBERS)),
                         d.pick(1, 0.5, d.x(*broadcast(d, list(x.theirs.shape)), dtype=d.rng.choice(NUMBERS)))),
    "frexp": lambda d: d(d.any(dtypes=FLOATS)),
    "isclose": lambda d: d(d.x(2, 3, calm=False), d.x(3, calm=False), rtol=0.3, equal_nan=d.flag()),
    "allclose": lambda d: d(d.x(2, grad=False), d.x(2, grad=False), atol=d.pick(0.1, 5.0)),
    "equal": lambda d: d(d.any(1, ["bool"]), d.any(1, ["bool"])),
    "isin": lambda d: d(d.any(dtypes=INTEGERS, calm=True), d.any(1, INTEGERS, calm=True), invert=d.flag()),
    "complex": lambda d: d(d.x(2, 3), d.x(d.pick(1, 2), 3)),
    "polar": lambda d: d(d.positive(3), d.x(3)),
    "renorm": lambda d: d(d.x(2, 3), d.pick(1, 2, 3), d.pick(0, 1), d.pick(0.5, 2.0, 50.0)),
    # Shapes.
    "atleast_1d": lambda d: d(d.any()), "atleast_2d": lambda d: d(d.any()), "atleast_3d": lambda d: d(d.any()),
    "block_diag": lambda d: d(*[d.any(d.pick(0, 1, 2), [d.dtype]) for _ in range(3)]),
    "broadcast_tensors": lambda d: d(x := d.any(), d.any(0, REAL), d.x(*broadcast(d, list(x.theirs.shape)))),
    "broadcast_to": lambda d: d(x := d.any(), [d.pick(1, 2), *x.theirs.shape]),
    "cartesian_prod": lambda d: d(*[d.x(d.pick(0, 1, 3)) for _ in range(d.pick(1, 2, 3))]),
    "combinations": lambda d: d(d.x(d.pick(0, 1, 4)), r=d.pick(1, 2, 3), with_replacement=d.flag()),
    "chunk": lambda d: d(x := d.any(d.pick(1, 2)), d.pick(1, 2, 5), d.dim(x.theirs.dim())),
    "tensor_split": lambda d: d(x := d.any(d.pick(1, 2)), d.pick(1, 2, 5, (1, 3), (2,), (0, 0, 7), (-1,)),
                                d.dim(x.theirs.dim())),
    "split": lambda d: d(x := d.any(d.pick(1, 2)), d.pick(1, 2, 5), d.dim(x.theirs.dim())),
    "hsplit": lambda d: d(d.x(4, 4), d.pick(1, 2, 3, (1, 3))), "vsplit": lambda d: d(d.x(4, 4), d.pick(2, 3, (1, 3))),
    "dsplit": lambda d: d(d.x(1, 2, 4), d.pick(2, 3, (1, 3))),
    "cat": lambda d: d(tensors(d, vary=0), d.pick(0, 0, -1)),
    "stack": lambda d: d(tensors(d, vary=None), d.pick(0, 1, -1)),
    "column_stack": lambda d: d(tensors(d, (0, 1, 2), 1)), "hstack": lambda d: d(tensors(d, (0, 1, 2), 1)),
    "vstack": lambda d: d(tensors(d, (0, 1, 2), 0)), "dstack": lambda d: d(tensors(d, (0, 1, 2, 3), None)),
    "diag": lambda d: d(d.any(d.pick(1, 2)), d.pick(0, 1, -2)),
    "diagflat": lambda d: d(d.any(d.pick(0, 1, 2)), d.pick(0, 1, -2)),
    "diag_embed": lambda d: d(d.any(d.pick(1, 2)), d.pick(0, 1, -2)),
    "diagonal": lambda d: d(d.x(2, 3, 4), d.pick(0, 1, -1), d.pick(0, -1), d.pick(1, -2)),
    "diagonal_scatter": lambda d: d(d.x(3, 3), d.x(3)), "select_scatter": as_scattered,
    "slice_scatter": slice_scatter,
    "flatten": lambda d: d(x := d.any(d.pick(0, 1, 2, 3)), d.pick(0, 1), d.pick(-1, 1)), "unflatten": unflatten,
    "flip": lambda d: d(x := d.any(), d.dims(x.theirs.dim())), "fliplr": lambda d: d(d.any(2)),
    "flipud": lambda d: d(d.any(1)),
    "roll": lambda d: d(x := d.any(2), d.pick((1, -2), (3, 0)), (0, 1)) if d.flag() else d(d.any(), d.pick(1, -2, 9)),
    "rot90": lambda d: d(d.any(d.pick(2, 3)), d.pick(-1, 0, 1, 2, 5), d.pick((0, 1), (1, 0))),
    "meshgrid": lambda d: (tuple(d.x(d.pick(1, 2, 3)) for _ in range(3)), {"indexing": d.pick("ij", "xy")}),
    "movedim": lambda d: d(d.x(1, 2, 3), d.pick(0, -1), d.pick(1, 2)) if d.flag() else d(d.x(1, 2, 3), (0, 2),
                                                                                         d.pick((1, 0), (2, 1))),
    "narrow": lambda d: d(d.x(4, 3), 0, d.pick(0, 1, -2), d.pick(0, 1, 2, 4)),
    "repeat_interleave": lambda d: d(d.x(3, 2), d.pick(0, 2, d.ints(3, below=4)),
                                     dim=d.pick(0)) if d.flag() else d(d.any(), 2),
    "reshape": lambda d: d(d.any(d.pick(1, 2, 3)), d.pick((-1,), (1, -1), (-1, 2), (2, -1))),
    "squeeze": lambda d: d(x := d.any()) if d.flag() else along(d), "unsqueeze": along,
    "transpose": lambda d: d(x := d.any(d.pick(1, 2, 3)), d.dim(x.theirs.dim()), d.dim(x.theirs.dim())),
    "t": lambda d: d(d.any(d.pick(0, 1, 2))), "tile": lambda d: d(d.any(d.pick(0, 1, 2)),
                                                                  d.pick((2,), (1, 2), (2, 1, 2), (0, 1))),
    "Tensor.repeat": lambda d: d(d.any(d.pick(0, 1, 2)), d.pick((2, 1), (1, 2), (2, 1, 2), (0, 1))),
    "Tensor.unfold": lambda d: d(x := d.any(d.pick(1, 2)), d.dim(x.theirs.dim()), d.pick(0, 1, 2), d.pick(1, 2)),
    "tril": lambda d: d(d.any(d.pick(2, 3)), d.pick(0, 1, -1)),
    "triu": lambda d: d(d.any(d.pick(2, 3)), d.pick(0, 1, -1)),
    "tril_indices": lambda d: d(d.pick(0, 1, 3), d.pick(0, 2, 4), d.pick(-1, 0, 2)),
    "triu_indices": lambda d: d(d.pick(0, 1, 3), d.pick(0, 2, 4), d.pick(-1, 0, 2)),
    "vander": lambda d: d(d.x(d.pick(1, 3)), N=d.pick(None, 0, 2, 4), increasing=d.flag()),
    "unbind": along, "trace": lambda d: d(d.any(2, NUMBERS)),
    "view_as_real": lambda d: d(d.any(dtypes=list(COMPLEX))),
    "unravel_index": lambda d: d(d.ints(4, below=12), d.pick((3, 4), (12,), (2, 2, 3))),
    **{name: two for name in "divide multiply subtract less less_equal greater greater_equal not_equal arctan2".split()},
    **{name: lambda d: d(d.any()) for name in "absolute negative fix arcsin arccosh ravel Tensor.detach".split()},
    "real": lambda d: d(d.any(dtypes=[*COMPLEX, "float32"])),
    "imag": lambda d: d(d.any(dtypes=[*COMPLEX, "float32"])),
    "adjoint": lambda d: d(d.any(d.pick(0, 2, 3), [*COMPLEX, "float32"])),
    "moveaxis": lambda d: d(d.x(1, 2, 3), 0, 2),
    "swapdims": lambda d: d(d.any(2), 0, d.dim(2)), "clip": lambda d: d(d.any(), d.pick(None, -1), d.pick(1, 2.5)),
    "Tensor.fill_diagonal_": lambda d: d(d.x(*d.pick([3, 3], [5, 2], [2, 2, 2]), grad=False, varied=False), 7,
                                         d.flag()),
    "Tensor.sum_to_size": lambda d: d(d.x(2, 3), d.pick((3,), (1, 3), (2, 1), (2, 3), (1,))),
    "Tensor.expand_as": lambda d: d(d.x(1, 3), d.x(2, 3)), "Tensor.view_as": lambda d: d(d.x(6, varied=False),
                                                                                         d.x(2, 3)),
    "Tensor.type_as": lambda d: d(d.any(calm=True), d.any(calm=True)),
    "Tensor.new_full": lambda d: d(d.any(), d.pick((2,), (0, 3)), d.pick(0, 1, 2.5)),
    "full_like": lambda d: d(d.any(), d.pick(0, 1, 2.5)), "zeros_like": lambda d: d(d.any()),
    "full": lambda d: d(d.pick((2,), (), (0, 3)), d.pick(0, 1, 2.5, True)),
    "range": lambda d: d(0, d.pick(3, 4.5), d.pick(1, 0.5)),
    "as_strided_scatter": lambda d: d(d.x(8, varied=False, grad=False), d.x(2, 3), (2, 3), (3, 1), d.pick(0, 2)),
    # Positions.
    "Tensor.__getitem__": get_item, "index_put": index_put, "index_add": index_add, "index_copy": index_copy,
    "index_fill": index_fill, "index_reduce": index_reduce, "index_select": lambda d: d(*indexed(d)),
    "masked_fill": lambda d: d(x := d.any(), d.x(*broadcast(d, list(x.theirs.shape)), dtype="bool"), d.pick(0, 1)),
    "masked_select": lambda d: d(x := d.any(), d.x(*broadcast(d, list(x.theirs.shape)), dtype="bool")),
    "masked_scatter": lambda d: d(d.x(2, 3), d.x(d.pick(1, 2), 3, dtype="bool"), d.x(7)),
    "nonzero": lambda d: d(d.any(calm=True)), "argwhere": lambda d: d(d.any(calm=True)),
    "take": lambda d: d(d.x(2, 3), d.ints(*d.sizes(d.pick(1, 2)), below=6, least=-6)),
    "take_along_dim": take_along_dim,
    "put": lambda d: d(d.x(2, 3), i := d.of(permutation(d, 6)[:4]), d.x(4), accumulate=d.flag()),
    "gather": lambda d: d(*scattered(d)[:3]), "scatter_add": lambda d: d(*scattered(d)),
    "scatter_reduce": scatter_reduce,
    "scatter:value": lambda d: d(*scattered(d)[:3], d.pick(0, 1.5)),
    # Order.
    "sort": lambda d: d(x := d.any(), dim=d.dim(x.theirs.dim()), stable=True, descending=d.flag()),
    "argsort": lambda d: d(d.distinct(2, 4), dim=d.pick(0, 1), descending=d.flag()),
    "msort": lambda d: d(d.any(d.pick(1, 2))),
    "topk": lambda d: d(d.distinct(2, 4), d.pick(0, 1, 2), d.pick(-1, 0), d.flag()),
    "kthvalue": lambda d: d(d.distinct(3, 4), d.pick(1, 2, 3), d.pick(0, 1, -1), d.flag()),
    "mode": lambda d: d(d.x(2, 5, dtype="int64"), d.pick(0, 1)), "unique": unique,
    "unique_consecutive": lambda d: d(d.any(1, [*INTEGERS], calm=True), return_inverse=d.flag(),
                                      return_counts=d.flag()),
    "searchsorted": searchsorted, "bucketize": bucketize,
    # Sequences.
    "arange": lambda d: d(d.pick(0, 1, -3, 0.5), d.pick(4, 6.5, -5), d.pick(1, 2, -1, 0.5)),
    "linspace": lambda d: d(d.pick(0, -3, 0.5), d.pick(4, 6.5), d.pick(0, 1, 2, 9)),
    "logspace": lambda d: d(d.pick(0, -1), d.pick(2, 1.5), d.pick(1, 5), base=d.pick(10.0, 2.0)),
    "eye": lambda d: d(d.pick(0, 1, 3)) if d.flag() else d(d.pick(0, 3), d.pick(1, 4)),
    **{f"{name}_window": lambda d: d(d.pick(0, 1, 2, 7, 8), periodic=d.flag()) for name in ("hann", "hamming",
                                                                                            "bartlett", "blackman")},
    **matrix_calls.CALLS, **functional_calls.CALLS, **composed_calls.calls(subscript),
}
