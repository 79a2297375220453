"""Sparse tensors from their parts and from dense tensors, with PyTorch's checks."""
from . import _C
from ._C import Tensor
from .sparse import _flat, _made, sparse_coo, sparse_csr


def sparse_coo_tensor(indices, values=None, size=None, *, dtype=None, device=None, requires_grad=False,
                      check_invariants=None, is_coalesced=None):
    """A sparse tensor of `values` at the places that the columns of `indices` name; equal places are added."""
    if values is None or isinstance(values, (tuple, _C.Size)) and size is None:  # sparse_coo_tensor(size)
        shape = indices if values is None else values
        indices, values, size = _C.zeros((len(shape), 0), dtype=_C.int64), _C.zeros(0), shape
    places = (indices if isinstance(indices, Tensor) else _C.tensor(indices)).to(_C.int64)
    values = values if isinstance(values, Tensor) else _C.tensor(values)
    values = values.to(dtype=dtype, device=device)
    places = places.to(values.device)
    if places.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {tuple(places.shape)}")
    if places.shape[1] != (values.shape[0] if values.dim() else 1):
        raise RuntimeError(f"indices and values must have same nnz, but got nnz from indices: {places.shape[1]}, nnz from "
                           f"values: {values.shape[0] if values.dim() else 1}")
    if size is None:
        most = places.amax(1).add(1).clamp_min(0).tolist() if places.shape[1] else [0] * places.shape[0]
        size = tuple(most) + tuple(values.shape[1:])
    size = tuple(size)
    _check_coo(places, values, size)
    if check_invariants is None or check_invariants:
        _check_within(places, size)
        if is_coalesced and not _ascends(_flat(places, size)):
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
    if requires_grad:
        values = values.detach().requires_grad_()
    return _made(places, values, size, bool(is_coalesced), sparse_coo)


def _check_coo(places, values, size):
    sparse_dim, dense_dim = places.shape[0], values.dim() - 1
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
                           f"sparse_dim = {sparse_dim}, dense_dim = {dense_dim}")
    if min(size, default=0) < 0:
        raise RuntimeError(f"sparse_coo_tensor: sizes must not be negative, got {size}")
    expected = [values.shape[0], *size[sparse_dim:]]
    if list(values.shape) != expected:
        raise RuntimeError(f"values has incorrect size, expected {expected}, got {list(values.shape)}")


def _check_within(places, size):
    if not places.numel() or places.is_meta:
        return
    for dim, (low, high) in enumerate(zip(places.amin(1).tolist(), places.amax(1).tolist())):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
        if high >= size[dim]:
            raise RuntimeError(f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found index {high}")


def _ascends(positions):
    return bool((positions[1:] > positions[:-1]).all())


def sparse_csr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, device=None, requires_grad=False,
                      check_invariants=None):
    """A sparse matrix: the values of row i stand from crow_indices[i] to crow_indices[i + 1]."""
    values = (values if isinstance(values, Tensor) else _C.tensor(values)).to(dtype=dtype, device=device)
    begins, columns = ((x if isinstance(x, Tensor) else _C.tensor(x)).to(device=values.device, dtype=_C.int64)
                       for x in (crow_indices, col_indices))
    if begins.dim() != 1 or columns.dim() != 1 or values.dim() != 1:
        raise NotImplementedError("sparse_csr_tensor: batches of matrices and dense dims are not supported")
    if size is None:
        size = (begins.numel() - 1, max(int(columns.max()) + 1, 0) if columns.numel() else 0)
    size, nnz = tuple(size), values.shape[0]
    if len(size) != 2 or min(size) < 0:
        raise RuntimeError(f"sparse_csr_tensor: expected two sizes that are not negative, got {size}")
    if begins.numel() != size[0] + 1:
        raise RuntimeError(f"crow_indices.shape[-1] must be equal to the number of rows + 1 (={size[0] + 1}), but got "
                           f"{begins.numel()}")
    if columns.numel() != nnz:
        raise RuntimeError(f"col_indices.shape[-1] must be equal to nnz (={nnz}) as defined by values.shape[0], but got "
                           f"{columns.numel()}")
    if check_invariants is None or check_invariants:
        for kept, rule in ((begins[0] == 0, "crow_indices[..., 0] == 0"), (begins[-1] == nnz, "crow_indices[..., -1] == nnz"),
                           ((begins[1:] >= begins[:-1]).all(), "crow_indices[..., :-1] <= crow_indices[..., 1:]"),
                           (((columns >= 0) & (columns < size[1])).all(), "0 <= col_indices < ncols")):
            if not kept:
                raise RuntimeError(f"`{rule}` is not satisfied.")
    rows = _C.searchsorted(begins, _C.arange(nnz, device=begins.device), right=True) - 1
    places = _C.stack([rows, columns])
    unique = check_invariants is not False and _ascends(_flat(places, size))
    if check_invariants and not unique:
        raise RuntimeError("`col_indices[..., crow_indices[..., i - 1]:crow_indices[..., i]] for all i = 1, ..., nrows are "
                           "sorted and distinct along the last dimension values` is not satisfied.")
    made = _made(places, values.detach().requires_grad_() if requires_grad else values, size, unique, sparse_csr)
    made._begins = begins
    return made


def to_sparse(self, sparse_dim=None, *, layout=None):
    """The elements that are not zero, as a sparse tensor."""
    count = self.dim() if sparse_dim is None else sparse_dim
    mask = self != 0
    if count < self.dim():
        mask = mask.flatten(count).any(-1)
    places = _C.nonzero(mask).t()
    values = self[tuple(places)]
    made = _made(places.contiguous(), values, self.shape, True, sparse_coo)
    return made.to_sparse_csr() if layout is sparse_csr else made
