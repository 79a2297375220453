"""Ops of sparse tensors that move, select and join entries, and compute none."""
from . import _C
from ._C import Tensor
from .sparse import Sparse, _flat, _implements, _made, _with, sparse_coo


def _moved(tensor, places, shape, kept=None, unique=False):
    """A COO tensor of entries of another one at other places; coalesced as that one was."""
    values = tensor._entries if kept is None else tensor._entries[kept]
    made = _made(places, values, tuple(shape), unique, sparse_coo)
    return made.coalesce() if tensor._unique else made


def _sparse_dim(name, tensor, dim):
    if not -tensor.dim() <= dim < tensor.dim():
        raise IndexError(f"{name}: Dimension out of range (expected to be in range of [{-tensor.dim()}, {tensor.dim() - 1}], but "
                         f"got {dim})")
    if dim % tensor.dim() >= tensor.sparse_dim():
        raise NotImplementedError(f"{name}: dense dims of a sparse tensor are not supported; call to_dense() first")
    return dim % tensor.dim()


@_implements("permute")
def _permuted(input, *dims):
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order, count = [d % input.dim() for d in dims], input.sparse_dim()
    if sorted(order) != list(range(input.dim())) or any(order[d] != d for d in range(count, input.dim())):
        raise NotImplementedError(f"permute: expected an order of the {count} sparse dims, got {tuple(dims)}")
    return _moved(input, input._places[order[:count]], [input.shape[d] for d in order])


@_implements("unsqueeze")
def _unsqueezed(input, dim):
    at = dim + input.dim() + 1 if dim < 0 else dim
    if not 0 <= at <= input.sparse_dim():
        raise NotImplementedError(f"unsqueeze: expected a dim up to {input.sparse_dim()}, the number of sparse dims, got {dim}")
    row = _C.zeros((1, input._nnz()), dtype=_C.int64, device=input.device)
    shape = list(input.shape)
    return _made(_C.cat([input._places[:at], row, input._places[at:]]), input._entries, (*shape[:at], 1, *shape[at:]),
                 input._unique, sparse_coo)


@_implements("cat", "concat", "concatenate")
def _joined(tensors, dim=0):
    if not all(isinstance(t, Sparse) for t in tensors):
        raise NotImplementedError("cat: sparse and dense tensors cannot be joined; call to_dense() first")
    first = tensors[0]
    dim, places, size = _sparse_dim("cat", first, dim), [], 0
    for tensor in tensors:
        rest = [(a, b) for d, (a, b) in enumerate(zip(tensor.shape, first.shape)) if d != dim]
        if tensor.dim() != first.dim() or any(a != b for a, b in rest):
            raise RuntimeError(f"cat: sizes must match except in dimension {dim}, got {tuple(first.shape)} and "
                               f"{tuple(tensor.shape)}")
        moved = tensor._places.clone()
        moved[dim] += size
        places.append(moved)
        size += tensor.shape[dim]
    shape = list(first.shape)
    shape[dim] = size
    made = _made(_C.cat(places, 1), _C.cat([t._entries for t in tensors]), shape, False, sparse_coo)
    return made.coalesce() if all(t._unique for t in tensors) else made


@_implements("stack")
def _stacked(tensors, dim=0):
    return _joined([_unsqueezed(t, dim) for t in tensors], dim)


@_implements("select")
def _chosen(input, dim, index):
    dim = _sparse_dim("select", input, dim)
    if not -input.shape[dim] <= index < input.shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {tuple(input.shape)} at dimension {dim}")
    kept = (input._places[dim] == index % input.shape[dim]).nonzero().flatten()
    others = [d for d in range(input.sparse_dim()) if d != dim]
    if not others:
        return input._entries[kept].sum(0)
    return _moved(input, input._places[others][:, kept], [s for d, s in enumerate(input.shape) if d != dim], kept)


@_implements("getitem")
def _indexed(input, index):
    result, dim = input, 0
    for entry in index if isinstance(index, tuple) else (index,):
        if isinstance(entry, int) and not isinstance(entry, bool):
            result = _chosen(result, dim, entry) if isinstance(result, Sparse) else result[entry]
        elif isinstance(entry, slice) and entry == slice(None):
            dim += 1
        else:
            raise NotImplementedError("getitem: a sparse tensor takes numbers and `:`; call to_dense() first")
    return result


@_implements("index_select")
def _selected(input, dim, index):
    dim = _sparse_dim("index_select", input, dim)
    equal = input._places[dim].unsqueeze(0) == index.to(_C.int64).unsqueeze(1)
    row, kept = equal.nonzero().unbind(1)
    places, shape = input._places[:, kept].clone(), list(input.shape)
    places[dim] = row
    shape[dim] = index.numel()
    return _moved(input, places, shape, kept)


@_implements("zeros_like", "empty_like")
def _nothing_like(input, **options):
    places = _C.zeros((input.sparse_dim(), 0), dtype=_C.int64, device=input.device)
    values = _C.zeros((0, *input._entries.shape[1:]), dtype=options.get("dtype") or input.dtype, device=input.device)
    return _made(places, values, tuple(input.shape), True, input._layout)


@_implements("norm")
def _norm(input, p="fro", dim=(), keepdim=False, dtype=None, *, out=None):
    if dim not in (None, ()) or keepdim or out is not None:
        raise NotImplementedError("norm: of all elements of a sparse tensor only")
    return _C.norm(input.coalesce()._entries, 2 if p in ("fro", None) else p, **({} if dtype is None else {"dtype": dtype}))


@_implements("is_same_size")
def _is_same_size(input, other):
    return input.shape == other.shape


@_implements("copy")
def _copied(input, src, non_blocking=False):
    if not isinstance(input, Sparse) or not isinstance(src, Sparse):
        raise NotImplementedError("copy_: both tensors must be sparse, or none")
    return _with(src, src._entries.to(input.dtype))


def narrow_copy(self, dim, start, length):
    """A copy of the part that begins at `start` of `dim`."""
    dim = _sparse_dim("narrow_copy", self, dim)
    if not 0 <= start <= start + length <= self.shape[dim]:
        raise RuntimeError(f"narrow_copy: start {start} and length {length} exceed dimension size {self.shape[dim]}")
    row = self._places[dim]
    kept = ((row >= start) & (row < start + length)).nonzero().flatten()
    places, shape = self._places[:, kept].clone(), list(self.shape)
    places[dim] -= start
    shape[dim] = length
    return _moved(self, places, shape, kept)


def sparse_mask(self, mask):
    """The elements at the places of a sparse tensor, as a sparse tensor."""
    if self.shape != mask.shape:
        raise RuntimeError(f"sparse_mask: operands have incompatible sizes; self has size {tuple(self.shape)} but mask has size "
                           f"{tuple(mask.shape)}")
    if not isinstance(self, Sparse):
        return _with(mask, self[tuple(mask._places)])
    own, sizes = self.coalesce(), self.shape[:self.sparse_dim()]
    at = _flat(own._places, sizes)
    wanted = _flat(mask._places, sizes)
    found = _C.searchsorted(at, wanted).clamp_max(max(own._nnz() - 1, 0))
    there = at[found] == wanted if own._nnz() else _C.zeros_like(wanted).bool()
    values = own._entries[found] if own._nnz() else _C.zeros((wanted.numel(), *own._entries.shape[1:]), dtype=self.dtype)
    shape = (-1,) + (1,) * (values.dim() - 1)
    return _with(mask, _C.where(there.reshape(shape), values, 0))


Sparse.narrow_copy = narrow_copy
