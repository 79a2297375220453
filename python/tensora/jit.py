"""TorchScript's names. Programs run as they are here, so scripted and traced functions are the functions."""
from typing import Final  # noqa: F401


def script(obj, *args, **kwargs):
    """The object itself."""
    return obj


def trace(func, example_inputs=None, *args, **kwargs):
    """The function itself."""
    return func


def ignore(drop=False, **kwargs):
    """A mark for TorchScript, which changes nothing here."""
    return drop if callable(drop) else script


unused = export = script_if_tracing = script


def is_scripting():
    return False


is_tracing = is_scripting


def annotate(the_type, value):
    """The value; its type is a mark for TorchScript."""
    return value


def save(*args, **kwargs):
    raise NotImplementedError("jit.save: there is no TorchScript; save the module's state_dict() with tensora.save")


def load(*args, **kwargs):
    raise NotImplementedError("jit.load: files of TorchScript hold code; build the module and load its state_dict()")
