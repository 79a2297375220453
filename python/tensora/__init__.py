"""Tensora: tensors, automatic differentiation and neural networks, with PyTorch's habits.

>>> import tensora
>>> x = tensora.tensor([1., 2., 3.], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4., 6.])
"""
import builtins as _builtins
import importlib as _importlib
import sys as _sys

from . import _C
from ._C import *  # noqa: F401,F403 - every op is a function of the module
from ._C import (
    Tensor as Tensor, dtype as dtype, device as device, Size as Size, memory_format as memory_format,
    layout as layout, Generator as Generator, OutOfMemoryError as OutOfMemoryError)

# The packages of five of these names take their place; the others are methods only.
for _name in ("linalg", "fft", "special", "nn", "init", "to", "byte", "type_as", "new_zeros", "new_ones", "new_full",
              "new_empty"):
    globals().pop(_name, None)

from ._C import __version__ as __version__  # noqa: E402 - the version of the CMake project
from . import _tensor  # noqa: E402 - gives Tensor the methods that are written in Python
from ._modes import (  # noqa: E402
    no_grad as no_grad, enable_grad as enable_grad, set_grad_enabled as set_grad_enabled,
    inference_mode as inference_mode, autocast as autocast, lazy as lazy)
from ._functions import *  # noqa: E402,F401,F403 - functions whose Python form differs from C++'s
from ._aten_names import *  # noqa: E402,F401,F403
from ._functions import (  # noqa: E402
    manual_seed as manual_seed, seed as seed, initial_seed as initial_seed, get_rng_state as get_rng_state,
    set_rng_state as set_rng_state, set_printoptions as set_printoptions, compile as compile,
    explain as explain, jit_stats as jit_stats)
from ._dtypes import (  # noqa: E402
    finfo as finfo, iinfo as iinfo, is_tensor as is_tensor, is_storage as is_storage,
    is_floating_point as is_floating_point, is_complex as is_complex, is_inference as is_inference,
    numel as numel, result_type as result_type, can_cast as can_cast, typename as typename)
from ._copies import *  # noqa: E402,F401,F403
from ._numeric import *  # noqa: E402,F401,F403
from .serialization import (  # noqa: E402
    save as save, load as load, save_safetensors as save_safetensors, load_safetensors as load_safetensors)
from . import (  # noqa: E402
    autograd as autograd, cuda as cuda, fft as fft, linalg as linalg, nn as nn, optim as optim, random as random,
    utils as utils, version as version)
from ._named import (  # noqa: E402
    FloatTensor as FloatTensor, DoubleTensor as DoubleTensor, HalfTensor as HalfTensor,
    LongTensor as LongTensor, IntTensor as IntTensor, BoolTensor as BoolTensor, ByteTensor as ByteTensor)
from math import e as e, inf as inf, nan as nan, pi as pi  # noqa: E402

newaxis = None
grad = autograd.grad

# Modules that few programs need are loaded when they are first named.
_LAZY = ("amp", "distributions", "special", "backends", "profiler", "compat", "func", "multiprocessing", "types",
         "accelerator", "llm", "array_api", "distributed",
         "jit", "onnx", "masked", "signal", "fx", "overrides", "compiler", "library", "hub", "sparse", "storage",
         "kernels", "futures", "testing")
_OF_MODULES = {"ops": "library", "vmap": "func", "GradScaler": "amp"}  # attributes that a module of _LAZY has
_OF_MODULES |= dict.fromkeys(("sparse_coo_tensor", "sparse_csr_tensor", "sparse_coo", "sparse_csr", "spmm", "smm"), "sparse")
_OF_MODULES |= {"UntypedStorage": "storage", "TypedStorage": "storage", "Future": "futures"}

# What PyTorch has under a name that is not here, and what to use instead.
_ELSEWHERE = {
    "sparse_": "the sparse layouts are sparse_coo and sparse_csr",
    "quantize_per_tensor": "use Tensor.quantize(dtype) with a block dtype such as tensora.q8_0",
    "poisson": "use tensora.distributions.Poisson(rate).sample()",
    "quantization": "use Tensor.quantize(dtype), or the command tensora quantize",
    "ao": "use Tensor.quantize(dtype), or the command tensora quantize",
}


TYPE_CHECKING = False  # type checkers take it for True
if TYPE_CHECKING:
    from . import (accelerator as accelerator, amp as amp, array_api as array_api, backends as backends, compat as compat,
                   compiler as compiler, distributed as distributed, distributions as distributions, func as func, fx as fx,
                   hub as hub, jit as jit, kernels as kernels, library as library, llm as llm, masked as masked,
                   multiprocessing as multiprocessing, onnx as onnx, overrides as overrides, profiler as profiler,
                   signal as signal, sparse as sparse, special as special, storage as storage, testing as testing, types as types)
    from .amp import GradScaler as GradScaler
    from .func import vmap as vmap
    from .library import ops as ops
    from .sparse import (smm as smm, sparse_coo as sparse_coo, sparse_coo_tensor as sparse_coo_tensor,
                         sparse_csr as sparse_csr, sparse_csr_tensor as sparse_csr_tensor, spmm as spmm)
    from .storage import TypedStorage as TypedStorage, UntypedStorage as UntypedStorage
else:
    def __getattr__(name):
        if name in _LAZY:
            try:
                return _importlib.import_module(f"tensora.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"tensora.{name}":
                    raise
        if _sys.modules.get("torch") is _sys.modules[__name__]:  # under tensora.compat
            from . import _compat
            if f"torch.{name}" in _compat.PLACES or f"torch.{name}" in _compat.REFUSED:
                return _importlib.import_module(f"torch.{name}")
        if name.startswith("_foreach_"):
            return getattr(_importlib.import_module("tensora._foreach"), name)
        if name in _OF_MODULES:
            return getattr(_importlib.import_module(f"tensora.{_OF_MODULES[name]}"), name)
        hint = _ELSEWHERE.get("sparse_" if name.startswith("sparse_") else name)
        if hint is None:
            import difflib
            near = difflib.get_close_matches(name, [known for known in globals() if known[0] != "_"], n=3, cutoff=0.8)
            hint = f"did you mean {' or '.join(near)}?" if near else "docs/coming-from-pytorch.md lists what differs"
        raise AttributeError(f"module 'tensora' has no attribute '{name}': {hint}")


def __dir__():
    return sorted(set(globals()) | set(_LAZY))
