"""What is compared: for each op its inputs and arguments, and how PyTorch spells it."""
import torch
import torch.nn.functional as F

import complexes
import fused
import rooms
from lines import (Line, alike, anything, broadcastable, classes, dim, dims, flag, floats, integers, mask, matrices,
                   one_of, places, same, three_places, three_rows)
from samples import ALL, EXTREME, FLOATS, make, shape

UNARY = ("abs neg sign ceil floor trunc round square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p "
         "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf erfc logit "
         "isnan isinf isfinite logical_not relu relu6 hardtanh hardsigmoid hardswish softshrink hardshrink "
         "leaky_relu elu selu celu silu mish softplus logsigmoid softsign tanhshrink gelu clone digamma "
         "frac erfinv lgamma sinc deg2rad rad2deg signbit isposinf isneginf contiguous").split()
BINARY = ("add sub mul div floor_divide remainder fmod pow maximum minimum fmax fmin clamp_min clamp_max atan2 "
          "hypot copysign xlogy eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or "
          "bitwise_xor bitwise_left_shift bitwise_right_shift logaddexp logaddexp2 gcd lcm").split()
# Wide of one unit in the last place: their derivatives are steep, or PyTorch's own digits are few.
LOOSE = {"tan", "digamma", "logit", "pow", "remainder", "fmod", "mish", "gelu", "erfc", "tanhshrink",
         "asinh", "acosh", "atanh", "hardswish", "silu", "lgamma", "erfinv", "sinc", "matmul", "addmm", "var",
         "std", "layer_norm", "rms_norm", "group_norm", "attention", "logcumsumexp", "linalg_det", "linalg_inv_ex",
         "linalg_solve_ex", "linalg_cholesky_ex", "var_mean", "std_mean", "gelu_tanh", "softmax", "log_softmax", "convolution", "grid_sample", "norm", "logsumexp", "logaddexp", "logaddexp2", "cumprod", "cumsum", "polygamma", "lerp"}


class Call:
    """One call of an op: the samples, and a function of either library's tensors."""

    def __init__(self, op, inputs, ours, theirs, text="", strides=False, grads=True, first=False):
        self.op, self.inputs, self.ours, self.theirs = op, inputs, ours, theirs
        self.text, self.strides, self.grads, self.first = text, strides, grads, first


def theirs_of(name):
    special = {"celu": F.celu, "elu": F.elu, "selu": F.selu, "logsigmoid": F.logsigmoid,
               "contiguous": torch.Tensor.contiguous}
    for place in (special.get, *(lambda n, m=m: getattr(m, n, None) for m in (torch, F, torch.linalg, torch.special))):
        if found := place(name):
            return found
    raise KeyError(f"ops.py does not say how PyTorch spells {name}")


def unary(rng, glue, name):
    dtype = rng.choice(ALL)
    x = make(rng, dtype, shape(rng), grad=dtype in FLOATS and rng.random() < 0.5)
    attributes = {"eps": -1} if name == "logit" else {}
    return Call(name, [x], lambda x: getattr(glue, name)(x, **attributes), theirs_of(name), strides=True)


def binary(rng, glue, name):
    a_type, sizes = rng.choice(ALL), shape(rng)
    b_type = a_type if rng.random() < 0.6 else rng.choice(ALL)
    grads = [t in FLOATS and rng.random() < 0.5 for t in (a_type, b_type)]
    a = make(rng, a_type, sizes, grads[0])
    tensors_only = name.startswith("logical") or name in (
        "maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "logaddexp", "logaddexp2", "gcd", "lcm")
    if rng.random() < 0.25 and not tensors_only:
        number = rng.choice([0, 1, 2, -1, -2, 3, 127, 300, 0.5, -1.5, 2.0])
        marks = {"number": True} if name.startswith("clamp") else {}
        return Call(name, [a], lambda x: getattr(glue, name)(x, number, **marks),
                    lambda x: theirs_of(name)(x, number), f"number {number}", strides=True)
    b = make(rng, b_type, broadcastable(rng, sizes), grads[1])
    if name in ("add", "sub") and rng.random() < 0.3:
        alpha = rng.choice([2, -1, 1.5, 300, True])
        return Call(name, [a, b], lambda x, y: getattr(glue, name)(x, y, alpha=alpha),
                    lambda x, y: getattr(torch, name)(x, y, alpha=alpha), f"alpha {alpha}", strides=True)
    return Call(name, [a, b], getattr(glue, name), theirs_of(name), strides=True)


def ternary(rng, glue, name):
    dtype, sizes = rng.choice(ALL), shape(rng)
    grad = dtype in FLOATS and rng.random() < 0.6
    first = rng.choice(["bool", "bool", "uint8", "int8"]) if name == "where" else dtype
    x = [make(rng, first, sizes, grad and name != "where")]
    x += [make(rng, dtype if rng.random() < 0.8 else rng.choice(ALL), broadcastable(rng, sizes), False)
          for _ in range(2)]
    return Call(name, x, getattr(glue, name), getattr(torch, name), strides=name != "clamp")


def reduction(rng, glue, name):
    dtype, sizes = rng.choice(ALL), shape(rng)
    x = make(rng, dtype, sizes, dtype in FLOATS and rng.random() < 0.5)
    dims = rng.sample(range(len(sizes)), rng.randint(0, len(sizes))) if sizes else []
    if rng.random() < 0.1:
        dims = [rng.choice(EXTREME)]
    if name == "prod":
        dims = dims[:1]
    keep = bool(dims) and rng.random() < 0.5
    function = getattr(torch, name)
    extra = {"correction": 1} if name in ("var", "std") else {}

    def theirs(x):
        if name == "prod":
            return function(x, dim=dims[0], keepdim=keep) if dims else function(x)
        if not dims and name in ("all", "any"):
            return function(x)
        return function(x, dim=dims or None, keepdim=keep, **extra) if name not in ("amax", "amin") \
            else function(x, dim=dims, keepdim=keep)
    return Call(name, [x], lambda x: getattr(glue, name)(x, dim=dims, keepdim=keep), theirs,
                f"dim {dims} keepdim {keep}")


def filling(rng, glue, name):
    dtype, number = rng.choice(ALL), rng.choice([0, 1, -1, 127, 128, 255, 256, 300, -129, -256, 2**40, 0.5,
                                                 -0.5, 127.9, 1e10, 1e19, 1e300, float("nan"), float("inf")])
    x = make(rng, dtype, shape(rng))
    return Call(name, [x], lambda x: glue.fill(x, value=number), lambda x: torch.full_like(x, number),
                f"value {number}", grads=False)


def viewing(rng, glue, name):
    sizes = shape(rng, rng.choice([1, 2, 3]))
    dtype = rng.choice(["int64", "float32"])
    x = make(rng, dtype, sizes, dtype == "float32")

    def number():
        return rng.choice(EXTREME) if rng.random() < 0.3 else rng.randint(-3, 5)
    d = rng.randrange(-len(sizes), len(sizes))
    if name == "select":
        i = number()
        return Call(name, [x], lambda x: glue.select(x, dim=d, index=i), lambda x: x.select(d, i), f"{d} {i}", True)
    if name == "slice":
        a, b, s = number(), number(), rng.choice([1, 1, 2, 3, 2**62, 2**63 - 1])
        at = (slice(None),) * (d % len(sizes)) + (slice(a, b, s),)
        return Call(name, [x], lambda x: glue.slice(x, dim=d, start=a, end=b, step=s), lambda x: x[at],
                    f"{d} {a} {b} {s}", s < 4)
    if name == "diagonal":
        offset = number()
        return Call(name, [x], lambda x: glue.diagonal(x, offset=offset), lambda x: x.diagonal(offset), f"{offset}")
    if name == "unfold":
        size, step = number(), number()
        return Call(name, [x], lambda x: glue.unfold(x, dimension=d, size=size, step=step),
                    lambda x: x.unfold(d, size, step), f"{d} {size} {step}")
    if name == "split":
        parts = [rng.choice(EXTREME) if rng.random() < 0.1 else rng.randint(0, 3) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.6:
            parts.append(sizes[d] - sum(parts))
        return Call(name, [x], lambda x: glue.split(x, dim=d, sizes=parts), lambda x: x.split_with_sizes(parts, d),
                    f"{d} {parts}")
    wanted = [rng.choice(EXTREME) if rng.random() < 0.15 else rng.choice([-1] + sizes) for _ in range(len(sizes))]
    if name == "expand":
        return Call(name, [x], lambda x: glue.expand(x, size=wanted), lambda x: x.expand(wanted), f"{wanted}", True)
    return Call(name, [x], lambda x: glue.view(x, size=wanted), lambda x: x.view(wanted), f"{wanted}")


def indexing(rng, glue, name):
    sizes = shape(rng, rng.choice([1, 2, 3]))
    dtype, dim = rng.choice(ALL), rng.randrange(len(sizes))
    x = make(rng, dtype, sizes, dtype in FLOATS)
    places = [rng.randint(0, size) if d != dim else rng.randint(0, 6) for d, size in enumerate(sizes)]
    limit = sizes[dim] + (1 if rng.random() < 0.05 else 0)
    index = make(rng, "int64", places)
    wrapped = (index.theirs % max(limit, 1)).contiguous()
    index.theirs, index.ours = wrapped, glue.view(glue.Tensor(wrapped.flatten().tolist(), dtype="int64"), size=places)
    index.text = f"tensor({wrapped.tolist()})"
    if name == "gather":
        return Call(name, [x, index], lambda x, i: glue.gather(x, i, dim=dim), lambda x, i: x.gather(dim, i), f"{dim}")
    source = make(rng, dtype, places, dtype in FLOATS)
    return Call(name, [x, index, source], lambda x, i, s: getattr(glue, name)(x, i, s, dim=dim),
                lambda x, i, s: getattr(torch, name)(x, dim, i, s), f"{dim}", grads=name == "scatter_add")


# ---- ops that one line describes ------------------------------------------------------------------

LINES = {
    "aminmax": Line(anything, dim=lambda r, s: [dim(r, s)], keepdim=flag, grads=False,
                    theirs=lambda x, dim, keepdim: torch.aminmax(x, dim=dim[0], keepdim=keepdim)),
    "argmax": Line(anything, dim=dim, keepdim=flag),
    "argmin": Line(anything, dim=dim, keepdim=flag),
    "count_nonzero": Line(anything, dim=dims, theirs=lambda x, dim: torch.count_nonzero(x, dim or None)),
    "bitwise_not": Line(integers),
    "cumprod": Line(anything, dim=dim, ranks=(1, 2, 3)),
    "cumsum": Line(anything, dim=dim, ranks=(1, 2, 3)),
    "div_trunc": Line(anything, alike, theirs=lambda x, y: torch.div(x, y, rounding_mode="trunc")),
    "flip": Line(anything, dims=dims),
    "gelu_tanh": Line(floats, theirs=lambda x: F.gelu(x, approximate="tanh")),
    "heaviside": Line(anything, alike),
    "frexp_exponent": Line(floats, grads=False, theirs=lambda x: torch.frexp(x)[1].to(x.dtype)),
    "nextafter": Line(lambda r, s, b: make(r, r.choice(["float32", "float64"]), s, True), alike),
    "ldexp": Line(floats, lambda r, s, b: make(r, "int32", list(b[0].theirs.shape)), grads=False),
    "diag_embed": Line(lambda r, s, b: make(r, "float32", [3], True), sizes=[4, 4], offset=one_of(-1, 1),
                       theirs=lambda x, sizes, offset: torch.diag_embed(x, offset)),
    "index": Line(anything, places, dims=[0], ranks=(1, 2), theirs=lambda x, i, dims: x[i]),
    "sum_to": Line(lambda r, s, b: make(r, "float64", [2, 3], True), size=one_of([], [3], [1, 3], [2, 1], [2, 3]),
                   theirs=lambda x, size: x.sum_to_size(size)),
    "cast": Line(anything, dtype=one_of(*ALL), theirs=lambda x, dtype: x.to(getattr(torch, dtype))),
    "as_strided": Line(lambda r, s, b: make(r, "float32", [3, 4], True, varied=False), sizes=[2, 2], strides=one_of([4, 1], [5, 2]),
                       offset=one_of(0, 1), input_strides=[4, 1], input_offset=0,
                       theirs=lambda x, sizes, strides, offset, **_: x.as_strided(sizes, strides, offset)),
    **{name: Line(lambda r, s, b: make(r, r.choice(["float32", "float64", "int64"]), [4, 2], False), three_rows, three_places,
                  dims=[0], accumulate=name == "index_add", theirs=theirs)
       for name, theirs in {"index_put": lambda x, v, i, **_: x.index_put((i,), v),
                            "index_add": lambda x, v, i, **_: x.index_add(0, i, v),
                            "index_copy": lambda x, v, i, **_: x.index_copy(0, i, v)}.items()},
    "round_decimals": Line(floats, by=100.0, theirs=lambda x, by: torch.round(x, decimals=2)),
    "take": Line(anything, places, dims=[0], ranks=(1,), theirs=lambda x, i, dims: x.take(i)),
    "index_select": Line(anything, places, dims=[0],
                         ranks=(1, 2), theirs=lambda x, i, dims: x.index_select(dims[0], i)),
    "isclose": Line(floats, same, rtol=one_of(1e-5, 0.5), atol=one_of(1e-8, 1), equal_nan=flag),
    "lerp": Line(floats, same, same),
    "logsumexp": Line(floats, dim=dims, keepdim=flag, ranks=(1, 2, 3),
                      theirs=lambda x, dim, keepdim: torch.logsumexp(x, dim or list(range(x.dim())), keepdim)),
    "masked_fill": Line(anything, mask, value=one_of(0, 1)),
    "matmul": Line(matrices, matrices, ranks=(2, 3)),
    "max": Line(anything),
    "max_dim": Line(anything, dim=dim, keepdim=flag, theirs=lambda x, **a: torch.max(x, **a)),
    "min": Line(anything),
    "min_dim": Line(anything, dim=dim, keepdim=flag, theirs=lambda x, **a: torch.min(x, **a)),
    "nansum": Line(anything, dim=dims, keepdim=flag,
                   theirs=lambda x, dim, keepdim: torch.nansum(x, dim or None, keepdim=bool(keepdim))),
    "nan_to_num": Line(floats, nan=one_of(0, 1.5), posinf=one_of(2, 7), neginf=one_of(-3, 0)),
    "norm": Line(floats, p=one_of(0, 1, 2, 3, -1, float("inf"), float("-inf")), dim=dims, keepdim=flag,
                 theirs=lambda x, p, dim, keepdim: torch.linalg.vector_norm(x, p, dim or None, keepdim)),
    "permute": Line(anything, dims=lambda r, s: r.sample(range(-len(s), 0), len(s))),
    "polygamma": Line(floats, n=one_of(1, 2, 3), theirs=lambda x, n: torch.polygamma(n, x)),
    "std_mean": Line(floats, dim=dims, correction=one_of(0, 1, 2), keepdim=flag,
                     theirs=lambda x, dim, **a: torch.std_mean(x, dim or None, **a)),
    "tril": Line(anything, diagonal=one_of(-2, -1, 0, 1, 3), ranks=(1, 2, 3)),
    "triu": Line(anything, diagonal=one_of(-2, -1, 0, 1, 3), ranks=(1, 2, 3)),
    "unbind": Line(anything, dim=dim),
    "var_mean": Line(floats, dim=dims, correction=one_of(0, 1, 2), keepdim=flag,
                     theirs=lambda x, dim, **a: torch.var_mean(x, dim or None, **a)),
    "stack": Line(anything, same, dim=lambda r, s: r.randint(-len(s) - 1, len(s)),
                  theirs=lambda *x, dim: torch.stack(x, dim)),
    "cat": Line(anything, same, same, dim=dim, theirs=lambda *x, dim: torch.cat(x, dim)),
    "threshold": Line(floats, threshold=one_of(0, 0.5, -1), value=one_of(0, 3),
                      theirs=lambda x, threshold, value: F.threshold(x, threshold, value)),
    "addmm": Line(lambda r, s, b: make(r, "float64", s), lambda r, s, b: make(r, "float64", [s[0], 3]),
                  lambda r, s, b: make(r, "float64", [3, s[1]]), ranks=(2,), beta=one_of(0, 1, 0.5), alpha=one_of(1, 2)),
    "one_hot": Line(classes, num_classes=12,
                    theirs=lambda x, num_classes: F.one_hot(x, num_classes)),
}


COMPOSED = {**complexes.LINES, **fused.LINES}
ALL_LINES = {**LINES, **rooms.LINES, **COMPOSED}
LOOSE.update(COMPOSED)


def declared(rng, glue, name):
    line = ALL_LINES[name]
    sizes, inputs = shape(rng, rng.choice(line.ranks)), []
    for kind in line.inputs:
        inputs.append(kind(rng, sizes, inputs))
    attributes = {key: value(rng, sizes) if callable(value) else value for key, value in line.attributes.items()}
    ours, theirs = line.ours or getattr(glue, name), line.theirs or theirs_of(name)
    return Call(name, inputs, lambda *x: ours(*x, **attributes), lambda *x: theirs(*x, **attributes),
                " ".join(f"{key} {value}" for key, value in attributes.items()), grads=line.grads, first=line.first)


FAMILIES = {
    unary: UNARY,
    binary: BINARY,
    ternary: ["where", "addcmul", "addcdiv", "clamp"],
    reduction: "sum mean prod amax amin var std all any".split(),
    filling: ["fill"],
    viewing: "select slice diagonal unfold split expand view".split(),
    indexing: "gather scatter scatter_add".split(),
    declared: [*LINES, *rooms.LINES],
}
# Of which there are no goldens: one line of those is one op.
BEYOND_GOLDENS = {declared: list(COMPOSED)}
