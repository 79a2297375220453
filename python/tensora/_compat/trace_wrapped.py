"""torch._dynamo._trace_wrapped_higher_order_op: a scope in which a compiler would treat indexing specially."""
import contextlib


class TransformGetItemToIndex(contextlib.nullcontext):
    """x[i] with a tensor i is an index in any case."""
