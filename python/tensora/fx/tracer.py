"""Recording what a module or function does with proxies."""
import builtins
import functools
import inspect
import math
import types

from .. import _C
from .._C import Tensor
from ..nn import Module, Parameter, functional
from .graph import Graph
from .graph_module import GraphModule
from .node import map_aggregate
from .proxy import Proxy, TracerBase, _is_constant

_wrapped = {}  # (id of a module's globals, name): those globals


def wrap(fn_or_name):
    """Marks a function of the calling module as a leaf: its calls are recorded, not followed.

    >>> tensora.fx.wrap("len")
    'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _has_proxy(args, kwargs):
    found = []
    map_aggregate((args, kwargs), lambda value: isinstance(value, Proxy) and found.append(value))
    return found[0] if found else None


def _recording(function):
    """The function, except that a call with proxies becomes a node."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        proxy = _has_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", function, args, kwargs)
    return call


@functools.cache
def _python_functions():
    """The functions of tensors that are written in Python: they must not look at proxies."""
    import tensora
    found = {}
    for place in (tensora, functional, tensora.linalg, tensora.fft):
        for name, value in vars(place).items():
            if isinstance(value, types.FunctionType) and not name.startswith("_") and value not in found:
                found[value] = _recording(value)
    return found


class _Patches:
    """Changes attributes and dicts, and changes them back."""

    def __init__(self):
        self._undo = []

    def item(self, place, name, value):
        before = place.get(name, self)
        self._undo.append(lambda: place.pop(name) if before is self else place.__setitem__(name, before))
        place[name] = value

    def attribute(self, place, name, value):
        before = getattr(place, name)
        self._undo.append(lambda: setattr(place, name, before))
        setattr(place, name, value)

    def functions(self, scope):
        """Replaces the functions of tensors that a module's globals name."""
        replaced = _python_functions()
        for name, value in list(scope.items()):
            if isinstance(value, types.FunctionType) and value in replaced:
                self.item(scope, name, replaced[value])

    def end(self):
        for undo in reversed(self._undo):
            undo()


class Tracer(TracerBase):
    """Records a forward; a subclass decides which modules are leaves, and which values arguments may have."""

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        if param_shapes_constant:
            raise NotImplementedError("Tracer: param_shapes_constant=True is not supported")
        self._autowrapped = {value for module in autowrap_modules for name, value in vars(module).items()
                             if not name.startswith("_") and callable(value)} | set(autowrap_functions)
        self.root = None

    # ---- what a subclass may change ----

    def is_leaf_module(self, m, module_qualified_name):
        """Whether calls of the module are recorded instead of followed: those of nn, except containers."""
        is_ours = m.__module__.startswith("tensora.nn") and type(m).__name__ not in ("Sequential",)
        return is_ours or type(m).__module__.startswith("torch.nn")

    def path_of_module(self, mod):
        """The dotted name of a module."""
        name = self._paths.get(mod)
        if name is None:
            raise NameError("module is not installed as a submodule")
        return name

    def call_module(self, m, forward, args, kwargs):
        """Runs when a module is called: a node for leaves, their forward otherwise."""
        name = self.path_of_module(m)
        if self.is_leaf_module(m, name):
            return self.create_proxy("call_module", name, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """Runs when the traced code reads a module's attribute: parameters and buffers become proxies."""
        names = self._tensor_names
        if isinstance(attr_val, Tensor) and id(attr_val) in names:
            name = names[id(attr_val)]
            if name not in parameter_proxy_cache:
                parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
            return parameter_proxy_cache[name]
        return attr_val

    def create_arg(self, value):
        if isinstance(value, Tensor):
            return self._tensor_argument(value)
        if isinstance(value, Module):
            return self.create_node("get_attr", self.path_of_module(value), (), {})
        if isinstance(value, (tuple, list, dict, slice, range, Proxy)) or _is_constant(value):
            return super().create_arg(value)
        return self._constant(value, f"_{type(value).__name__.lower()}_constant")

    def _tensor_argument(self, tensor):
        name = self._tensor_names.get(id(tensor)) if self.root is not None else None
        if name is not None:
            return self.create_node("get_attr", name, (), {})
        if isinstance(tensor, Parameter):
            raise NameError("parameter is not a member of this module")
        return self._constant(tensor, "_tensor_constant")

    def _constant(self, value, prefix):
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            if getattr(self.root, f"{prefix}{number}") is value:
                break
            number += 1
        setattr(self.root, f"{prefix}{number}", value)
        return self.create_node("get_attr", f"{prefix}{number}", (), {})

    # ---- tracing ----

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """The arguments with which the function is called: the module, and a proxy for each parameter."""
        signature, concrete = inspect.signature(root_fn), concrete_args or {}
        arguments, keywords = [self.root] if is_module else [], {}
        parameters = list(signature.parameters.values())[1 if is_module else 0:]
        for parameter in parameters:
            name, kind = parameter.name, parameter.kind
            if name in concrete:
                value = concrete[name]
            else:
                stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(kind, "")
                default = () if parameter.default is parameter.empty else (parameter.default,)
                value = self.create_proxy("placeholder", stars + name, default, {})
            if kind == parameter.KEYWORD_ONLY:
                keywords[name] = value
            elif kind == parameter.VAR_POSITIONAL or kind == parameter.VAR_KEYWORD:
                raise_unless_unused(value, kind)
            else:
                arguments.append(value)
        return root_fn, arguments, keywords

    def trace(self, root, concrete_args=None):
        """The graph of a module's forward, or of a function."""
        is_module = isinstance(root, Module)
        self.root = root if is_module else Module()
        function = type(root).forward if is_module else root
        if is_module and "forward" in root.__dict__:  # replaced for this module
            function = getattr(root.forward, "__func__", None) or (lambda self, *a, **k: root.__dict__["forward"](*a, **k))
        self._paths = {module: name for name, module in self.root.named_modules()}
        self._tensor_names = {id(tensor): name for name, tensor in (*self.root.named_parameters(remove_duplicate=False),
                                                                    *self.root.named_buffers(remove_duplicate=False))}
        for path, module in self.root.named_modules():
            for name, value in module.__dict__.items():
                if isinstance(value, Tensor):
                    self._tensor_names.setdefault(id(value), f"{path}.{name}" if path else name)
        self.graph = Graph(tracer_cls=type(self))
        function, args, kwargs = self.create_args_for_root(function, is_module, concrete_args)
        patches = _Patches()
        try:
            self._patch(patches, function)
            result = function(*args, **kwargs)
        finally:
            patches.end()
        self.create_node("output", "output", (self.create_arg(result),), {})
        return self.graph

    def _patch(self, patches, function):
        cache, tracer = {}, self
        read, called = Module.__getattr__, Module.__call__

        def read_attribute(module, name):
            value = read(module, name)
            return tracer.getattr(name, value, cache)

        @functools.wraps(called)
        def call(module, *args, **kwargs):
            if _has_proxy(args, kwargs) is None and module not in tracer._paths:
                return called(module, *args, **kwargs)
            patches.functions(getattr(type(module).forward, "__globals__", {}))
            return tracer.call_module(module, lambda *a, **k: called(module, *a, **k), args, kwargs)
        patches.attribute(Module, "__getattr__", read_attribute)
        patches.attribute(Module, "__call__", call)
        import tensora
        scopes = [vars(tensora), vars(functional), vars(tensora.linalg), vars(tensora.fft)]
        scopes += [getattr(inspect.unwrap(function), "__globals__", {})]
        for scope in scopes:
            patches.functions(scope)
        for module in self.root.modules():
            patches.functions(getattr(type(module).forward, "__globals__", {}))
        for scope in scopes[4:]:
            for name, value in list(scope.items()):
                if callable(value) and _is_hashable(value) and value in self._autowrapped:
                    patches.item(scope, name, _recording(value))
        for value in [v for v in self._autowrapped if getattr(math, getattr(v, "__name__", ""), None) is v]:
            patches.item(vars(math), value.__name__, _recording(value))
        for (_, name), scope in _wrapped.items():
            original = scope[name] if name in scope else getattr(builtins, name)
            patches.item(scope, name, _recording(original))


def _is_hashable(value):
    return type(value).__hash__ is not None


def raise_unless_unused(value, kind):
    """Variable numbers of arguments have no proxies of their own."""
    if not isinstance(value, Proxy):
        raise NotImplementedError(f"symbolic_trace: concrete values for {kind.description} parameters are not supported")


def symbolic_trace(root, concrete_args=None):
    """The GraphModule of what a module or function does with its arguments.

    >>> tensora.fx.symbolic_trace(lambda x: x * 2).code
    'def forward(self, x):\\n    mul = x * 2;  x = None\\n    return mul\\n'
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    return GraphModule(tracer.root, graph, type(root).__name__ if isinstance(root, Module) else root.__name__)


def is_fx_tracing():
    return False


_C._is_fx_tracing = is_fx_tracing
