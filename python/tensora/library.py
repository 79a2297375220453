"""Ops of a program: named functions with kernels for devices, a shape function and a gradient.

>>> @tensora.library.custom_op("doc::twice", mutates_args=())
... def twice(x: tensora.Tensor) -> tensora.Tensor:
...     return x * 2
>>> tensora.ops.doc.twice(tensora.ones(2))
tensor([2., 2.])
"""
import functools
import inspect
import re

from . import _C
from ._C import Tensor

_registry = {}  # {(namespace, name): Op}


def _split(qualname):
    if qualname.count("::") != 1:
        raise ValueError(f"torch.library: expected a name such as 'namespace::name', got {qualname!r}")
    namespace, _, name = qualname.partition("::")
    return namespace, name.partition(".")[0]


class Op:
    """A named function: `default` and other overload names are the op itself."""

    def __init__(self, namespace, name, schema=None):
        self._namespace, self._opname, self._schema = namespace, name, schema
        self._kernels, self._fake, self._backward, self._setup = {}, None, None, None
        self.__name__ = self.__qualname__ = name

    default = property(lambda self: self)
    _qualname = property(lambda self: f"{self._namespace}::{self._opname}")

    def overloads(self):
        return ["default"]

    def _kernel(self, device):
        for key in (device, None):
            if key in self._kernels:
                return self._kernels[key]
        raise NotImplementedError(f"{self._qualname}: there is no implementation for tensors on {device}; there are some "
                                  f"for {sorted(map(str, self._kernels)) or 'no device'}")

    def _run(self, *args, **kwargs):
        found = []
        _tensors((args, kwargs), found)
        device = found[0].device.type if found else "cpu"
        if device == "meta" and self._fake is not None:
            return self._fake(*args, **kwargs)
        return self._kernel(device)(*args, **kwargs)

    def __call__(self, *args, **kwargs):
        if self._backward is None:
            return self._run(*args, **kwargs)
        # setup_context expects all arguments, those with defaults, too.
        bound = inspect.signature(next(iter(self._kernels.values()), self._fake)).bind(*args, **kwargs)
        bound.apply_defaults()
        return _with_gradient(self, bound.kwargs).apply(*bound.args)

    # ---- registration ----

    def register_kernel(self, device_types, func=None):
        """Decorates the implementation for devices: "cpu", ["cpu", "cuda"], or None for all."""
        kinds = [device_types] if device_types is None or isinstance(device_types, str) else list(device_types)

        def register(function):
            for kind in kinds:
                self._kernels[kind] = function
            return function
        return register if func is None else register(func)

    def register_fake(self, fn):
        """Decorates the function of shapes, which runs for tensors on the meta device."""
        self._fake = fn
        return fn

    register_abstract = register_fake

    def register_autograd(self, backward, *, setup_context=None):
        """The gradient: backward(ctx, *gradients), and setup_context(ctx, inputs, output) before it."""
        self._backward, self._setup = backward, setup_context

    def register_vmap(self, func=None):
        raise NotImplementedError(f"{self._qualname}: batching rules of ops of a program are not supported; vmap calls the "
                                  "op once for each element")

    register_torch_dispatch = register_vmap

    def __repr__(self):
        return f"<op {self._namespace}.{self._opname}>"


def _tensors(value, found):
    if isinstance(value, Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _tensors(item, found)
    elif isinstance(value, dict):
        _tensors(list(value.values()), found)


def _with_gradient(op, keywords):
    from .autograd import Function

    class Custom(Function):
        @staticmethod
        def forward(ctx, *args):
            result = op._run(*args, **keywords)
            if op._setup is not None:
                named = "output" in inspect.signature(op._setup).parameters
                given = {"inputs": args, "output": result} if named else {}
                more = {"keyword_only_inputs": keywords} if keywords else {}
                op._setup(ctx, *(() if named else (args, result)), **given, **more)
            return result

        @staticmethod
        def backward(ctx, *gradients):
            return op._backward(ctx, *gradients)
    Custom.__name__ = op._opname
    return Custom


# ---- the functions ---------------------------------------------------------------------------------

def _op(qualname):
    found = _registry.get(_split(qualname))
    if found is None:
        raise RuntimeError(f"torch.library: there is no op {qualname!r}; define it first")
    return found


def _defined(qualname, schema=None):
    key = _split(qualname)
    op = _registry[key] = Op(*key, schema)
    ops._forget(key)
    return op


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes a function an op; `mutates_args` names the arguments that it writes to."""
    def register(function):
        op = _defined(name, schema)
        op._mutates = mutates_args if isinstance(mutates_args, str) else tuple(mutates_args)
        op._tags = tags
        op.register_kernel(device_types, function)
        functools.update_wrapper(op, function)
        return op
    return register if fn is None else register(fn)


def define(qualname, schema, *, lib=None, tags=()):
    """Names an op with a schema such as "(Tensor x) -> Tensor"; impl gives it kernels."""
    if lib is not None and "::" not in qualname:
        qualname = f"{lib.ns}::{qualname}"
    _defined(qualname, schema)._tags = tags


_KEYS = {"CPU": "cpu", "CUDA": "cuda", "Meta": "meta"}
_EVERY = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "default")


def impl(qualname, types, func=None, *, lib=None):
    """Decorates the kernel of an op for devices: "cpu", "cuda", "default"; or for dispatch keys: "CPU", "Meta"."""
    if isinstance(qualname, Library):  # the old form: impl(lib, name, dispatch_key)
        library, name = qualname, types
        return lambda function: library.impl(name, function, func or "CompositeImplicitAutograd")
    if lib is not None and "::" not in qualname:
        qualname = f"{lib.ns}::{qualname}"
    op = _op(qualname)
    kinds = [types] if isinstance(types, str) else list(types)

    def register(function):
        for kind in kinds:
            if kind in ("Meta", "meta"):
                op.register_fake(function)
            elif kind in ("Autograd", "AutogradCPU", "AutogradCUDA"):
                raise NotImplementedError(f"torch.library.impl: use register_autograd for the gradient of {qualname}")
            else:
                op.register_kernel(None if kind in _EVERY else _KEYS.get(kind, kind), function)
        return function
    return register if func is None else register(func)


def register_kernel(op, device_types, func=None, /, *, lib=None):
    del lib
    return (op if isinstance(op, Op) else _op(op)).register_kernel(device_types, func)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1):
    """Decorates an op's function of shapes."""
    found = op if isinstance(op, Op) else _registry.get(_split(op if lib is None or "::" in op else f"{lib.ns}::{op}"))
    if found is None:
        found = _defined(op)  # its kernels belong to a library that may be loaded later
    return found.register_fake if func is None else found.register_fake(func)


impl_abstract = register_fake


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    del lib
    (op if isinstance(op, Op) else _op(op)).register_autograd(backward, setup_context=setup_context)


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """The schema of a function, from its annotations."""
    names = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str"}
    parts = []
    for parameter in inspect.signature(prototype_function).parameters.values():
        kind = names.get(parameter.annotation, "Tensor")
        mark = "(a!)" if parameter.name in mutates_args and kind == "Tensor" else ""
        default = "" if parameter.default is parameter.empty else f"={parameter.default}"
        parts.append(f"{kind}{mark} {parameter.name}{default}")
    result = names.get(inspect.signature(prototype_function).return_annotation, "()")
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"


def opcheck(*args, **kwargs):
    raise NotImplementedError("torch.library.opcheck: check the op with tensora.autograd.gradcheck")


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """custom_op for a function that starts kernels of Triton, which wrap_triton refuses."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel, /):
    raise NotImplementedError("torch.library.wrap_triton: there are no Triton kernels; write the op in C++ (docs/add-an-op.md)")


register_vmap = register_torch_dispatch = opcheck


class Library:
    """The ops of a namespace; `define` names them and `impl` gives them kernels."""

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema, alias_analysis="", *, tags=()):
        match = re.match(r"\s*(?:\w+::)?([\w.]+)\s*(\(.*)", schema, re.S)
        if match is None:
            raise ValueError(f"Library.define: expected a schema such as 'f(Tensor x) -> Tensor', got {schema!r}")
        define(f"{self.ns}::{match.group(1)}", match.group(2), tags=tags or alias_analysis)
        return match.group(1)

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        if with_keyset:
            raise NotImplementedError("Library.impl: with_keyset=True is not supported")
        name = op_name if isinstance(op_name, str) else op_name._opname
        op = _op(name if "::" in name else f"{self.ns}::{name}")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        if not allow_override and _KEYS.get(key) in op._kernels and key in _KEYS:
            raise RuntimeError(f"Library.impl: {op._qualname} has a kernel for {key} already")
        impl(op._qualname, key, fn)

    def _destroy(self):
        for key in [key for key in _registry if key[0] == self.ns]:
            del _registry[key]
            ops._forget(key)


# ---- torch.ops -------------------------------------------------------------------------------------

class _Builtin(Op):
    """An op of the core under its name in torch.ops.aten; overload names (`.Tensor`) are the function itself."""

    def __init__(self, name, function):
        super().__init__("aten", name)
        self.register_kernel(None, function)
        self._function = function

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self


def _to_copy(x, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    """A copy with another dtype or on another device."""
    if layout not in (None, x.layout) or pin_memory:
        raise NotImplementedError(f"aten::_to_copy: layout={layout} and pin_memory={pin_memory} are not supported")
    result = x.to(device=device or x.device, dtype=dtype or x.dtype, non_blocking=non_blocking, copy=True)
    return result if memory_format is None else result.contiguous(memory_format=memory_format)


# Ops that have no function of their name.
_ATEN = {"_to_copy": _to_copy, "_unsafe_view": Tensor.reshape, "_local_scalar_dense": Tensor.item,
         "_is_all_true": Tensor.all, "index": lambda x, indices: x[tuple(slice(None) if i is None else i for i in indices)],
         "slice": lambda x, dim=0, start=None, end=None, step=1: x.movedim(dim, 0)[start:end:step].movedim(0, dim),
         "_conj": Tensor.conj, "_pin_memory": Tensor.pin_memory, "sym_size": Tensor.size, "sym_numel": Tensor.numel,
         "alias": lambda x: x.view_as(x)}


class _Namespace:
    def __init__(self, name):
        self.name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = _registry.get((self.name, name))
        if found is None and self.name == "aten":
            import tensora
            function = _ATEN.get(name) or getattr(tensora, name, None) or getattr(
                tensora.nn.functional, name, None) or getattr(Tensor, name, None)
            found = _Builtin(name, function) if callable(function) else None
            if found is None and name.startswith("_"):
                found = Op("aten", name)  # private ops can be named, as keys of tables; calling them says no
        if found is None and self.name == "profiler":
            found = _PROFILER.get(name)
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        setattr(self, name, found)
        return found


def _enter(name, args=None):
    from .overrides import handle_torch_function, has_torch_function
    from .profiler import record_function
    if has_torch_function((name, args)):
        return handle_torch_function(_enter, (name, args), name, args)
    return record_function(name, args).__enter__()


def _exit(scope):
    from .overrides import handle_torch_function, has_torch_function
    if has_torch_function((scope,)):
        return handle_torch_function(_exit, (scope,), scope)
    return scope.__exit__(None, None, None)


_PROFILER = {"_record_function_enter": _enter, "_record_function_enter_new": _enter, "_record_function_exit": _exit}


class _Ops:
    """torch.ops: namespaces of ops."""
    loaded_libraries = frozenset()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        space = _Namespace(name)
        setattr(self, name, space)
        return space

    def _forget(self, key):
        space = self.__dict__.get(key[0])
        if space is not None:
            space.__dict__.pop(key[1], None)

    def load_library(self, path):
        raise OSError(f"torch.ops.load_library: {path} was compiled for PyTorch; Tensora cannot use it")


ops = _Ops()
