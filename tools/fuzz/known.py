"""Differences that are meant; docs/differences-from-pytorch.md says why."""
HALVES = {"float16", "bfloat16"}


def has_special(call):
    """Whether an input holds NaN or infinities."""
    return any(x.theirs.is_floating_point() and not bool(x.theirs.isfinite().all()) for x in call.inputs)


def reason(call, kind, ours, theirs):
    """Why a difference is no finding; empty if it is one."""
    dtypes = {str(x.theirs.dtype)[6:] for x in call.inputs}
    numel = min((x.theirs.numel() for x in call.inputs), default=1)
    op = call.op
    if kind == "strides" and numel == 0:
        return "strides of a result without elements"
    if "raise" in kind and ("not implemented for" in theirs or "with a bool tensor" in theirs or
                            "on a bool tensor" in theirs):
        return "PyTorch has no kernel for this dtype"
    if kind == "gradient raise" and op == "floor_divide":
        return "floor_divide has the gradient 0"
    if kind.endswith("value") and dtypes & HALVES and (call.text or len(dtypes) > 1):
        return "numbers and factors are not rounded to half types first"
    if kind == "gradient value" and has_special(call) and op in (
            "relu6", "hardtanh", "pow", "mish", "softsign", "silu", "gelu", "prod", "digamma"):
        return "gradients at NaN and infinity"
    if kind == "gradient value" and op in ("hardsigmoid", "digamma"):
        return "PyTorch computes with a float32 constant; poles"
    if op in ("split", "slice", "view", "unfold") and "raise" in kind:
        return "sizes or strides that overflow" if numel == 0 or "922" in theirs or "461" in theirs \
            or "Negative strides" in theirs else ""
    if op in ("all", "any") and "uint8" in dtypes:
        return "PyTorch answers in uint8"
    if op in ("pow", "square") and not kind.startswith("gradient"):
        return "called by name, without the function that chooses between ops"
    if op == "fill" and kind == "raise" and call.inputs[0].theirs.numel() == 1:
        return "PyTorch does not check one element"
    return ""
