"""TorchScript's names. Programs run as they are here, so scripted and traced functions are the functions."""
import builtins
from typing import Final  # noqa: F401


_SCRIPTED = "_tensora_is_scripted"


def _marked(obj):
    """The object, which from now on is an instance of ScriptModule if it is a module."""
    from .nn import Module
    if builtins.isinstance(obj, Module):
        obj.__dict__[_SCRIPTED] = True
    return obj


def script(obj, *args, **kwargs):
    """The object itself."""
    return _marked(obj)


def trace(func, example_inputs=None, *args, **kwargs):
    """The function itself."""
    return _marked(func)


def ignore(drop=False, **kwargs):
    """A mark for TorchScript, which changes nothing here."""
    return drop if callable(drop) else script


unused = export = script_if_tracing = _script_if_tracing = interface = _overload = _overload_method = script


class _Scripted(type):
    def __instancecheck__(cls, obj):
        return type.__instancecheck__(cls, obj) or (cls is ScriptModule and getattr(obj, "__dict__", {}).get(_SCRIPTED, False))


class ScriptModule(metaclass=_Scripted):
    """The type of scripted modules: a scripted module keeps its own type here, and is an instance of this one as well."""


class ScriptFunction:
    """The type of scripted functions in PyTorch."""


RecursiveScriptModule = TopLevelTracedModule = TracedModule = ScriptModule


class TracerWarning(Warning):
    """What PyTorch's tracer warns with; nothing is traced here."""


class Attribute:
    """A value with a type for TorchScript: the value."""

    def __new__(cls, value, type):
        del type
        return value


def _get_trace_graph(*args, **kwargs):
    raise NotImplementedError("jit._get_trace_graph: there is no TorchScript; torch.fx.symbolic_trace gives a graph")


class CompilationUnit:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("jit.CompilationUnit: TorchScript's source cannot be compiled; write the function in Python")


class Error(RuntimeError):
    """TorchScript's error; nothing raises it here."""


class _Switch:
    """A scope of TorchScript's that changes nothing: functions run as they are."""

    def __init__(self, should_optimize=True):
        self.should_optimize = should_optimize

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


optimized_execution = fuser = _Switch


freeze = optimize_for_inference = trace_module = script


def is_scripting():
    return False


is_tracing = is_scripting


def isinstance(obj, target_type):  # noqa: A001 - PyTorch's name
    """Python's isinstance."""
    return builtins.isinstance(obj, target_type)


def annotate(the_type, value):
    """The value; its type is a mark for TorchScript."""
    return value


def save(*args, **kwargs):
    raise NotImplementedError("jit.save: there is no TorchScript; save the module's state_dict() with tensora.save")


def load(*args, **kwargs):
    raise NotImplementedError("jit.load: files of TorchScript hold code; build the module and load its state_dict()")
