"""torch._dynamo: programs are not traced here, so its switches are kept and its marks change nothing."""
from .. import compiler
from .._functions import compile as _compile
from ..compiler import allow_in_graph, assume_constant_result, disable, is_compiling, reset  # noqa: F401
from .settings import Settings

config = Settings("torch._dynamo.config", cache_size_limit=8, recompile_limit=8, accumulated_cache_size_limit=256,
                  suppress_errors=False, verbose=False, dynamic_shapes=True, assume_static_by_default=True,
                  automatic_dynamic_shapes=True, capture_scalar_outputs=False,
                  capture_dynamic_output_shape_ops=False, optimize_ddp=True, allow_unspec_int_on_nn_module=False,
                  inline_inbuilt_nn_modules=True, log_level=None, guard_nn_modules=True, force_parameter_static_shapes=True,
                  compiled_autograd=False)


class OptimizedModule:
    """The type of compiled modules in PyTorch; here a compiled module keeps its own type."""


def optimize(backend="inductor", **options):
    """torch.compile as a decorator."""
    return _compile(backend=backend, **options)


def graph_break(msg=""):
    """Ends a compiled region in PyTorch; there is none here, whatever `msg` says."""
    return None if isinstance(msg, str) else None


def _mark(t, *dims, **bounds):
    """A mark for a compiler that specializes on sizes: kernels here take any."""
    del t, dims, bounds


mark_dynamic = maybe_mark_dynamic = mark_static = mark_static_address = mark_unbacked = _mark


def explain(function):
    """function → a call that says which kernels it took; see tensora.explain."""
    from .._functions import explain as say
    return lambda *args, **kwargs: say(function, *args, **kwargs)


def list_backends(exclude_tags=()):
    return compiler.list_backends(exclude_tags)


class external_utils:
    is_compiling = staticmethod(is_compiling)


class eval_frame:
    OptimizedModule = OptimizedModule
    disable = staticmethod(disable)


class decorators:
    mark_static_address = staticmethod(_mark)
    disable = staticmethod(disable)


class utils:
    @staticmethod
    def is_compile_supported(device_type):
        """Whether torch.compile works for a kind of device: it does for all."""
        return device_type in ("cpu", "cuda")
