"""Functions whose Python form differs from C++'s: overloads by flags, optional results, files."""
import builtins
import warnings

from . import _C
from ._C import Tensor

__all__ = []


def _public(function):
    __all__.append(function.__name__)
    return function


def _replaces(function):
    """A function of the module and a method of Tensor."""
    setattr(Tensor, function.__name__, function)
    return _public(function)


# ---- ops ----------------------------------------------------------------------------------------

@_public
def where(condition, input=None, other=None, *, out=None):
    """Elements of `input` where `condition` holds, else of `other`; the places where it does if alone."""
    if input is None:
        return nonzero(condition, as_tuple=True)
    if not isinstance(input, Tensor):
        input = _C._wrap_number(input)
    if not isinstance(other, Tensor):
        other = _C._wrap_number(other)
    return _C.where(condition, input, other) if out is None else _C.where(condition, input, other, out=out)


def _where_method(self, condition, other):
    return where(condition, self, other)


Tensor.where = _where_method


@_replaces
def nonzero(input, *, out=None, as_tuple=False):
    """The indices of the elements that are not zero: a matrix, or one vector per dim."""
    if as_tuple:
        return _C.nonzero_tuple(input)
    return _C.nonzero(input) if out is None else _C.nonzero(input, out=out)


def _some(results, inverse, counts):
    wanted = (results[0],) + ((results[1],) if inverse else ()) + ((results[2],) if counts else ())
    return wanted if len(wanted) > 1 else wanted[0]


@_replaces
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, in order; with where each one is found, and how often."""
    return _some(_C.unique(input, sorted, return_inverse, return_counts, dim), return_inverse, return_counts)


@_replaces
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The first of each run of equal elements."""
    return _some(_C.unique_consecutive(input, return_inverse, return_counts, dim), return_inverse, return_counts)


@_replaces
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The p-norm over `dim`, or of all elements."""
    if p is None or (p == "fro" and (dim is None or isinstance(dim, int) or len(dim) <= 2)):
        p = 2
    if isinstance(p, str):
        return _C.linalg.matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim, dtype, out=out)
    return _C.norm(input, p, () if dim is None else dim, keepdim, dtype, out=out)


@_public
def einsum(equation, *operands):
    """Einstein's summation: einsum("ij,jk->ik", a, b)."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return _C.einsum(equation, list(operands))


@_public
def tensordot(a, b, dims=2, out=None):
    """Sums the products over several dims: the last ones of `a` and the first of `b`, or those named."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        return _C.tensordot(a, b, dims, out=out)
    first, second = dims
    return _C.tensordot(a, b, [first] if isinstance(first, int) else list(first),
                        [second] if isinstance(second, int) else list(second), out=out)


@_public
def meshgrid(*tensors, indexing="ij"):
    """Coordinates of a grid: one tensor per vector."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    return _C.meshgrid(list(tensors), indexing)


def _spread(name):
    one = getattr(_C, name)

    def atleast(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
            tensors = tensors[0]
            return tuple(one(t) for t in tensors)
        return one(tensors[0]) if len(tensors) == 1 else tuple(one(t) for t in tensors)
    atleast.__name__ = name
    atleast.__doc__ = one.__doc__
    return _public(atleast)


atleast_1d, atleast_2d, atleast_3d = _spread("atleast_1d"), _spread("atleast_2d"), _spread("atleast_3d")


@_public
def index_put(input, indices, values, accumulate=False):
    """A copy with `values` at the places that the tensors of indices name."""
    return input.index_put(indices, values, accumulate)


@_public
def rsub(input, other, *, alpha=1):
    """other - alpha * input"""
    return _C.sub(other if isinstance(other, Tensor) else _C._wrap_number(other), input, alpha=alpha)


@_public
def range(start, end=None, step=1, **options):
    """arange with its end included, as PyTorch's deprecated function has it."""
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("range: step must not be 0")
    if not (end - start) / step >= 0:
        raise RuntimeError(f"range: no steps of {step} lead from {start} to {end}")
    last = start + int((end - start) / step) * step
    return _C.arange(start, last + step * 0.5, step, **options)


@_public
def empty_permuted(size, physical_layout, **options):
    """An uninitialised tensor whose dims lie in memory in the order given."""
    if sorted(physical_layout) != list(builtins.range(len(size))):
        raise RuntimeError(f"empty_permuted: physical_layout must name each of {len(size)} dims once, got {physical_layout}")
    base = _C.empty([size[i] for i in physical_layout], **options)
    return base.permute([list(physical_layout).index(i) for i in builtins.range(len(size))])


@_public
def broadcast_shapes(*shapes):
    """The common shape of broadcasting."""
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    return _C.broadcast_tensors([_C.empty(s, device="meta") for s in shapes])[0].shape if shapes else _C.Size()


def _scatter(name):
    plain = getattr(_C, name)
    in_place = name.endswith("_")

    def scatter(self, dim, index, src=None, value=None, *, reduce=None):
        source = value if src is None else src
        if reduce is None:
            return plain(self, dim, index, source)
        if not isinstance(source, Tensor):
            source = _C.full(index.shape, source, dtype=self.dtype, device=self.device)
        if reduce == "add":
            return (_C.scatter_add_ if in_place else _C.scatter_add)(self, dim, index, source)
        by = {"multiply": "prod"}[reduce]
        return (_C.scatter_reduce_ if in_place else _C.scatter_reduce)(self, dim, index, source, by)
    scatter.__name__ = name
    scatter.__doc__ = plain.__doc__
    return _replaces(scatter)


scatter, scatter_ = _scatter("scatter"), _scatter("scatter_")


def _deviation(name):
    plain = getattr(_C, name)

    def deviation(input, *args, **kwargs):
        if args and isinstance(args[0], bool):  # var(x, unbiased)
            args = ((), *args)
        return plain(input, *args, **kwargs)
    deviation.__name__ = name
    deviation.__doc__ = plain.__doc__
    return deviation


std, var = _replaces(_deviation("std")), _replaces(_deviation("var"))
std_mean, var_mean = _public(_deviation("std_mean")), _public(_deviation("var_mean"))


@_replaces
def float_power(input, exponent, *, out=None):
    """pow, computed in float64."""
    wide = lambda x: x.to(_C.complex128 if x.is_complex() else _C.float64) if isinstance(x, Tensor) else x  # noqa: E731
    base, power = wide(input), wide(exponent)
    return _C.pow(base, power) if out is None else _C.pow(base, power, out=out)


@_replaces
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Each element (along `dim`) as often as `repeats` says."""
    if repeats is None:
        result, at = _C.repeat_interleave(_C.arange(input.shape[0]), input), 0
    else:
        result, at = _C.repeat_interleave(input, repeats, dim), 0 if dim is None else dim
    if output_size is not None and output_size != result.shape[at]:
        raise RuntimeError(f"repeat_interleave: output_size is {output_size}, but the repeats sum to {result.shape[at]}")
    return result


@_replaces
def cov(input, *, correction=1, fweights=None, aweights=None):
    """The covariance of the rows."""
    return _C.cov(input, correction, fweights, aweights)


@_replaces
def unravel_index(indices, shape):
    """Indices of the flattened tensor as one int64 tensor per dim."""
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is _C.bool:
        raise TypeError(f"unravel_index: expected indices of an integer dtype, got {indices.dtype}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if builtins.any(size < 0 for size in sizes):
        raise ValueError(f"unravel_index: shape must not have negative sizes, got {sizes}")
    indices, result = indices.long(), []
    for size in reversed(sizes):
        result.insert(0, indices % size)
        indices = indices // size
    return tuple(result)


@_replaces
def resolve_conj(input):
    """The tensor itself: conjugates are always computed."""
    return input


@_replaces
def resolve_neg(input):
    return input


@_public
def split(tensor, split_size_or_sections, dim=0):
    """Views of `split_size` rows each, or of the sizes that a list names."""
    return _C.split(tensor, split_size_or_sections, dim)


def _split_method(self, split_size, dim=0):
    """Views of `split_size` rows each, or of the sizes that a list names."""
    return _C.split(self, split_size, dim)


Tensor.split = _split_method
unsafe_chunk, unsafe_split, trapz = _C.chunk, split, _C.trapezoid
__all__ += ["unsafe_chunk", "unsafe_split", "trapz"]


# ---- creation -------------------------------------------------------------------------------------

@_public
def from_numpy(ndarray):
    """A tensor over the memory of a NumPy array."""
    import numpy
    if not isinstance(ndarray, numpy.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    return _C._share(ndarray)


@_public
def as_tensor(data, dtype=None, device=None):
    """A tensor of the data, which shares its memory where it can."""
    device = _C._default_device() if device is None else device
    if isinstance(data, Tensor):
        tensor = data
    elif hasattr(data, "_as_bytes"):  # a storage
        tensor = data._as_bytes()
    elif hasattr(data, "__array__") and not isinstance(data, (list, tuple, float, int)):
        try:
            tensor = _C._share(data)
        except (TypeError, ValueError, BufferError):
            tensor = _C.tensor(data)
    else:
        tensor = _C.tensor(data, dtype=dtype, device=device)
    return tensor.to(dtype=dtype, device=device)


@_public
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """A tensor of the data; `copy` forbids or demands a copy."""
    if copy:
        tensor = _C.tensor(obj, dtype=dtype, device=device)
    else:
        tensor = as_tensor(obj, dtype, device)
    return tensor.requires_grad_() if requires_grad else tensor


@_public
def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A tensor over the bytes of an object."""
    view = memoryview(buffer).cast("B")[offset:]
    if count >= 0:
        view = view[:count * dtype.itemsize]
    if len(view) == 0:
        raise ValueError("frombuffer: the buffer is empty")
    tensor = _C._share(view).view_dtype(dtype)
    return tensor.requires_grad_() if requires_grad else tensor


@_public
def from_file(filename, shared=None, size=0, *, dtype=None, device=None, requires_grad=False):
    """A vector of `size` elements over the bytes of a file; with `shared`, writes to it change the file, which is made or
    extended where it is too short.

    >>> import tempfile
    >>> file = tempfile.NamedTemporaryFile()
    >>> _ = tensora.from_file(file.name, True, 2, dtype=tensora.float32).fill_(1.0)
    >>> tensora.from_file(file.name, False, 2, dtype=tensora.float32)
    tensor([1., 1.])
    """
    import mmap
    dtype = dtype or _C.get_default_dtype()
    wanted = size * dtype.itemsize
    if wanted == 0:
        return _C.empty(0, dtype=dtype, device=device, requires_grad=requires_grad)
    if shared:
        open(filename, "ab").close()
    with open(filename, "r+b" if shared else "rb") as file:
        length = file.seek(0, 2)
        if length < wanted:
            if not shared:
                raise RuntimeError(f"from_file: {filename} has {length} bytes, and {size} elements of {dtype} take {wanted}")
            file.truncate(wanted)
        memory = mmap.mmap(file.fileno(), wanted, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    tensor = frombuffer(memory, dtype=dtype)
    tensor = tensor if device is None else tensor.to(device)
    return tensor.requires_grad_() if requires_grad else tensor


@_public
def normal(mean, std=1.0, size=None, *, generator=None, out=None, **options):
    """Normal numbers."""
    extras = {} if generator is None else {"generator": generator}
    if size is not None:
        result = _C.normal(float(mean), float(std), tuple(size), **options, **extras)
    else:
        result = _C.normal(mean, std, **extras)
    return result if out is None else out.copy_(result)


@_public
def to_dlpack(tensor):
    """A DLPack capsule over the tensor's memory."""
    return tensor.__dlpack__()


# ---- the process ----------------------------------------------------------------------------------

@_public
def manual_seed(seed):
    """Starts the default generator's stream of this seed."""
    return _C.default_generator.manual_seed(int(seed))


@_public
def seed():
    """A seed from the system's entropy; returns it."""
    return _C.default_generator.seed()


@_public
def initial_seed():
    return _C.default_generator.initial_seed()


@_public
def get_rng_state():
    """The state of the default generator, as bytes in a tensor."""
    return _C.default_generator.get_state()


@_public
def set_rng_state(new_state):
    _C.default_generator.set_state(new_state)


@_public
def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors are printed."""
    profiles = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, 2 ** 62, 3, 80), None: (4, 1000, 3, 80)}
    chosen = [given if given is not None else usual
              for given, usual in zip((precision, threshold, edgeitems, linewidth), profiles[profile])]
    _C._set_printoptions(chosen[0], builtins.int(builtins.min(chosen[1], 2 ** 62)), chosen[2], chosen[3], sci_mode)


@_public
def use_deterministic_algorithms(mode, *, warn_only=False):
    """Whether ops must give the same bits every time."""
    _C._set_deterministic(mode)


@_public
def is_deterministic_algorithms_warn_only_enabled():
    """Whether an op that cannot give the same bits every time only warns: never, it throws."""
    return False


@_public
def detach(input):
    """Tensor.detach: the same memory, outside of the graph."""
    return input.detach()


@_public
def set_float32_matmul_precision(precision):
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"expected highest, high or medium, got {precision!r}")


@_public
def get_float32_matmul_precision():
    return "highest"


@_public
def set_num_interop_threads(n):
    return None


@_public
def get_num_interop_threads():
    return 1


@_public
def get_default_device():
    """The device of tensors that are made without naming one, in this thread."""
    device = _C._default_device()
    return _C.device("cpu") if device is None else device


@_public
def set_default_device(device):
    """Makes tensors on this device where no device is named, in this thread; None: on the CPU."""
    _C._set_default_device(None if device is None else _C.device(device))


@_public
def set_default_tensor_type(type):
    _C.set_default_dtype(getattr(type, "dtype", _C.float32))


@_public
def is_autocast_enabled(device_type="cuda"):
    if device_type in ("mps", "xpu", "mtia", "hpu"):  # PyTorch's other devices, which are not here
        return False
    return _C._is_autocast_enabled(device_type)


_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_BACKENDS = ("tensora", "inductor", "aot_eager", "cudagraphs", "eager")


def _wide_option(mode, backend, options):
    """Checks PyTorch's choices for the compiler; returns the one option that there is."""
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"compile: unknown mode {mode!r}; it is one of {', '.join(_MODES)}")
    if mode is not None and options is not None:
        raise RuntimeError("compile: either mode or options can be given, not both")
    if backend is not None and backend not in _BACKENDS:
        warnings.warn(f"compile: there is one compiler; backend {backend!r} has no effect", stacklevel=3)
    options = dict(options or {})
    wide = bool(options.pop("wide", False))
    if options:
        warnings.warn(f"compile: the only option is 'wide'; {', '.join(map(repr, options))} has no effect", stacklevel=3)
    return wide


@_public
def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, disable=False,
            replay=False, verify=0):
    """Fuses the kernels of a function or module; the function itself runs at every call, as always.

    Python code, branches, attributes and captured tensors act as without it, and new shapes compile
    nothing. A module is changed in place, and returned. `fullgraph` raises an error where a group of
    ops cannot be compiled. `disable`, and `backend="eager"`, return the function as it is.

    Of PyTorch's other arguments, `dynamic` has no effect, since sizes are parameters of the kernels; `mode` is
    checked and has no effect, since there is nothing to choose between; another `backend` has none, with a warning.
    `options` may hold "wide": whether 16-bit floats that stay within a kernel are kept in float32, as in
    torch.compile; it is False, so that each op rounds as in eager execution. Other options have no effect, with a
    warning.

    With `replay`, the body runs until two calls of one signature have done the same; then calls of that signature
    run the recorded kernels alone, and Python code in the body does not run again, but for the steps of optimizers.
    The body may run backward and step optimizers; its results do not require gradients. The signature is made of the
    layouts of the tensors among the arguments, the values of all other arguments, and the modes of the thread. `verify=n` runs the body at every n-th call all the same, and raises an error if it did something
    else. The compiled function has `replayed()`, the number of calls that skipped the body, and `describe()`, which
    says why others did not.

    >>> f = tensora.compile(lambda x: (x * 2 + 1).relu())
    >>> f(tensora.tensor([-1., 1.]))
    tensor([0., 3.])
    """
    from . import nn
    from ._modes import lazy
    if model is None:
        return lambda function: compile(function, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                        options=options, disable=disable, replay=replay, verify=verify)
    wide = _wide_option(mode, backend, options)
    if disable or backend == "eager":
        return model
    if verify and not replay:
        raise ValueError("compile: verify checks replayed calls, and replay is off")
    name = getattr(model, "__name__", type(model).__name__)
    if replay:
        from ._replay import replayed
        wrap = lambda function: replayed(function, name, bool(fullgraph), verify, wide)
    else:
        wrap = lazy(name=name, strict=bool(fullgraph), wide=wide)
    if isinstance(model, nn.Module):
        if not hasattr(model.forward, "_deferred"):
            model.forward = wrap(model.forward)
            model.forward._deferred = True
        return model
    return wrap(model)


@_public
def explain(function, *args, **kwargs):
    """Calls a function in a lazy scope and says which kernels it took, and why others were not fused."""
    from ._modes import lazy
    report = _C._JitReport()
    with lazy(name=getattr(function, "__name__", type(function).__name__), report=report):
        result = function(*args, **kwargs)  # held: what nobody can see is not computed
    del result
    return report.summary(getattr(function, "__name__", type(function).__name__))


@_public
def jit_stats():
    """What lazy scopes and compiled functions did so far: tapes, plans, ops, launches, bytes."""
    return _C._jit_stats()
