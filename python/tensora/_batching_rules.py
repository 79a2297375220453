"""How ops work on all elements of a batch at once: see _batched.py."""
from . import _C
from ._batched import call, is_at, mapped, size_of, wrap
from ._C import Tensor

RULES = {}


def _rule(*names):
    def register(function):
        for name in names:
            RULES[name] = function
        return function
    return register


# ---- element by element ------------------------------------------------------------------------------

_UNARY = """abs absolute acos acosh angle arccos arcsin arctan arctanh arcsinh arccosh asin asinh atan atanh bitwise_not ceil clone
conj conj_physical cos cosh deg2rad detach digamma empty_like erf erfc erfinv exp exp2 expm1 fix floor frac full_like gelu
hardsigmoid hardswish i0 imag isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 logical_not logit
logsigmoid mish nan_to_num neg negative ones_like positive rad2deg real reciprocal relu relu6 round rsqrt selu sigmoid sign
signbit silu sgn sin sinc sinh softplus softsign sqrt square tan tanh tanhshrink trunc zeros_like elu celu leaky_relu hardtanh
hardshrink softshrink threshold clamp clip clamp_min clamp_max nan_to_num alias bool int long float double half bfloat16
erfcx ndtr ndtri log_ndtr entr zero_ fill_ relu_ exp_ neg_ sqrt_ tanh_ sigmoid_ abs_ log_ reciprocal_ square_ floor_""".split()
_BINARY = """add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow atan2 arctan2 maximum minimum
fmax fmin eq ne lt le gt ge less less_equal greater greater_equal not_equal bitwise_and bitwise_or bitwise_xor
bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor hypot copysign nextafter ldexp logaddexp logaddexp2
xlogy where lerp addcmul addcdiv masked_fill heaviside float_power rsub isclose gcd lcm polar complex prelu_
__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __rfloordiv__ __mod__ __rmod__
__pow__ __rpow__ __and__ __rand__ __or__ __ror__ __xor__ __rxor__ __lshift__ __rlshift__ __rshift__ __rrshift__ __eq__ __ne__
__lt__ __le__ __gt__ __ge__ __neg__ __abs__ __invert__ __pos__""".split()
_IN_PLACE = """add_ sub_ mul_ div_ pow_ copy_ masked_fill_ clamp_ clamp_min_ clamp_max_ lerp_ addcmul_ addcdiv_ __iadd__ __isub__
__imul__ __itruediv__ __ipow__ __iand__ __ior__ __ixor__ __ifloordiv__ __imod__ bitwise_and_ bitwise_or_ logical_and_""".split()


def _rank(dtype):
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype is _C.bool else 1


def _aligned(values, level):
    """All elements of each tensor, with as many dims of size 1 in front that they broadcast like the elements."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    most = max(tensor.dim() for tensor in tensors)
    with_dims = [t.dtype for t in tensors if t.dim() > 0]

    def one(value):
        if not isinstance(value, Tensor) or not is_at(value, level):
            return value
        inner = value._value
        if value.dim() == 0 and most > 0 and with_dims:  # as an element it would not take part in type promotion
            strongest = max(with_dims, key=_rank)
            if _rank(inner.dtype) <= _rank(strongest) and inner.dtype is not strongest:
                inner = inner.to(strongest)
        if value.dim() < most:
            inner = inner.reshape((inner.shape[0],) + (1,) * (most - value.dim()) + tuple(inner.shape[1:]))
        return inner
    return [one(value) for value in values]


@_rule("masked_fill")
def _filled(func, level, args, kwargs):
    named = dict(zip(("input", "mask", "value"), args)) | kwargs
    if isinstance(named["value"], Tensor):  # each element may have a value of its own
        return _C.where(named["mask"], named["value"].to(named["input"].dtype), named["input"])
    return _pointwise(func, level, args, kwargs)


def _pointwise(func, level, args, kwargs):
    values = _aligned([*args, *kwargs.values()], level)
    result = call(func, tuple(values[:len(args)]), dict(zip(kwargs, values[len(args):])))
    if func.__name__.endswith("_") and not func.__name__.endswith("__"):
        return args[0]
    return result if result is NotImplemented else wrap(result, level)


RULES.update(dict.fromkeys((name for name in (*_UNARY, *_BINARY) if name not in RULES), _pointwise))


@_rule(*_IN_PLACE)
def _pointwise_in_place(func, level, args, kwargs):
    if not is_at(args[0], level) or any(isinstance(v, Tensor) and v.dim() > args[0].dim() for v in args[1:]):
        return NotImplemented
    values = _aligned([*args, *kwargs.values()], level)
    if values[0] is not args[0]._value and values[0].data_ptr() != args[0]._value.data_ptr():
        return NotImplemented
    call(func, tuple(values[:len(args)]), dict(zip(kwargs, values[len(args):])))
    return args[0]


# ---- dims --------------------------------------------------------------------------------------------

def _shifted(dim):
    if isinstance(dim, (tuple, list)):
        return tuple(_shifted(d) for d in dim)
    return dim + 1 if dim >= 0 else dim


def _all(value):
    return tuple(range(1, value.dim()))


def _only_first(args, kwargs, level):
    """Whether the first argument is the only one that is batched."""
    others = []
    mapped((args[1:], tuple(kwargs.values())), lambda t: others.append(t) if is_at(t, level) else None)
    return is_at(args[0], level) and not others


def _along(position, whole=None):
    """A rule for ops with dims at this position; `whole` says what is done where no dim is named."""
    def rule(func, level, args, kwargs):
        if not _only_first(args, kwargs, level) or args[0].dim() == 0:
            return NotImplemented
        args, kwargs = list(args), dict(kwargs)
        value = args[0] = args[0]._value
        key = next((k for k in ("dim", "dims", "axis") if k in kwargs), None)
        given = kwargs[key] if key else args[position] if len(args) > position else None
        if given is not None and not isinstance(given, (int, tuple, list)):
            return NotImplemented  # a dtype
        if given is None or (isinstance(given, (tuple, list)) and not given):
            if whole is None:
                return NotImplemented
            given = whole(value)
        else:
            given = _shifted(given)
        if key:
            kwargs[key] = given
        elif len(args) > position:
            args[position] = given
        else:
            kwargs["dim"] = given
        return _wrapped(func(*args, **kwargs), level)
    return rule


def _wrapped(result, level):
    if isinstance(result, Tensor):
        return wrap(result, level)
    parts = [_wrapped(part, level) for part in result]
    return type(result)(parts) if hasattr(type(result), "n_sequence_fields") else tuple(parts)


for _name in ("sum", "mean", "amax", "amin", "nansum", "nanmean"):
    RULES[_name] = _along(1, _all)
for _name in ("softmax", "log_softmax", "logsumexp", "cumsum", "cumprod", "argmax", "argmin", "sort", "argsort", "unbind", "all", "any", "prod", "cummax", "cummin", "logcumsumexp", "squeeze", "glu"):
    RULES[_name] = _along(1)
for _name in ("topk", "kthvalue", "chunk", "split", "tensor_split", "roll"):
    RULES[_name] = _along(2)
RULES["index_select"] = RULES["select"] = RULES["narrow"] = _along(1)


def _repeated(tensor, level):
    """All elements, of a tensor that may be the same for each of them."""
    return tensor._value if is_at(tensor, level) else tensor.unsqueeze(0).expand((size_of(level),) + tuple(tensor.shape))


@_rule("gather")
def _gathered(func, level, args, kwargs):
    if kwargs or len(args) != 3 or args[0].dim() == 0 or args[2].dim() == 0:
        return NotImplemented
    return wrap(_C.gather(_repeated(args[0], level), _shifted(args[1]), _repeated(args[2], level)), level)


@_rule("max", "min", "std", "var", "norm", "median")
def _reduced_or_compared(func, level, args, kwargs):
    if len(args) > 1 and isinstance(args[1], Tensor):
        return _pointwise(func, level, args, kwargs)
    if func.__name__ == "norm" or (len(args) < 2 and "dim" not in kwargs) or any(isinstance(v, bool) for v in args[1:2]):
        return NotImplemented
    return _along(1)(func, level, args, kwargs)


@_rule("transpose", "swapaxes", "swapdims", "diagonal")
def _two_dims(func, level, args, kwargs):
    if kwargs or len(args) != 3 or func.__name__ == "diagonal":
        return NotImplemented
    return wrap(args[0]._value.transpose(_shifted(args[1]), _shifted(args[2])), level)


@_rule("t")
def _transposed(func, level, args, kwargs):
    return args[0] if args[0].dim() < 2 else wrap(args[0]._value.transpose(1, 2), level)


@_rule("unsqueeze")
def _unsqueezed(func, level, args, kwargs):
    dim = args[1] if len(args) > 1 else kwargs["dim"]
    return wrap(args[0]._value.unsqueeze(_shifted(dim)), level)


@_rule("permute", "movedim", "moveaxis")
def _permuted(func, level, args, kwargs):
    if func.__name__ != "permute" or kwargs:
        return NotImplemented
    dims = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    count = args[0].dim()
    return wrap(args[0]._value.permute((0,) + tuple(d % count + 1 for d in dims)), level)


@_rule("reshape", "view", "expand", "repeat")
def _resized(func, level, args, kwargs):
    sizes = args[1:] if len(args) > 2 or (len(args) == 2 and isinstance(args[1], int)) else (
        args[1] if len(args) == 2 else next(iter(kwargs.values())))
    if not isinstance(sizes, (tuple, list)):
        return NotImplemented  # view(dtype)
    value, sizes = args[0]._value, tuple(sizes)
    batch = value.shape[0]
    if func.__name__ == "expand":
        missing = len(sizes) - args[0].dim()
        value = value.reshape((batch,) + (1,) * missing + tuple(value.shape[1:]))
        return wrap(value.expand((batch,) + sizes), level)
    if func.__name__ == "repeat":
        missing = len(sizes) - args[0].dim()
        value = value.reshape((batch,) + (1,) * missing + tuple(value.shape[1:]))
        return wrap(value.repeat((1,) + sizes), level)
    if batch == 0 and -1 in sizes:
        return NotImplemented
    return wrap(value.reshape((batch,) + sizes), level)


@_rule("view_as", "reshape_as", "expand_as")
def _as_other(func, level, args, kwargs):
    if not is_at(args[0], level):
        return NotImplemented
    return getattr(args[0], func.__name__.split("_")[0])(args[1].shape)


@_rule("flatten")
def _flattened(func, level, args, kwargs):
    start = args[1] if len(args) > 1 else kwargs.get("start_dim", 0)
    end = args[2] if len(args) > 2 else kwargs.get("end_dim", -1)
    if args[0].dim() == 0:
        return args[0].reshape(1)
    return wrap(args[0]._value.flatten(_shifted(start), _shifted(end)), level)


@_rule("flip")
def _flipped(func, level, args, kwargs):
    dims = kwargs["dims"] if kwargs else args[1] if len(args) == 2 else args[1:]
    return wrap(func(args[0]._value, _shifted(dims if isinstance(dims, (tuple, list)) else (dims,))), level)


@_rule("cat", "concat", "stack")
def _joined(func, level, args, kwargs):
    tensors = args[0]
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    return wrap(func([_repeated(t, level) for t in tensors], _shifted(dim)), level)


@_rule("tril", "triu")
def _triangle(func, level, args, kwargs):
    return wrap(func(args[0]._value, *args[1:], **kwargs), level)


# ---- products ----------------------------------------------------------------------------------------

def _product(a, b, level):
    """matmul of two operands, of which one at least is batched."""
    left, right = a.dim() == 1, b.dim() == 1
    a = a.unsqueeze(0) if left else a
    b = b.unsqueeze(-1) if right else b
    result = _C.matmul(*_aligned([a, b], level))
    result = result.squeeze(-1) if right else result
    result = result.squeeze(-2 + right) if left else result
    return wrap(result, level)


@_rule("matmul", "mm", "bmm", "mv", "__matmul__", "__rmatmul__")
def _matmul(func, level, args, kwargs):
    a, b = (args[1], args[0]) if func.__name__ == "__rmatmul__" else (args[0], args[1] if len(args) > 1 else kwargs["other"])
    if a.dim() == 0 or b.dim() == 0:
        return NotImplemented
    return _product(a, b, level)


@_rule("dot", "vdot", "inner")
def _dot(func, level, args, kwargs):
    if len(args) < 2 or args[0].dim() != 1 or args[1].dim() != 1 or args[0].is_complex():
        return NotImplemented
    return _product(args[0], args[1], level)


@_rule("outer")
def _outer(func, level, args, kwargs):
    return args[0].unsqueeze(-1) * args[1].unsqueeze(0)


@_rule("linear")
def _linear(func, level, args, kwargs):
    names = dict(zip(("input", "weight", "bias"), args)) | kwargs
    x, weight, bias = names["input"], names["weight"], names.get("bias")
    if not is_at(weight, level) and not is_at(bias, level):
        return wrap(func(x._value, weight, bias), level)
    result = _C.matmul(x, weight.transpose(-2, -1)) if weight.dim() == 2 else _C.matmul(x, weight)
    return result if bias is None else result + bias


@_rule("addmm", "addmv", "baddbmm")
def _added_product(func, level, args, kwargs):
    if kwargs or len(args) != 3:
        return NotImplemented
    return args[0] + _C.matmul(args[1], args[2])


@_rule("conv1d", "conv2d", "conv3d")
def _conv(func, level, args, kwargs):
    if not _only_first(args, kwargs, level):
        return NotImplemented
    value, dims = args[0]._value, int(func.__name__[4])
    if args[0].dim() == dims + 1:  # elements without a batch of their own
        return wrap(func(value, *args[1:], **kwargs), level)
    result = func(value.flatten(0, 1), *args[1:], **kwargs)
    return wrap(result.unflatten(0, value.shape[:2]), level)


@_rule("layer_norm", "rms_norm")
def _normalized(func, level, args, kwargs):
    if not _only_first(args, kwargs, level):
        return NotImplemented
    return wrap(func(args[0]._value, *args[1:], **kwargs), level)


@_rule("embedding")
def _embedding(func, level, args, kwargs):
    if is_at(args[1], level):
        return NotImplemented
    return wrap(func(args[0]._value, *args[1:], **kwargs), level)


# ---- indexing ----------------------------------------------------------------------------------------

def _is_position(entry):
    if isinstance(entry, Tensor):
        return not entry.dtype.is_floating_point and entry.dtype is not _C.bool and entry.dtype is not _C.uint8
    return isinstance(entry, int) and not isinstance(entry, bool)


@_rule("__getitem__")
def _indexed(func, level, args, kwargs):
    tensor, index = args
    index = index if isinstance(index, tuple) else (index,)
    chosen = [entry for entry in index if isinstance(entry, Tensor)]
    if not chosen and is_at(tensor, level) and not any(isinstance(entry, list) for entry in index):
        return wrap(tensor._value[(slice(None), *index)], level)
    if not chosen or not all(map(_is_position, index)):
        return NotImplemented
    most = max(entry.dim() for entry in chosen)
    positions = [p if isinstance(p, Tensor) else _C.tensor(p, device=tensor.device) for p in index]
    positions = _aligned(positions, level)
    if is_at(tensor, level):
        count = tensor._value.shape[0]
        here = _C.arange(count, device=tensor.device).reshape((count,) + (1,) * most)
        return wrap(tensor._value[(here, *positions)], level)
    return wrap(tensor[tuple(positions)], level)
