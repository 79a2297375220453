"""What is compared: for each op its inputs and arguments, and how PyTorch spells it."""
import torch
import torch.nn.functional as F

from samples import ALL, EXTREME, FLOATS, INTEGERS, make, shape

UNARY = ("abs neg sign ceil floor trunc round square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p "
         "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf erfc logit "
         "isnan isinf isfinite logical_not relu relu6 hardtanh hardsigmoid hardswish softshrink hardshrink "
         "leaky_relu elu selu celu silu mish softplus logsigmoid softsign tanhshrink gelu clone digamma").split()
BINARY = ("add sub mul div floor_divide remainder fmod pow maximum minimum fmax fmin clamp_min clamp_max atan2 "
          "hypot copysign xlogy eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or "
          "bitwise_xor").split()
# Wide of one unit in the last place: their derivatives are steep, or PyTorch's own digits are few.
LOOSE = {"tan", "digamma", "logit", "pow", "remainder", "fmod", "mish", "gelu", "erfc", "tanhshrink",
         "asinh", "acosh", "atanh", "hardswish", "silu"}


class Call:
    """One call of an op: the samples, and a function of either library's tensors."""

    def __init__(self, op, inputs, ours, theirs, text="", strides=False, grads=True):
        self.op, self.inputs, self.ours, self.theirs = op, inputs, ours, theirs
        self.text, self.strides, self.grads = text, strides, grads


def theirs_of(name):
    special = {"celu": F.celu, "elu": F.elu, "selu": F.selu, "logsigmoid": F.logsigmoid}
    return special.get(name) or getattr(torch, name, None) or getattr(F, name)


def broadcastable(rng, sizes):
    """Sizes that go with the given ones, most of the time."""
    result = [1 if rng.random() < 0.2 else size for size in sizes[rng.choice([0, 0, 0, 1]):]]
    if result and rng.random() < 0.05:
        result[0] += 1
    return result


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
    tensors_only = name.startswith("logical") or name in ("maximum", "minimum", "fmax", "fmin", "atan2", "hypot")
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


FAMILIES = {
    unary: UNARY,
    binary: BINARY,
    ternary: ["where", "addcmul", "addcdiv", "clamp"],
    reduction: "sum mean prod amax amin var std all any".split(),
    filling: ["fill"],
    viewing: "select slice diagonal unfold split expand view".split(),
    indexing: "gather scatter scatter_add".split(),
}
