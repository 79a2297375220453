"""Sparse matrices and tensors in COO and CSR form: indices and values, over the dense ops.

An op that is not listed here refuses a sparse tensor by name; `to_dense()` gives it one that it takes.

>>> a = tensora.sparse_coo_tensor([[0, 1], [2, 0]], [3., 4.], (2, 3))
>>> tensora.sparse.mm(a, tensora.ones(3, 1))
tensor([[3.],
        [4.]])
"""
import math

from . import _C, overrides
from ._C import Tensor
from ._dtypes import result_type

_IMPLEMENTED = {}


def _implements(*names):
    def register(function):
        for name in names:
            _IMPLEMENTED[name] = function
        return function
    return register


class Layout:
    """The layout of a sparse tensor."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"


sparse_coo, sparse_csr = Layout("sparse_coo"), Layout("sparse_csr")


class Sparse(Tensor):
    """A sparse tensor: `_indices()` has a row for each sparse dim, `_values()` an entry for each column of it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        operator = name.startswith("__") and name.endswith("__")
        in_place = name.startswith("__i") and name != "__invert__" if operator else name.endswith("_")
        name = name.strip("_")
        name = name[1:] if operator and in_place else name
        implementation = _IMPLEMENTED.get(name)
        if implementation is None:
            raise NotImplementedError(f"{name}: sparse tensors are not supported by this op; call to_dense() first")
        result = implementation(*args, **(kwargs or {}))
        return _written(name, args[0], result) if in_place else result

    _layout, _begins = sparse_coo, None
    _places = property(lambda self: _C._sparse_parts(self)[0])
    _entries = property(lambda self: _C._sparse_parts(self)[1])
    _unique = property(lambda self: _C._sparse_parts(self)[2])
    is_sparse = property(lambda self: self._layout is sparse_coo)
    is_sparse_csr = property(lambda self: self._layout is sparse_csr)
    layout = property(lambda self: self._layout)
    data = property(lambda self: self.detach())
    requires_grad = property(lambda self: self._entries.requires_grad,
                             lambda self, value: self._entries.requires_grad_(value))
    grad_fn = property(lambda self: self._entries.grad_fn)
    is_leaf = property(lambda self: self._entries.is_leaf)
    T = property(lambda self: self.t())

    def requires_grad_(self, requires_grad=True):
        self._entries.requires_grad_(requires_grad)
        return self

    @property
    def grad(self):
        """A dense gradient of the values, as a sparse tensor of the same places."""
        gradient = self._entries.grad
        if gradient is None or self._unique:
            return None if gradient is None else _made(self._places, gradient, self.shape, True, self._layout)
        # Entries of one place have one gradient: that of their sum.
        places, first = _distinct(self._places, self.shape[:self.sparse_dim()])
        return _made(places, _C.zeros((places.shape[1], *gradient.shape[1:]), dtype=gradient.dtype,
                                      device=gradient.device).index_copy(0, first, gradient), self.shape, True, self._layout)

    # ---- parts ----

    def _indices(self):
        return self._places

    def _values(self):
        return self._entries

    def _nnz(self):
        return self._entries.shape[0]

    def sparse_dim(self):
        return self._places.shape[0]

    def dense_dim(self):
        return self._entries.dim() - 1

    def is_coalesced(self):
        return self._unique

    def indices(self):
        self._check_coalesced("indices")
        return self._places

    def values(self):
        if self._layout is sparse_coo:
            self._check_coalesced("values")
        return self._entries

    def _rows_ascend(self):
        return self._unique or self._layout is sparse_csr

    def _row_begins(self):
        """Where each row begins among the entries, which are sorted by row; kept, for products need it each time."""
        if self._begins is None:
            rows = self._places[0].contiguous()
            self._begins = _C.searchsorted(rows, _C.arange(self.shape[0] + 1, device=rows.device))
        return self._begins

    def _check_coalesced(self, name):
        if not self._unique:
            raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")

    def crow_indices(self):
        """Where each row begins among the values."""
        if self._layout is not sparse_csr:
            raise RuntimeError("crow_indices expected sparse row compressed tensor layout but got SparseCOO")
        return self._row_begins()

    def col_indices(self):
        if self._layout is not sparse_csr:
            raise RuntimeError("col_indices expected sparse row compressed tensor layout but got SparseCOO")
        return self._places[1]

    # ---- conversions ----

    def coalesce(self):
        """Entries sorted by place, one for each: those of one place are added."""
        if self._unique:
            return self
        sizes = self.shape[:self.sparse_dim()]
        places, inverse = _distinct(self._places, sizes)
        return _made(places, _sums(self._entries, inverse, places.shape[1]), self.shape, True, self._layout)

    def to_dense(self, dtype=None, *, masked_grad=None):
        """The dense tensor."""
        if masked_grad:
            raise NotImplementedError("to_dense: masked_grad=True is not supported")
        sizes = self.shape[:self.sparse_dim()]
        dense = _sums(self._entries, _flat(self._places, sizes), math.prod(sizes)).reshape(self.shape)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, *args, layout=None, **options):
        if options or args:
            raise NotImplementedError("to_sparse: a sparse tensor is converted to sparse_coo or sparse_csr only")
        if layout is sparse_csr:
            return self.to_sparse_csr()
        return _made(self._places, self._entries, self.shape, self._unique, sparse_coo)

    def to_sparse_csr(self, dense_dim=None):
        if dense_dim or self.dim() != 2 or self.dense_dim():
            raise NotImplementedError("to_sparse_csr: expected a matrix of two sparse dims")
        whole = self.coalesce()
        return _made(whole._places, whole._entries, self.shape, True, sparse_csr)

    def to(self, *args, **kwargs):
        values = self._entries.to(*args, **kwargs)
        return _made(self._places.to(values.device), values, self.shape, self._unique, self._layout)

    def float(self):
        return self.to(_C.float32)

    def double(self):
        return self.to(_C.float64)

    def half(self):
        return self.to(_C.float16)

    def bfloat16(self):
        return self.to(_C.bfloat16)

    def long(self):
        return self.to(_C.int64)

    def cpu(self):
        return self.to("cpu")

    def cuda(self, device=None):
        return self.to("cuda" if device is None else device)

    def detach(self):
        return _made(self._places, self._entries.detach(), self.shape, self._unique, self._layout)

    def clone(self):
        return _made(self._places.clone(), self._entries.clone(), self.shape, self._unique, self._layout)

    def __reduce_ex__(self, protocol):
        return _made, (self._places, self._entries, tuple(self.shape), self._unique, self._layout is sparse_csr)

    def __deepcopy__(self, memo):
        return self.detach().clone().requires_grad_(self.requires_grad)

    def __repr__(self):
        return (f"tensor(indices={self._places!r},\n       values={self._entries!r},\n       size={tuple(self.shape)}, "
                f"nnz={self._nnz()}, layout={self._layout!r})")


class check_sparse_tensor_invariants:
    """Whether indices are compared with sizes when sparse tensors are made: always, unless a call says otherwise. Scopes and
    switches have no effect."""

    def __init__(self, enable=True):
        self.enabled = enable  # what was asked for

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def __call__(self, function):
        return function

    @staticmethod
    def is_enabled():
        """True."""
        return True

    @staticmethod
    def enable():
        """They are compared already."""

    @staticmethod
    def disable():
        """Has no effect: the checks find what would be undefined."""


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix with the rows of `diagonals` along its diagonals `offsets`; element j of a row is in column j.

    >>> tensora.sparse.spdiags(tensora.ones(1, 2), tensora.tensor([1]), (2, 2)).to_dense()
    tensor([[0., 1.],
            [0., 0.]])
    """
    rows, columns = (int(size) for size in shape)
    diagonals = diagonals if diagonals.dim() > 1 else diagonals.unsqueeze(0)
    offsets = offsets.reshape(-1)
    if offsets.numel() != diagonals.shape[0]:
        raise RuntimeError(f"spdiags: Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets "
                           f"({offsets.numel()})")
    if len(set(offsets.tolist())) != offsets.numel():
        raise RuntimeError("spdiags: Offset tensor contains duplicate values")
    width = min(diagonals.shape[1], columns)
    column = _C.arange(width).expand(diagonals.shape[0], width)
    row = column - offsets.unsqueeze(1)
    there = ((row >= 0) & (row < rows)).reshape(-1).nonzero().flatten()
    places = _C.stack([row.reshape(-1)[there], column.reshape(-1)[there]])
    made = _made(places, diagonals[:, :width].reshape(-1)[there], (rows, columns), False, sparse_coo).coalesce()
    return made.to_sparse_csr() if layout is sparse_csr else made


def _made(places, values, shape, unique, layout):
    if isinstance(layout, bool):
        layout = sparse_csr if layout else sparse_coo
    made = _C._make_sparse(places, values, tuple(shape), unique)
    if layout is not sparse_coo:
        made._layout = layout
    return made


def _written(name, target, result):
    """The first argument of an in-place op, with the result."""
    if not isinstance(target, Sparse):
        return target.copy_(result.to_dense() if isinstance(result, Sparse) else result)
    if not isinstance(result, Sparse) or result.dtype is not target.dtype or result.shape != target.shape:
        raise RuntimeError(f"{name}_: the result, of shape {tuple(result.shape)} and {result.dtype}, cannot be written into a "
                           f"sparse tensor of shape {tuple(target.shape)} and {target.dtype}")
    if target.is_leaf and target.requires_grad and _C.is_grad_enabled():
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    _C._set_sparse_parts(target, *_C._sparse_parts(result))
    if target._begins is not None:
        target._begins = None
    return target


def _with(tensor, values):
    made = _made(tensor._places, values, tensor.shape, tensor._unique, tensor._layout)
    if tensor._begins is not None:
        made._begins = tensor._begins
    return made


def _flat(places, sizes):
    """Positions in row-major order of the first `sizes`; in a dim of size 1 each place counts as 0, as in broadcasting."""
    index = _C.zeros(places.shape[1], dtype=_C.int64, device=places.device)
    for row, size in zip(places, sizes):
        index = index if size == 1 else index * size + row
    return index


def _sums(values, positions, count):
    """The sums of the values that have each of the positions 0 to `count`; half types are summed in float32."""
    wide = values.float() if values.dtype in (_C.float16, _C.bfloat16) else values
    made = _C.zeros((count, *values.shape[1:]), dtype=wide.dtype, device=values.device).index_add(0, positions, wide)
    return made.to(values.dtype)


def _unflat(index, sizes):
    rows = []
    for size in reversed(sizes):
        rows.insert(0, index % size)
        index = index // size
    return _C.stack(rows)


def _distinct(places, sizes):
    """Each place once, in order, and for each entry the number of its place."""
    flat, inverse = _C.unique(_flat(places, sizes), True, True, False, None)[:2]
    return _unflat(flat, sizes), inverse


# ---- ops -----------------------------------------------------------------------------------------------

_UNARY = """abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac log1p neg negative rad2deg relu round sgn sign
sin sinh sqrt square tan tanh trunc isnan isinf nan_to_num""".split()


def _unary(name):
    function = getattr(_C, name)

    @_implements(name)
    def apply(input, *args, **kwargs):
        whole = input.coalesce()
        return _with(whole, function(whole._entries, *args, **kwargs))


for _name in _UNARY:
    _unary(_name)


@_implements("t", "transpose", "swapaxes")
def _transposed(input, dim0=0, dim1=1):
    if input.sparse_dim() < 2:
        return input
    if input._layout is sparse_csr and dim0 % 2 != dim1 % 2:
        begins, rows, order = _C.csr_transpose(input._row_begins(), input._places[1], input.shape[1])
        columns = input._places[1][order]
        made = _made(_C.stack([columns, rows]), input._entries[order], input.shape[::-1], input._unique, sparse_csr)
        made._begins = begins
        return made
    order = list(range(input.sparse_dim()))
    dim0, dim1 = dim0 % input.dim(), dim1 % input.dim()
    if max(dim0, dim1) >= len(order):
        raise NotImplementedError("transpose: dense dims of a sparse tensor cannot be transposed")
    order[dim0], order[dim1] = order[dim1], order[dim0]
    shape = list(input.shape)
    shape[dim0], shape[dim1] = shape[dim1], shape[dim0]
    made = _made(input._places[order], input._entries, shape, False, sparse_coo)
    return _with(input, input._entries) if input._layout is sparse_csr else made.coalesce() if input._unique else made


@_implements("sum")
def sum(input, dim=None, keepdim=False, dtype=None):  # noqa: A001 - PyTorch's name
    """The sum of all elements, or over dims: sparse if a sparse dim is left, else dense."""
    values = input._entries if dtype is None else input._entries.to(dtype)
    if dim is None:
        return values.sum()
    dims = sorted(d % input.dim() for d in ([dim] if isinstance(dim, int) else dim))
    kept = [d for d in range(input.sparse_dim()) if d not in dims]
    if keepdim or dims[-1] >= input.sparse_dim():
        raise NotImplementedError("sparse.sum: expected sparse dims, without keepdim")
    if not kept:
        return values.sum(0)
    shape = [size for d, size in enumerate(input.shape) if d not in dims]
    return _made(input._places[kept], values, shape, False, sparse_coo).coalesce()


@_implements("mul", "multiply", "rmul")
def _times(input, other):
    if not isinstance(input, Sparse):
        input, other = other, input
    if isinstance(other, Sparse):
        return _times_sparse(input.coalesce(), other.coalesce())
    if isinstance(other, Tensor) and other.dim() > 0:
        return _with(input, input._entries * _at_places(other, input))
    return _with(input, input._entries * other)


def _at_places(dense, input):
    """A dense tensor that broadcasts to the shape of a sparse one, at its places."""
    trailing = input.shape[input.dim() - dense.dim():]
    if dense.dim() > input.dim() or any(size not in (1, whole) for size, whole in zip(dense.shape, trailing)):
        raise RuntimeError(f"a dense tensor of shape {tuple(dense.shape)} does not broadcast to the sparse tensor's shape "
                           f"{tuple(input.shape)}")
    dense, count = dense.reshape((1,) * (input.dim() - dense.dim()) + tuple(dense.shape)), input.sparse_dim()
    rows = dense.reshape((math.prod(dense.shape[:count]),) + tuple(dense.shape[count:]))
    return rows.index_select(0, _flat(input._places, dense.shape[:count]))


def _times_sparse(a, b):
    """The entries that both have."""
    if a.shape != b.shape or a.sparse_dim() != b.sparse_dim():
        raise RuntimeError(f"mul: expected sizes of 'self' and 'other' to match, but {a.shape} != {b.shape}")
    if b._nnz():
        there, wanted = (_flat(x._places, x.shape) for x in (b, a))
        found = _C.searchsorted(there, wanted).clamp_max(b._nnz() - 1)
        shared = (there[found] == wanted).nonzero().flatten()
        values = a._entries[shared] * b._entries[found[shared]]
    else:
        shared = _C.zeros(0, dtype=_C.int64, device=a.device)
        values = a._entries[:0] * b._entries
    made = _made(a._places[:, shared], values, a.shape, True, sparse_coo)
    return made.to_sparse_csr() if a._layout is sparse_csr else made


@_implements("div", "truediv", "true_divide")
def _divided(input, other, *, rounding_mode=None):
    if rounding_mode is not None:
        whole = input.coalesce()
        return _with(whole, _C.div(whole._entries, other, rounding_mode=rounding_mode))
    if not isinstance(input, Sparse) or isinstance(other, Sparse):
        raise NotImplementedError("div: a sparse tensor can be divided by a number or a dense tensor")
    if isinstance(other, Tensor) and other.dim() > 0:
        return _with(input, input._entries / _at_places(other, input))
    return _with(input.coalesce(), input.coalesce()._entries / other)


def _added_to_dense(dense, sparse, alpha):
    count, dtype = sparse.sparse_dim(), result_type(dense, sparse._entries)
    flat = dense.to(dtype).expand(sparse.shape).reshape((math.prod(sparse.shape[:count]),) + tuple(sparse.shape[count:]))
    return flat.index_add(0, _flat(sparse._places, sparse.shape), sparse._entries.to(dtype), alpha=alpha).reshape(sparse.shape)


@_implements("add", "radd")
def _added(input, other, *, alpha=1):
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        raise NotImplementedError("add: a number cannot be added to a sparse tensor; call to_dense() first")
    if not isinstance(input, Sparse):
        return _added_to_dense(input, other, alpha)
    if not isinstance(other, Sparse):
        return _added_to_dense(other if alpha == 1 else other * alpha, input, 1)
    if input.shape != other.shape:
        raise RuntimeError(f"add: expected sizes of 'self' and 'other' to match, but {input.shape} != {other.shape}")
    dtype = result_type(input._entries, other._entries)
    made = _made(_C.cat([input._places, other._places], 1),
                 _C.cat([input._entries.to(dtype), alpha * other._entries.to(dtype)]), input.shape, False, sparse_coo)
    return made.to_sparse_csr() if input._layout is sparse_csr else made.coalesce()


@_implements("sub", "subtract")
def _subtracted(input, other, *, alpha=1):
    return _added(input, other, alpha=-alpha)


_implements("rsub")(lambda input, other: _subtracted(other, input))


@_implements("pow")
def _power(input, exponent):
    whole = input.coalesce()
    return _with(whole, whole._entries ** exponent)


@_implements("zero", "zeros_like")
def _zeroed(input):
    places = _C.zeros((input.sparse_dim(), 0), dtype=_C.int64, device=input.device)
    return _made(places, input._entries.detach()[:0], input.shape, True, input._layout)


def _constructor(dtype):
    def make(indices=None, values=None, size=None):
        return sparse_coo_tensor(indices, values, size, dtype=dtype)
    return staticmethod(make)


overrides._register(Sparse)
_C._set_sparse_type(Sparse)
from . import _sparse_shapes  # noqa: E402,F401 - its ops are those of Sparse
from ._sparse_creation import sparse_coo_tensor, sparse_csr_tensor, to_sparse  # noqa: E402
from ._sparse_products import addmm, log_softmax, mm, sampled_addmm, smm, softmax, spmm  # noqa: E402,F401
for _kind, _dtype in (("FloatTensor", _C.float32), ("DoubleTensor", _C.float64), ("LongTensor", _C.int64),
                      ("IntTensor", _C.int32), ("HalfTensor", _C.float16)):
    globals()[_kind] = _constructor(_dtype).__func__
