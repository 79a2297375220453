"""Differences that are meant; docs/differences-from-pytorch.md says why."""
import torch

HALVES = {"float16", "bfloat16"}
FLOATS = HALVES | {"float32", "float64"}
# Which gradients differ where an input is NaN or infinite.
AT_INFINITY = {"relu6", "hardtanh", "pow", "mish", "softsign", "silu", "gelu", "gelu_tanh", "prod", "digamma",
               "polygamma", "sinc", "lgamma", "norm", "elu", "selu", "celu", "hardshrink", "softshrink",
               "cumprod", "hardswish"}
# Ops that a function chooses, or prepares the operands of; called by name they refuse some.
BY_FUNCTION = {"pow": "integers to negative powers, and whole exponents, have ops of their own",
               "square": "of bools the function makes integers",
               "clamp_min": "the function fits the number to the dtype",
               "clamp_max": "the function fits the number to the dtype"}
NO_KERNEL = ("not implemented for", "with a bool tensor", "on a bool tensor", "does not support bool",
             "not supported for", "is not supported")
OVERFLOW = ("overflow", "922", "461", "Negative strides", "cannot be represented")


def has_special(call):
    """Whether an input holds NaN or infinities."""
    return any(x.theirs.is_floating_point() and not bool(x.theirs.isfinite().all()) for x in call.inputs)


def has_zero(call):
    return any(bool((x.theirs == 0).any()) for x in call.inputs)


def has_huge(call):
    return any(bool((x.theirs.double().abs() > 1e15).any()) for x in call.inputs)


def has_tiny(call):
    return any(bool(((x.theirs != 0) & (x.theirs.double().abs() < 1e-15)).any()) for x in call.inputs)


def has_least(call):
    """Whether an input holds an integer whose negative overflows."""
    return any(not x.theirs.is_floating_point() and not x.theirs.is_complex() and x.theirs.dtype != torch.bool and
               bool((x.theirs == torch.iinfo(x.theirs.dtype).min).any()) for x in call.inputs)


def has_pole(call):
    """Whether an input is where the gamma function has its poles."""
    return any(bool((x.theirs <= 0.5).any()) for x in call.inputs)


def of_refusal(call, kind, theirs, numel):
    """The same for calls that one of the two refuses."""
    op = call.op
    if any(words in theirs for words in NO_KERNEL):
        return "PyTorch has no kernel for this dtype"
    if op in ("split", "slice", "view", "unfold", "expand") and (
            numel == 0 or any(words in theirs for words in OVERFLOW) or "-46116" in call.text):
        return "sizes or strides that overflow, or are negative where there are no elements"
    if op == "expand" and theirs == "no error" and any(size in call.text for size in ("[0,", " 0,", " 0]")):
        return "a negative size where the result has no elements"
    if op in ("index", "index_select", "take") and numel == 0 and theirs == "no error":
        return "an index out of range where the result has no elements"
    if kind == "gradient raise" and "slice" not in op:
        return f"{op} has a gradient here" if "not implemented" in theirs or op == "floor_divide" else ""
    if op in BY_FUNCTION:
        return BY_FUNCTION[op]
    if op == "fill" and call.inputs[0].theirs.numel() == 1:
        return "PyTorch does not check one element"
    if op == "cat" and max(x.theirs.numel() for x in call.inputs) == 0:
        return "PyTorch ignores vectors without elements, and dim with them"
    if op == "addcdiv" and "Integer division" in theirs:
        return "integers are divided as floats"
    return ""


def of_gradient(call, dtypes, ours):
    """The same for gradients that are other numbers."""
    op = call.op
    if (has_special(call) or has_huge(call)) and op in AT_INFINITY:
        return "gradients at NaN and infinity"
    if op == "cumprod" and "inf" in ours:
        return "products overflow; PyTorch's sums of them are NaN"
    if op == "atan2" and len(dtypes) > 1:
        return "PyTorch squares the operands before it promotes them"
    if op == "tan" and dtypes & HALVES:
        return "its square is rounded to the half type"
    if op == "reciprocal" and dtypes & HALVES:
        return "its square is rounded to the half type, or overflows there"
    if op in ("std", "std_mean") and has_tiny(call):
        return "squares of tiny elements underflow"
    if op == "std" and "expand" in "".join(x.text for x in call.inputs):
        return "PyTorch's deviation of equal elements is not exactly 0"
    if op == "pow" and "number 0.5" in call.text and has_zero(call):
        return "PyTorch's power of -0 depends on the number of dims"
    if op == "norm" and has_tiny(call):
        return "powers of tiny elements underflow; PyTorch's quotient of them is NaN"
    if op == "hardsigmoid":
        return "PyTorch computes with a float32 constant"
    if op == "digamma" or op == "polygamma" and has_pole(call):
        return "poles"
    if op == "logit" and has_special(call):
        return "PyTorch's loop over vectors gives NaN no gradient, the one over numbers does"
    if op == "logit" and has_zero(call) or op == "acosh":
        return "the sign of an infinity at the end of the domain"
    if op in ("var_mean", "std_mean"):
        return "no degrees of freedom are left" if "correction 0" not in call.text else ""
    return ""


def reason(call, kind, ours, theirs):
    """Why a difference is no finding; empty if it is one."""
    dtypes = {str(x.theirs.dtype)[6:] for x in call.inputs}
    numel = min((x.theirs.numel() for x in call.inputs), default=1)
    op = call.op
    if "raise" in kind:
        return of_refusal(call, kind, theirs, numel)
    if op == "complex_pow" and kind == "value" and "int64" in dtypes and has_huge(call):
        return "a power of so many turns: its angle is rounding"
    if kind == "strides":
        return "strides of a result without elements" if numel == 0 else \
            "PyTorch's is row-major" if op == "logsigmoid" else \
            "PyTorch copies a condition that is no bool" if op == "where" and "uint8" in dtypes else ""
    if kind.endswith("value") and dtypes & HALVES and (len(dtypes) > 1 or "number" in call.text or
                                                       "alpha" in call.text or "value" in call.text):
        return "numbers and factors are not rounded to half types first"
    if kind == "gradient value":
        return of_gradient(call, dtypes, ours)
    if op in ("all", "any") and "uint8" in dtypes:
        return "PyTorch answers in uint8"
    if op in ("pow", "square", "clamp_min", "clamp_max") and not dtypes & FLOATS:
        return "called by name, without the function that chooses between ops"
    if op == "polygamma" and (has_special(call) or has_pole(call)):
        return "polygamma at infinity and at its poles"
    if op in ("isclose", "div_trunc") and dtypes & HALVES:
        return "tolerance and quotient are not rounded to the half type"
    if op == "norm" and has_huge(call):
        return "powers of huge elements overflow; PyTorch takes a single one as it is"
    if op in ("matmul", "addmm") and has_huge(call):
        return "what remains where huge products cancel depends on the order of the sum"
    if op == "prod" and has_huge(call):
        return "whether 0 meets an infinity depends on the order of the factors"
    if op == "slice" and kind == "type" and (numel == 0 or str(2**63 - 1) in call.text):
        return "sizes or strides that overflow"
    if op == "softsign" and (dtypes & {"int8", "uint8"} or has_least(call)):
        return "PyTorch's 1 + |x| overflows in 8 bits, and |x| of the least integer"
    if op == "gcd" and has_least(call):
        return "the negative of the least integer overflows"
    if op == "pow" and "number 0.5" in call.text and (has_special(call) or has_zero(call)):
        return "called by name, without the function that takes roots"
    if op == "add" and dtypes == {"bool"} and "alpha -1" in call.text:
        return "a negative alpha counts as a number, not as true"
    if op in ("var", "std", "var_mean", "std_mean") and "nan" in ours + theirs:
        return "no degrees of freedom are left, and squares underflow"
    return ""


# Functions that are ops by another name.
ALIASES = {"float_power": "pow", "psi": "digamma", "gammaln": "lgamma", "expit": "sigmoid", "arctan2": "atan2",
           "arccosh": "acosh", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
           "not_equal": "ne", "clip": "clamp", "multiply": "mul", "divide": "div", "subtract": "sub"}
# What PyTorch itself says where it breaks down.
MISHAPS = ("view size is not compatible", "modified by an inplace operation", "Expected a proper Tensor",
           "step must be nonzero", "must be Tensor, not", "on an empty tensor because",
           "INTERNAL ASSERT", "integer tensors, but got", "Autograd not support dtype", "Expected self.dtype to be equal to src.dtype")
IN_PLACE = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not")


# What PyTorch says of a wrong argument that Tensora has an answer for, or the other way round.
ANSWERED = ("cannot be converted to type", "is not differentiable with respect to argument", "expected scalar type",
            "same dtype", "Found dtype", "expected dtype", "mixed dtype", "can't be cast", "to have non-zero size",
            "only concrete integers", "could not create a primitive", "Number of groups to divide",
            "Negative strides", "doesn't match the broadcast", "returned an invalid gradient",
            "does not support automatic differentiation", "Only zero batch or zero channel", "Index to scalar",
            "matrix is singular", "split_size can only be 0", "represented as a SymInt", "N must be greater than 1",
            "isFloatingType(grad", "Unsupported input type", "input.dim() must be greater or equal", "oating point or complex")
REFUSED = ("must have shape", "factorised in float32 and float64", "must be below 2^31", "too many rows or columns",
           "is too large", "has too many elements", "must be in [0, 100)", "p must be a number", "not supported for complex",
           "expected operands of one dtype", "to have one dtype", "expected one dtype", "without overflow", "scale_factor must be positive",
           "sizes and strides must not be negative", "is out of bounds", "must have 4 or 5 dims",
           "is out of the range of", "must be floating-point", "size must be positive", "must have one length",
           "label_smoothing must be between", "eps must be positive in training",
           "expected a floating-point dtype, got int64", "circular needs padding",
           "out of range (expected to be in [-2, 1], got -9223372036854775808)")
SINGULAR = ("lu_factor_ex", "lu_factor", "slogdet", "det", "logdet", "solve", "inv", "cholesky_inverse")


def of_mistake(call, kind, ours, theirs):
    """Why wrong arguments may be treated otherwise: with a number where PyTorch refuses, or refused by name."""
    if "raise" in kind and ours == "no error" and any(words in theirs for words in ANSWERED):
        return "answered"
    if "raise" in kind and theirs == "no error" and any(words in ours for words in REFUSED):
        return "refused"
    if call.op == "kthvalue" and kind == "value" and not {str(x.theirs.dtype)[6:] for x in call.inputs} & FLOATS:
        return "which of equal elements is chosen"
    if call.op in SINGULAR and "value" in kind:
        return "rounding decides whether a matrix is singular, and no factor need be one"
    if call.op in ("pixel_shuffle", "pixel_unshuffle") and kind == "type" and call.inputs[0].theirs.numel() == 0:
        return "PyTorch returns images without elements as they are"
    if call.op in ("triu_indices", "tril_indices", "norm") and kind in ("type", "value") and "92233720368547758" in call.text:
        return "PyTorch computes such numbers with 64 bits, or not at all"
    if kind == "type" and call.op == "lstsq":
        return "PyTorch takes a matrix for a batch of vectors, and widens the batch"
    if kind == "type" and call.op == "hinge_embedding_loss":
        return "PyTorch's losses of integers are integers"
    if "raise" not in kind and ("nan" in ours + theirs or "inf" in ours + theirs):
        return "numbers that no formula is made for"
    return "of nothing" if kind == "requires_grad" else ""


def one_column(size):
    """Whether images are resized to a width of 1."""
    return (size[-1] if isinstance(size, tuple) else size) == 1


def of_function(call, kind, ours, theirs):
    """The same for a call of the package."""
    op = call.op = ALIASES.get(call.op, call.op)
    if "raise" in kind and ours == "no error" and any(words in theirs for words in MISHAPS):
        return "PyTorch does not mean to refuse this"
    if "second gradient" in kind and "is not implemented" in theirs:
        return "PyTorch has no second gradient here"
    if kind == "memory" and any(x.theirs.is_complex() for x in call.inputs) and "True" not in ours:
        return "PyTorch's conjugate is a view"
    if op == "atan2" and "gradient" in kind and len({x.theirs.dtype for x in call.inputs}) > 1:
        return "PyTorch squares the operands before it promotes them"
    if op == "cast" and "expected a floating-point dtype" in ours and min(x.theirs.numel() for x in call.inputs) == 0:
        return "PyTorch has no kernel either, and needs none without elements"
    if op == "cast" and "gradient" in kind and any(f"'{narrow}'" in call.text for narrow in (*HALVES, "float32")):
        return "rounded to the given dtype on the way"
    if op == "pow" and "second gradient" in kind and has_zero(call):
        return "the logarithm of 0, times 0 or left out"
    if op == "sinc" and "second gradient" in kind and has_tiny(call):
        return "PyTorch's cancels next to 0, where it is -pi^2 / 3"
    if op == "det" and "second gradient" in kind and "float32" in call.text:
        return "large solutions cancel where a matrix is nearly singular"
    if op == "grid_sample" and "second gradient" in kind and any(half in call.text for half in HALVES):
        return "which elements a rounded place lies between"
    if op == "polar" and "gradient" in kind and any(bool((x.theirs < 0).any()) for x in call.inputs[:1]):
        return "PyTorch's gradient has the wrong sign where the absolute value is negative"
    if op == "eigvalsh" and kind == "second gradient value":
        return "they agree along symmetric matrices"
    if op == "lerp" and any(x.theirs.dtype == torch.complex128 for x in call.inputs):
        return "PyTorch rounds the weight to float32"
    if op == "into" and kind == "value" and ("'float64'" in call.text or "'cumsum'" in call.text):
        return "computed in the dtype of the operands, where PyTorch sums in that of out="
    if op == "module" and "Transformer" in call.text and ".expand(" in call.text:
        return "rows of equal numbers, whose normalised rest is rounding"
    if op == "lstm" and kind == "requires_grad":
        return "one op gives all results, whichever weights each of them depends on"
    if op == "into" and kind == "raise" and ours == "no error" and ("dtype" in theirs or "be cast" in theirs):
        return "a result is converted to the dtype of out="
    if kind == "raise" and "expected two float32 or two float64" in ours:
        return "there is no complex32"
    if op in ("cdist", "pdist") and "expected points of float32" in ours and theirs == "no error":
        return "PyTorch has no kernel either, and needs none without elements"
    if call.inplace and op in IN_PLACE:
        return "PyTorch's result in place keeps a gradient"
    if op == "addbmm" and call.inplace and "does not fit in place" in ours:
        return "PyTorch changes the size in place"
    if op in ("unique", "unique_consecutive", "vander") and kind == "requires_grad":
        return "PyTorch announces a gradient that it does not have, or has none"
    if op in ("assigned", "index_put") and "dtypes match" in theirs:
        return "values are converted, as those of slices are"
    if op == "assigned" and kind == "requires_grad" and "int64" in call.text:
        return "integers have no gradient"
    if op == "diff" and call.options["n"] == 0:
        return "PyTorch does not look at dim then"
    if op == "lstsq" and kind == "requires_grad":
        return "residuals that are not computed have no gradient"
    if op == "block_diag" and min(x.theirs.numel() for x in call.inputs) == 0:
        return "PyTorch's gradient leaves out the rows of vectors without elements"
    if op == "ctc_loss" and "gradient" in kind and "nan" in theirs:
        return "of an infinite loss, whose gradient is NaN for other classes too in PyTorch"
    if op == "rnn_relu" and "gradient" in kind and "float16" in call.text:
        return "sums overflow in float16, PyTorch's next ones are NaN; or rounding decides which side of 0 they are on"
    if "interpolate" in op and "gradient" in kind and "'nearest'" in call.text and "scale_factor" in call.text:
        return "PyTorch's gradient does not go to the elements that its result was taken from"
    if op == "interpolate" and call.options.get("antialias") and one_column(call.options.get("size")):
        return "PyTorch repeats the first row, unless the channels are last"
    if "lp_pool" in op and "gradient" in kind and "float16" in call.text and "3.0" in call.text:
        return "sums of cubes cancel, and PyTorch rounds them to the half type"
    if op == "pow" and any(x.theirs.is_complex() for x in call.inputs) and (
            has_special(call) or has_zero(call) and "gradient" in kind):
        return "complex powers at infinity, and their gradients at 0"
    if op in ("add", "sub", "rsub") and kind == "value" and has_special(call) and any(
            x.theirs.is_complex() for x in call.inputs):
        return "complex infinities are added part by part"
    if op in ("div", "addcdiv") and any(x.theirs.is_complex() for x in call.inputs) and has_zero(call):
        return "PyTorch's complex quotients do not see the sign of a zero"
    if op in ("nansum", "nanmean") and kind == "gradient value" and "nan" in theirs:
        return "an element that is left out gets no gradient, not 0 times an infinite one"
    if op in ("quantile", "nanquantile", "msort") and "gradient" in kind:
        return "which of equal elements is chosen"
    if op == "ndtri" and has_tiny(call):
        return "tails beyond the digits of 1"
    if op == "ldexp" and has_huge(call):
        return "PyTorch keeps 32 bits of the exponent"
    if op == "ldexp" and "gradient" in kind and ("inf" in theirs or has_special(call)):
        return "PyTorch's power of two is a float32"
    if op == "cosine_similarity" and "gradient" in kind and any(half in call.text for half in HALVES):
        return "along a vector the gradient is the rest of a difference"
    if op == "entr" and has_special(call):
        return "gradients at NaN and infinity"
    return reason(call, kind, ours, theirs)
