"""The methods of Tensor that are written in Python: conversions, copies, protocols."""
import copy as _copy
import weakref as _weakref

from . import _C
from ._C import Tensor
from ._dtypes import integers as _integers


def _method(function):
    setattr(Tensor, function.__name__, function)
    return function


# ---- subclasses and other classes with __torch_function__; see tensora/overrides.py ----------------

def _dispatch(*call):
    from . import overrides
    return overrides._dispatch(*call)


_C._set_override_handler(_dispatch)


def _is_overridden(*values):
    """Whether one of the arguments of a method that is written in Python may have a __torch_function__."""
    if all(type(value) is Tensor for value in values):
        return False
    from . import overrides
    return overrides.has_torch_function(values)


def _overridden(method, relevant, *args):
    from . import overrides
    return overrides.handle_torch_function(method, relevant, *args)


def _disabled_torch_function_impl(func, types, args=(), kwargs=None):
    """The __torch_function__ of subclasses that are tensors like all others: parameters."""
    return func(*args, **(kwargs or {}))


_C._disabled_torch_function_impl = _disabled_torch_function_impl


def _subclassed(cls):
    super(Tensor, cls).__init_subclass__()
    if not cls.__module__.startswith("tensora.nn."):
        from . import overrides
        overrides._register(cls)


Tensor.__init_subclass__ = classmethod(_subclassed)


# ---- dtypes and devices -----------------------------------------------------------------------

_CASTS = {"float": _C.float32, "double": _C.float64, "half": _C.float16, "bfloat16": _C.bfloat16,
          "int": _C.int32, "long": _C.int64, "short": _C.int16, "char": _C.int8, "byte": _C.uint8,
          "bool": _C.bool, "cfloat": _C.complex64, "cdouble": _C.complex128}


def _cast(name, dtype):
    def cast(self, memory_format=None):
        return _in_format(_to(self, dtype), memory_format)
    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"The elements as {dtype}."
    return cast


def _in_format(tensor, memory_format):
    if memory_format is None or memory_format is _C.preserve_format:
        return tensor
    return _to(tensor, memory_format)


_to = Tensor.to
for _name, _dtype in _CASTS.items():
    setattr(Tensor, _name, _cast(_name, _dtype))


@_method
def to(self, *args, device=None, dtype=None, non_blocking=False, copy=False, memory_format=None):
    """Another dtype, device or memory format; itself if nothing changes.

    >>> tensora.ones(2).to(tensora.int64)
    tensor([1, 1])
    """
    flags = iter(("non_blocking", "copy"))
    for value in args:
        if isinstance(value, _C.dtype) or value in (float, int, bool, complex):
            dtype = value
        elif isinstance(value, Tensor):
            dtype, device = value.dtype, value.device
        elif isinstance(value, bool):
            flag = next(flags, None)
            if flag is None:
                raise TypeError("to() takes at most two flags, non_blocking and copy")
            non_blocking, copy = (value, copy) if flag == "non_blocking" else (non_blocking, value)
        elif value is not None:
            device = value
    result = self
    if non_blocking and device is not None and _C.device(device).type == "cuda" and _can_copy_async(self):
        result = _C.empty(self.shape, dtype=self.dtype, device=device)
        _C._copy_async(result, self)
    elif device is not None:
        result = _to(result, _C.device(device) if not isinstance(device, _C.device) else device)
    if dtype is not None:
        result = _to(result, dtype)
    result = _in_format(result, memory_format)
    return result.clone() if copy and result is self else result


def _can_copy_async(tensor):
    return tensor.is_pinned() and tensor.is_contiguous() and not tensor.requires_grad


_copy_into = Tensor.copy_


@_method
def copy_(self, src, non_blocking=False):
    """Writes the elements of `src`, broadcast and converted, into this tensor.

    With non_blocking=True, copies from page-locked memory to a GPU run beside the host.
    """
    if (non_blocking and self.is_cuda and _can_copy_async(src) and self.is_contiguous()
            and not self.requires_grad and src.dtype is self.dtype and src.shape == self.shape):
        _C._copy_async(self, src)
        return self
    if not isinstance(src, Tensor):
        src = _C.tensor(src, dtype=None if isinstance(src, (bool, complex)) else self.dtype, device=self.device)
    return _copy_into(self, src)


@_method
def cpu(self, memory_format=None):
    """The same tensor on the host."""
    return _in_format(_to(self, _C.device("cpu")), memory_format)


@_method
def cuda(self, device=None, non_blocking=False, memory_format=None):
    """The same tensor on a GPU."""
    device = "cuda" if device is None else device
    return to(self, _C.device("cuda", device) if isinstance(device, int) else device, non_blocking=non_blocking,
              memory_format=memory_format)


def _type(self, dtype=None, non_blocking=False):
    """The name of the type, or the elements as another."""
    if dtype is None:
        names = {_C.float32: "Float", _C.float64: "Double", _C.float16: "Half", _C.bfloat16: "BFloat16",
                 _C.int64: "Long", _C.int32: "Int", _C.int16: "Short", _C.int8: "Char", _C.uint8: "Byte",
                 _C.bool: "Bool", _C.complex64: "ComplexFloat", _C.complex128: "ComplexDouble", _C.uint16: "UInt16", _C.uint32: "UInt32", _C.uint64: "UInt64"}
        return f"torch.{'cuda.' if self.is_cuda else ''}{names.get(self.dtype, str(self.dtype))}Tensor"
    if isinstance(dtype, str):
        short = dtype.rsplit(".", 1)[-1].removesuffix("Tensor").lower()
        dtype = _CASTS[short]
    return _to(self, getattr(dtype, "dtype", dtype))


Tensor.type = _type


@_method
def get_device(self):
    """The number of the GPU; -1 on the host."""
    return self.device.index if self.is_cuda else -1


# ---- autograd -----------------------------------------------------------------------------------

@_method
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Fills .grad of the leaves this tensor was computed from.

    >>> x = tensora.tensor(3., requires_grad=True)
    >>> (x ** 2).backward()
    >>> x.grad
    tensor(6.)
    """
    if inputs is None:
        return self._backward(gradient, retain_graph, create_graph)
    from . import autograd
    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


Tensor.is_sparse = Tensor.is_sparse_csr = Tensor.is_nested = Tensor.is_mkldnn = False
Tensor.is_xpu = Tensor.is_mps = False
Tensor.layout = _C.strided
Tensor.names = property(lambda self: (None,) * self.ndim)


# ---- other libraries ------------------------------------------------------------------------------

@_method
def numpy(self, *, force=False):
    """A NumPy array over the same memory.

    >>> tensora.ones(2).numpy()
    array([1., 1.], dtype=float32)
    """
    import numpy
    tensor = self.detach().cpu() if force else self if _C.is_grad_enabled() else self.detach()
    if tensor.requires_grad:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. "
                           "Use tensor.detach().numpy() instead.")
    if not tensor.is_cpu:
        raise TypeError(f"can't convert {tensor.device} device type tensor to numpy. "
                        "Use Tensor.cpu() to copy the tensor to host memory first.")
    if tensor.dtype in (_C.bfloat16, _C.float8_e4m3fn, _C.float8_e5m2) or tensor.is_quantized:
        raise TypeError(f"Got unsupported ScalarType {tensor.dtype}: NumPy has no such type")
    return numpy.asarray(memoryview(tensor))


@_method
def __array__(self, dtype=None, copy=None):
    array = numpy(self)
    if dtype is not None:
        array = array.astype(dtype, copy=False)
    return array.copy() if copy else array


Tensor.__array_priority__ = 1000


@_method
def __array_wrap__(self, array, context=None, return_scalar=False):
    """A tensor over what a NumPy function made of tensors."""
    import numpy
    return _C._share(numpy.asarray(array))


def _with_history(ufunc, inputs, out, options):
    """An operator between a NumPy number or array and a tensor that needs a gradient, as an op of ours."""
    import numpy
    import operator
    known = {numpy.add: operator.add, numpy.subtract: operator.sub, numpy.multiply: operator.mul,
             numpy.true_divide: operator.truediv, numpy.floor_divide: operator.floordiv, numpy.power: operator.pow,
             numpy.remainder: operator.mod, numpy.matmul: operator.matmul}
    if ufunc not in known or out is not None or options:
        raise RuntimeError(f"Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead "
                           f"(numpy.{ufunc.__name__} has no gradient).")
    first, second = (value.item() if isinstance(value, numpy.generic) else
                     _C.tensor(value) if isinstance(value, numpy.ndarray) else value for value in inputs)
    return known[ufunc](first, second)


@_method
def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
    """NumPy's functions of tensors, and operators between arrays and tensors, give tensors."""
    import numpy

    if method == "__call__" and _C.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        return _with_history(ufunc, inputs, out, options)

    def plain(value):
        if isinstance(value, Tensor):
            return value.numpy()
        return value.item() if isinstance(value, numpy.generic) else value  # a number, which yields in promotion
    if out is not None:
        options["out"] = tuple(plain(value) for value in out)
    result = getattr(ufunc, method)(*(plain(value) for value in inputs), **options)
    if out is not None:
        return out[0] if len(out) == 1 else out
    if isinstance(result, tuple):
        return tuple(self.__array_wrap__(part) for part in result)
    return None if result is None else self.__array_wrap__(result)


@_method
def __array_namespace__(self, *, api_version=None):
    from . import array_api
    return array_api


@_method
def to_device(self, device, /, *, stream=None):
    """The array API's name of `to`."""
    return to(self, device)


@_method
def __reduce_ex__(self, protocol):
    if type(self) is not Tensor and type(self).__reduce_ex__ is not Tensor.__reduce_ex__:
        return object.__reduce_ex__(self, protocol)
    if self.is_cpu and not self.is_quantized and self.numel() > 0:
        return _rebuild_view, (type(self), _stored(self), self.dtype, tuple(self.shape), self.stride(),
                               self.storage_offset(), self.requires_grad, dict(self.__dict__))
    return _rebuild, (type(self), _content(self), self.dtype, tuple(self.shape), str(self.device),
                      self.requires_grad, dict(self.__dict__))


class _Stored:
    """The memory of a storage while it is pickled: one object for all tensors on it, so that it is written once."""

    def __init__(self, tensor):
        self._bytes = _C._storage_bytes(tensor)

    def __reduce__(self):
        return _restored, (bytes(memoryview(self._bytes)),)


_being_pickled = _weakref.WeakValueDictionary()  # by the address of the memory


def _stored(tensor):
    address = _C._storage_address(tensor)
    stored = _being_pickled.get(address)
    if stored is None:
        stored = _being_pickled[address] = _Stored(tensor)
    return stored


def _restored(content):
    return _C._share(bytearray(memoryview(content)))  # of a number, bytearray would make as many bytes


def _rebuild_view(cls, storage, dtype, shape, strides, offset, requires_grad, attributes):
    return _as_class(cls, _C._on_storage(storage, dtype, shape, strides, offset), requires_grad, attributes)


def _as_class(cls, tensor, requires_grad, attributes):
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"load: expected a class of tensors, got {cls!r}")
    if cls is not Tensor:
        tensor = Tensor._make_subclass(cls, tensor, requires_grad)
    elif requires_grad:
        tensor.requires_grad_()
    if attributes:
        tensor.__dict__.update(attributes)
    return tensor


def _content(tensor):
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if flat.element_size() > 1 or flat.dtype is _C.bool:
        flat = flat.view_dtype(_C.uint8)
    return bytes(memoryview(flat))


def _rebuild(cls, content, dtype, shape, device, requires_grad, attributes):
    if len(content) == 0:
        if 0 not in shape:
            raise RuntimeError(f"load: a tensor of shape {tuple(shape)} has no content")
        tensor = _C.empty(shape, dtype=dtype)
    else:
        tensor = _C._share(bytearray(memoryview(content))).view_dtype(dtype).reshape(shape)
    return _as_class(cls, _to(tensor, _C.device(device)), requires_grad, attributes)


@_method
def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                           "protocol at the moment.")
    if id(self) in memo:
        return memo[id(self)]
    with_grad = self.requires_grad
    result = _copied(self, memo)
    if type(self) is not Tensor:
        result = Tensor._make_subclass(type(self), result, with_grad)
    elif with_grad:
        result.requires_grad_()
    if self.grad is not None:
        result.grad = _copied(self.grad, memo)
    if self.__dict__:
        result.__dict__.update(_copy.deepcopy(self.__dict__, memo))
    memo[id(self)] = result
    return result


def _copied(tensor, memo):
    """A copy outside of the graph; tensors that share memory have copies that share memory."""
    if tensor.is_quantized or tensor.is_meta or tensor.numel() == 0 or tensor.is_sparse or tensor.is_sparse_csr:
        return tensor.detach().clone()
    key = "storage", str(tensor.device), _C._storage_address(tensor)
    if key not in memo:
        memo[key] = _C._storage_bytes(tensor).clone()
    return _C._on_storage(memo[key], tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())


@_method
def __copy__(self):
    result = self.detach()
    if type(self) is not Tensor:
        result = Tensor._make_subclass(type(self), result, self.requires_grad)
    elif self.requires_grad:
        result.requires_grad_()
    result.__dict__.update(self.__dict__)
    return result


@_method
def __format__(self, spec):
    if self.dim() == 0 and type(self) is Tensor and not self.is_meta:
        return self.item().__format__(spec)
    return object.__format__(self, spec) if not spec else repr(self).__format__(spec)


@_method
def __contains__(self, element):
    if isinstance(element, (Tensor, int, float, complex)):
        return _C.any(self == element).item()
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


@_method
def __reversed__(self):
    return self if self.dim() == 0 else self.flip(0)


@_method
def __complex__(self):
    return complex(self.item())


@_method
def __rsub__(self, other):
    return _C.sub(other if isinstance(other, Tensor) else _C._wrap_number(other), self)


@_method
def __dir__(self):
    return sorted(set(object.__dir__(self)))


@_method
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Becomes a view of the memory of `source`, a tensor or a storage: with the shape of the tensor, or with all elements of
    the storage, if no `size` is given. Without a source it becomes empty.

    >>> x = tensora.arange(6)
    >>> tensora.empty(0, dtype=tensora.int64).set_(x.untyped_storage(), 1, (2, 2), (3, 1))
    tensor([[1, 2],
            [4, 5]])
    """
    if source is None:
        self.data = _C.empty(0, dtype=self.dtype, device=self.device)
        return self
    memory = source if isinstance(source, Tensor) else source._as_bytes()
    if getattr(source, "dtype", self.dtype) is not self.dtype:
        raise RuntimeError(f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}")
    if memory is source and size is None:
        self.data = source.detach()
        return self
    if size is None:
        size = (memory.numel() // self.itemsize - storage_offset,)
    self.data = _C._on_storage(memory, self.dtype, tuple(size), _C.empty(tuple(size), device="meta").stride()
                               if stride is None else tuple(stride), storage_offset)
    return self


@_method
def untyped_storage(self):
    """The storage, as far as programs ask about it: its address, its size and its bytes."""
    from .storage import UntypedStorage
    return UntypedStorage(self)


@_method
def storage(self):
    """The storage as elements of this dtype."""
    from .storage import TypedStorage
    return TypedStorage(self)


@_method
def pin_memory(self, device=None):
    """A copy in page-locked memory, for copies to a GPU beside its work; the tensor itself without a GPU."""
    if not _C._is_available("cuda") or self.is_pinned():
        return self
    return _C._pin(self)


@_method
def is_pinned(self, device=None):
    """Whether it lies in page-locked memory."""
    return self.is_cpu and _C._is_available("cuda") and _C._is_pinned(self)


@_method
def share_memory_(self):
    """Moves the elements into memory that processes share: those that are forked, and those that get the tensor
    through tensora.multiprocessing. Views that were taken before keep the old memory."""
    from . import _shared
    if self.is_cpu and not self.is_shared():
        self.data = _shared.moved(self)
    return self


@_method
def is_shared(self):
    """Whether processes share its memory; that of a GPU always can be."""
    from . import _shared
    return self.is_cuda or _shared.memory_of(self) is not None


@_method
def record_stream(self, stream):
    """Work on `stream` uses the tensor: once freed, its memory is not reused before that work is done."""
    _C._keep_for(self, stream.cuda_stream)


@_method
def map_(self, tensor, callable):
    """Replaces each element by callable(element, element of `tensor`), one by one."""
    return self.map2_(tensor, tensor, lambda a, b, _: callable(a, b))


@_method
def map2_(self, x, y, callable):
    """Replaces each element by callable(element, element of `x`, element of `y`), one by one."""
    columns = (t.expand(self.shape).reshape(-1).tolist() for t in (self.detach(), x, y))
    return self.copy_(_C.tensor([callable(*row) for row in zip(*columns)], dtype=self.dtype).reshape(self.shape))


@_method
def is_set_to(self, tensor):
    """Whether both tensors are the same view of one memory."""
    return (self.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr() and self.shape == tensor.shape
            and self.stride() == tensor.stride() and self.storage_offset() == tensor.storage_offset()
            and (self.numel() > 0 or self is tensor))


@_method
def apply_(self, function):
    """Calls `function` with every element and puts its result there; slow."""
    flat = self.detach().reshape(-1).tolist()
    self.data.copy_(_C.tensor([function(x) for x in flat], dtype=self.dtype).reshape(self.shape))
    return self


@_method
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A tensor of the given data, of this one's dtype and device unless told otherwise."""
    return _C.tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


@_method
def new(self, *args):
    if len(args) == 1 and isinstance(args[0], _C.Size):
        return _C.empty(args[0], dtype=self.dtype, device=self.device)
    if all(isinstance(a, int) for a in args):
        return _C.empty(args or (0,), dtype=self.dtype, device=self.device)
    return _C.tensor(*args, dtype=self.dtype, device=self.device)


@_method
def index_put_(self, indices, values, accumulate=False):
    """Writes `values` to the places that the tensors of indices name; adds them if `accumulate`."""
    if _is_overridden(self, *indices, values):
        return _overridden(index_put_, (self, *indices, values), self, indices, values, accumulate)
    self._index_put_(tuple(indices), values, accumulate)
    return self


@_method
def index_put(self, indices, values, accumulate=False):
    """A copy with `values` at the places that the tensors of indices name."""
    if _is_overridden(self, *indices, values):
        return _overridden(index_put, (self, *indices, values), self, indices, values, accumulate)
    return self.clone().index_put_(indices, values, accumulate)


@_method
def to_dense(self, dtype=None):
    """The tensor itself: it is dense."""
    return self if dtype is None else _to(self, dtype)


@_method
def to_sparse(self, sparse_dim=None, *, layout=None):
    """The elements that are not zero, as a sparse tensor."""
    from . import sparse
    return sparse.to_sparse(self, sparse_dim, layout=layout)


@_method
def sparse_mask(self, mask):
    """The elements at the places of a sparse tensor, as a sparse tensor."""
    from . import sparse
    return sparse._sparse_shapes.sparse_mask(self, mask)


@_method
def to_sparse_csr(self, dense_dim=None):
    """The elements that are not zero, as a sparse matrix by rows."""
    return to_sparse(self).to_sparse_csr(dense_dim)


_random_within = Tensor.random_


@_method
def random_(self, *bounds, generator=None, **named):
    """Overwrites it with integers: below `to`, in [from, to), or all that the dtype represents exactly."""
    bounds = (*bounds, *(named.pop(name) for name in ("from", "low", "to", "high") if name in named))
    if named or len(bounds) > 2:
        raise TypeError(f"random_: expected (), (to) or (from, to), got {bounds} and {sorted(named)}")
    low, high = bounds if len(bounds) == 2 else (0, bounds[0] if bounds else _integers(self.dtype))
    return _random_within(self, low, high, **({} if generator is None else {"generator": generator}))
