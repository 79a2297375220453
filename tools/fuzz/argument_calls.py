"""Calls with arguments that most calls leave out: dtypes of results, tensors to write into, complex numbers."""
from samples import COMPLEX, FLOATS, INTEGERS

REAL = ["float32", "float64"]
NUMBERS = [*INTEGERS, *FLOATS]


def copied_in(library, x, y):
    result = x.clone()
    result.copy_(y)
    return result


def into(library, name, arguments, dtype, sizes):
    """What `out=` holds, and whether it is what the function returns."""
    out = library.zeros(sizes, dtype=getattr(library, dtype))
    result = getattr(library, name)(*arguments, out=out)
    return [out, result is out or result.data_ptr() == out.data_ptr()]


def cast(library, name, x, dtype, options):
    """A function that is told the dtype of its result."""
    where = library.nn.functional if name in ("softmax", "log_softmax", "softmin") else library
    return getattr(where, name)(x, **options, dtype=getattr(library, dtype))


def converted(library, x, dtype):
    return x.to(getattr(library, dtype))


def reshaped(library, x, sizes):
    result = x.clone()
    return result.resize_(sizes)


COMPOSED = {function.__name__: function for function in (copied_in, into, cast, converted, reshaped)}


def out_call(d):
    """Functions of one or two tensors, and a tensor that may or may not fit the result."""
    name, count = d.pick(("abs", 1), ("exp", 1), ("sigmoid", 1), ("neg", 1), ("add", 2), ("mul", 2), ("div", 2), ("eq", 2),
                         ("maximum", 2), ("pow", 2), ("matmul", 2), ("cumsum", 1), ("floor", 1),
                         ("bitwise_and", 2))
    sizes = [d.pick(1, 3), 3]
    dtype = d.rng.choice(["float32", "float64", "int64", "bfloat16"])
    arguments = [d.x(*sizes if name != "matmul" else [3, 3], dtype=d.pick(dtype, d.rng.choice(NUMBERS)), grad=False)
                 for _ in range(count)] + [0] * (name == "cumsum")
    into = [3, 3] if name == "matmul" else sizes
    return d(name, arguments, d.pick(dtype, d.rng.choice(NUMBERS)), d.pick(into, into, into, [0]))


def typed_call(d):
    name = d.pick("sum", "mean", "prod", "cumsum", "cumprod", "nansum", "softmax", "log_softmax")
    x = d.any(d.pick(1, 2, 3), calm=True)
    options = dict(dim=d.rng.randrange(-x.theirs.dim(), x.theirs.dim()))
    return d(name, x, d.rng.choice(["bool", *NUMBERS]), options)


def broadcast(d, sizes):
    return [1 if d.rng.random() < 0.2 else size for size in sizes[d.pick(0, 0, 0, 1):]]


def triangular(d):
    d.single()
    return d(d.x(3, 2), d.spd(3, 3), upper=d.flag(), transpose=d.flag(), unitriangular=d.flag())


def complex_pair(d):
    d.dtype = d.rng.choice(list(COMPLEX))
    return d(d.x(2, 3), d.x(d.pick(1, 2), 3))


def shifted(d):
    dtype = d.rng.choice(INTEGERS)
    return d(x := d.x(2, 3, dtype=dtype, calm=False), d.ints(3, below=7, dtype=x.theirs.dtype))


COMPLEX_ALONE = ("neg exp2 expm1 log2 log10 log1p sinc isfinite isinf isnan isreal conj_physical positive "
                 "prod var std count_nonzero any all logical_not zeros_like ravel nonzero trace tril triu").split()
CALLS = {
    "copied_in": lambda d: d(x := d.any(dtypes=["bool", *NUMBERS, *COMPLEX]), d.x(
        *broadcast(d, list(x.theirs.shape)), dtype=d.rng.choice(["bool", *NUMBERS]))),
    "into": out_call, "cast": typed_call,
    "converted": lambda d: d(d.any(dtypes=["bool", *NUMBERS, *COMPLEX], calm=True),
                             d.rng.choice(["bool", *NUMBERS, *COMPLEX])),
    "reshaped": lambda d: d(d.x(2, 3, grad=False, varied=False), d.pick((3, 2), (6,), (1, 4), (0,), (2, 3, 1), (-1, 2))),
    "relu": lambda d: d(d.any()), "bitwise_not": lambda d: d(d.any()), "clone": lambda d: d(d.any()),
    **{name: (lambda d: d(x := d.any(dtypes=NUMBERS), d.pick(0, 1, -1.5, 2))) for name in ("clamp_min", "clamp_max")},
    "bitwise_left_shift": shifted, "bitwise_right_shift": shifted,
    "as_strided": lambda d: d(d.x(12, varied=False), d.pick((2, 3), (3,), ()), d.pick((3, 1), (1, 2), (0, 1), (5,)),
                              d.pick(0, 2, 9)),
    "select": lambda d: d(d.x(2, 3), d.pick(0, 1, -1), d.pick(0, 1, -1, 2)),
    "permute": lambda d: d(d.x(2, 3, 1), d.pick((0, 1, 2), (2, 0, 1), (-1, 0, 1), (0, 0, 1))),
    "split_with_sizes": lambda d: d(d.x(5, 2), d.pick([2, 3], [5, 0], [1, 1], [2, 4]), d.pick(0, 1)),
    "Tensor.expand": lambda d: d(d.x(1, 3), d.pick((2, 3), (4, 2, 3), (-1, 3), (2, -1), (3,), (2, 2))),
    "Tensor.view": lambda d: d(d.x(4, 3), d.pick((12,), (2, 6), (-1, 4), (3, 4, 1), (5, -1))),
    "triangular_solve": triangular,
    **{f"{name}:complex": (lambda d: d(d.x(*d.sizes(2), dtype=d.rng.choice(list(COMPLEX))), *d.pick([0], [1])))
       for name in ("cumsum", "cumprod", "logcumsumexp")},
    **{f"{name}:complex": (lambda d: d(d.x(*d.sizes(2), dtype=d.rng.choice(list(COMPLEX)))))
       for name in COMPLEX_ALONE},
    "rsub:complex": complex_pair, "isclose:complex": complex_pair, "xlogy:complex": complex_pair,
    "addcmul:complex": lambda d: d(*complex_pair(d)[0], d.x(3), value=d.pick(1, 2)),
    "addcdiv:complex": lambda d: d(*complex_pair(d)[0], d.x(3), value=d.pick(1, 2)),
    "lerp:complex": lambda d: d(*complex_pair(d)[0], d.pick(0.3, 0.8)),
    "dist:complex": lambda d: d(*complex_pair(d)[0], p=d.pick(1, 2, 3)),
    "masked_fill:complex": lambda d: d(complex_pair(d)[0][0], d.x(3, dtype="bool"), d.pick(1, 2j)),
    "index_select:complex": lambda d: d(complex_pair(d)[0][0], 1, d.ints(2, below=3)),
    "gather:complex": lambda d: d(complex_pair(d)[0][0], 1, d.ints(2, 2, below=3)),
    "scatter_add:complex": lambda d: d(complex_pair(d)[0][0], 1, d.ints(2, 2, below=3), d.x(2, 2)),
    "norm:complex": lambda d: d(complex_pair(d)[0][0], p=d.pick(1, 2, 3, 0, float("inf"))),
    "nn.functional.pad:complex": lambda d: d(complex_pair(d)[0][0], (1, 1)),
    "nn.functional.linear:complex": lambda d: d(complex_pair(d)[0][0], d.x(4, 3), d.x(4)),
    "einsum:complex": lambda d: d("ij,kj->ik", complex_pair(d)[0][0], d.x(4, 3)),
    "addmm:complex": lambda d: d(complex_pair(d)[0][0], d.x(2, 4), d.x(4, 3), beta=d.pick(1, 0.5)),
}
