"""Differences that are meant, each with its line in docs/differences-from-pytorch.md."""


def reason(call, kind, ours, theirs):
    """Why a difference is no finding; empty if it is one."""
    dtypes = {str(x.theirs.dtype)[6:] for x in call.inputs}
    numel = min((x.theirs.numel() for x in call.inputs), default=1)
    if kind == "strides" and numel == 0:
        return "strides of a result without elements"
    if kind == "raise" and "not implemented for" in theirs:
        return "PyTorch has no kernel for this dtype"
    if kind == "value" and dtypes & {"float16", "bfloat16"} and ("number" in call.text or len(dtypes) > 1):
        return "numbers are not rounded to half types first"
    if kind == "raise" and call.op in ("split", "slice", "view", "unfold") and numel == 0:
        return "sizes or strides that overflow beside an empty dim"
    return ""
