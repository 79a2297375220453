"""What stands for a value while a program is traced."""
import operator

from .. import overrides  # noqa: F401 - functions of tensors look for __torch_function__
from .node import Node, map_aggregate


class TraceError(ValueError):
    """The program does something with a value that is not known while it is traced."""


class Proxy:
    """A value of a graph: what is done with it becomes nodes."""

    def __init__(self, node, tracer=None):
        if tracer is None:
            tracer = GraphAppendingTracer(node.graph)
        self.tracer, self.node = tracer, node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # protocols that a value may or may not have: __array__, __len__, …
        return Attribute(self, name)

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        import dis
        import inspect
        frame = inspect.currentframe().f_back
        instruction = next(i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti)
        if instruction.opname == "UNPACK_SEQUENCE":  # a, b = proxy
            return (self[i] for i in range(instruction.argval))
        return self.tracer.iter(self)

    def __bool__(self):
        return self.tracer.to_bool(self)

    def __len__(self):
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want this call to be "
                           "recorded, please call torch.fx.wrap('len') at module scope")

    def __contains__(self, item):
        raise TraceError("symbolically traced variables cannot be searched with `in`")

    def keys(self):
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        args, kwargs = args or (), kwargs or {}
        tracers = {}
        map_aggregate((args, kwargs), lambda value: isinstance(value, Proxy) and tracers.setdefault(value.tracer))
        if len(tracers) != 1:
            raise RuntimeError(f"Found multiple different tracers {list(tracers)} while trying to trace operations "
                               f"{orig_method}")
        tracer = next(iter(tracers))
        if type(orig_method).__name__ == "builtin_method" and isinstance(args[0], Proxy):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


class Attribute(Proxy):
    """proxy.name: a node of its own only if it is used other than as a method."""

    def __init__(self, root, attribute):
        self.root, self.attr, self.tracer = root, attribute, root.tracer
        self._node = None

    @property
    def node(self):
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and_", "or_", "xor")
_OTHERS = ("getitem", "setitem", "delitem", "eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "invert", "abs", "iadd", "isub",
           "imul", "itruediv", "ifloordiv", "imod", "imatmul", "ipow", "iand", "ior", "ixor")


def _operator(name, swapped=False):
    function = getattr(operator, name)

    def record(self, *args):
        values = (args[0], self) if swapped else (self, *args)
        return self.tracer.create_proxy("call_function", function, values, {})
    return record


for _name in _BINARY + _OTHERS:
    setattr(Proxy, f"__{_name.strip('_')}__", _operator(_name))
for _name in _BINARY:
    setattr(Proxy, f"__r{_name.strip('_')}__", _operator(_name, swapped=True))
Proxy.__hash__ = object.__hash__


class TracerBase:
    """Turns values of the program into arguments of nodes, and calls into nodes."""
    check_mutable_operations = False
    trace_asserts = False
    graph = None

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node):
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        args, kwargs = self.create_arg(tuple(args)), self.create_arg(dict(kwargs))
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, value):
        """The argument of a node for a value: proxies become their nodes."""
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.create_arg(item) for item in value))
        if isinstance(value, (tuple, list)):
            return (tuple if isinstance(value, tuple) else list)(self.create_arg(item) for item in value)
        if isinstance(value, dict):
            return {key: self.create_arg(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self.create_arg(part) for part in (value.start, value.stop, value.step)))
        if isinstance(value, range):
            return range(*(self.create_arg(part) for part in (value.start, value.stop, value.step)))
        if isinstance(value, Proxy):
            return value.node
        if isinstance(value, Node) or _is_constant(value):
            return value
        raise NotImplementedError(f"argument of type: {type(value)}")

    def to_bool(self, obj):
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj):
        raise TraceError("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as "
                         "a *args or **kwargs function argument.")

    def keys(self, obj):
        return Attribute(obj, "keys")()


def _is_constant(value):
    import enum

    from .. import _C
    if value is None or value is ... or isinstance(value, (bool, int, float, complex, str, bytes, enum.Enum)):
        return True
    return isinstance(value, (_C.dtype, _C.device, _C.memory_format, _C.layout, type)) or callable(value)


class GraphAppendingTracer(TracerBase):
    """Appends to a graph that exists: for proxies that a program makes itself."""

    def __init__(self, graph):
        self.graph = graph
