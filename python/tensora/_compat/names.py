"""Names that PyTorch's modules have beside those of Tensora: added when compat is installed."""
import enum
import types

from . import node_names, refused, torch_version


def _nothing(*args, **kwargs):
    """Tells PyTorch's makers how it is used: nobody is told anything here."""
    del args, kwargs


def _false():
    return False


class _Keys(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_Keys):
    """The keys of PyTorch's dispatcher, by name. Calls here are not dispatched by keys."""


class DispatchKeySet(frozenset):
    """A set of them."""

    def __new__(cls, *keys):
        return super().__new__(cls, keys)


def _check_with(error_type, condition, message=None):
    """Raises an error of the type unless a condition holds; the message is a text or a function that gives it."""
    if not condition:
        raise error_type(str(message() if callable(message) else message or "Expected cond to be True, but got False."))


def _check_of(error_type):
    return lambda cond, message=None: _check_with(error_type, cond, message)


_check = _check_of(RuntimeError)


def _check_is_size(i, message=None, *, max=None):
    """Raises unless `i` can be a size, of at most `max`."""
    _check(i >= 0 and (max is None or i <= max), message or f"Expected a size, got {i}")


def _check_tensor_all(cond, message=None):
    """Raises unless all elements of a bool tensor are true."""
    _check(bool(cond.all()), message)


def _assert(condition, message):
    """assert, for a condition that may be a tensor."""
    assert condition, message


def _add_symbols(torch):
    """Checks, and types of what stands for a number while PyTorch's compiler traces: no number here is one of them."""
    torch._check, torch._assert = _check, _assert
    torch._check_with, torch._check_is_size, torch._check_tensor_all = _check_with, _check_is_size, _check_tensor_all
    torch._check_index, torch._check_value = _check_of(IndexError), _check_of(ValueError)
    torch._check_type, torch._check_not_implemented = _check_of(TypeError), _check_of(NotImplementedError)
    torch._assert_async = lambda condition, message="Expected Tensor with single nonzero value": _check(bool(condition), message)
    for name in ("SymInt", "SymFloat", "SymBool"):
        setattr(torch, name, refused(f"torch.{name}", "shapes are numbers"))
    torch.sym_int, torch.sym_float, torch.sym_max, torch.sym_min = int, float, max, min
    torch.sym_not = lambda value: not value
    torch.TensorType = torch.Tensor
    torch.Stream, torch.Event = (refused(f"torch.{name}", f"use torch.cuda.{name}") for name in ("Stream", "Event"))
    torch.complex32 = torch.chalf = refused("torch.complex32", "the smallest complex dtype is complex64")


def add(torch):
    """Adds them to the module that programs import as torch."""
    torch.__version__ = torch.version.__version__ = torch_version.FOLLOWED
    torch.torch = torch
    core = torch._C
    core._log_api_usage_once = core._log_api_usage_metadata = _nothing
    core._get_tracing_state = core._jit_clear_class_registry = lambda: None
    core._set_graph_executor_optimize = core._jit_set_profiling_executor = core._jit_set_profiling_mode = _nothing
    core._is_tracing = core._is_torch_function_mode_enabled = core._has_cuda = _false
    core._get_privateuse1_backend_name = lambda: "privateuseone"
    from ..nn.modules.utils import parse_to
    core._nn = types.SimpleNamespace(_parse_to=parse_to)
    core._TensorMeta, core._TensorBase, core._VariableFunctions = type(torch.Tensor), torch.Tensor, core
    for name in ("Graph", "Node", "Value", "Block"):
        setattr(core, name, refused(f"torch._C.{name}", "there is no TorchScript; torch.fx.symbolic_trace gives a graph"))
    core._get_default_device = lambda: str(torch.get_default_device())
    core._get_accelerator = lambda: torch.accelerator.current_accelerator() or torch.device("cpu")
    core._are_functorch_transforms_active = _false
    core.DispatchKey, core.DispatchKeySet = DispatchKey, DispatchKeySet
    core._ExcludeDispatchKeyGuard = refused("torch._C._ExcludeDispatchKeyGuard", "calls are not dispatched by keys")
    for name in ("PyTorchFileReader", "PyTorchFileWriter", "ScriptObject", "FileCheck"):
        setattr(core, name, refused(f"torch._C.{name}", "files are read and written by torch.load and torch.save"))
        setattr(torch, name, getattr(core, name))
    _add_symbols(torch)
    for name in ("jagged", "sparse_csc", "sparse_bsr", "sparse_bsc"):
        if not hasattr(torch, name):
            setattr(torch, name, refused(f"torch.{name}", "tensors of this layout do not exist here"))
    node_names.add(torch)
    core._show_as_torch()
    torch.Tag = enum.Enum("Tag", ["pt2_compliant_tag", "needs_fixed_stride_order", "flexible_layout", "core", "pointwise",
                                  "nondeterministic_seeded", "nondeterministic_bitwise", "inplace_view", "view_copy",
                                  "data_dependent_output", "dynamic_output_shape", "generated"])
    torch.get_device_module = lambda device=None: getattr(torch, torch.device(device or torch.get_default_device()).type, torch)
    torch.autograd.kineto_available = _false
    torch.set_warn_always = lambda b: setattr(torch, "_warns_always", bool(b))
    torch.is_warn_always_enabled = lambda: getattr(torch, "_warns_always", False)
    from . import future
    torch.__future__ = future
    from .. import jit
    torch.ScriptModule, torch.ScriptFunction = jit.ScriptModule, jit.ScriptFunction
    for name in ("has_mps", "has_mkl", "has_openmp", "has_cuda", "has_cudnn"):
        setattr(torch, name, False)
