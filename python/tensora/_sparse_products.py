"""Products of sparse matrices, by the ops csr_matmul, csr_sampled_matmul and csr_transpose."""
from . import _C
from ._dtypes import result_type
from .sparse import Sparse, _implements, _made, _with, sparse_coo


def _by_rows(matrix):
    """crow_indices, col_indices and values; the entries of an uncoalesced tensor are sorted by row alone."""
    rows, columns = matrix._places
    if matrix._rows_ascend():
        return matrix._row_begins(), columns, matrix._entries
    counting = _C.arange(rows.shape[0] + 1, device=rows.device)  # the crow_indices of one entry in each row
    begins, order, _ = _C.csr_transpose(counting, rows, matrix.shape[0])
    return begins, columns[order], matrix._entries[order]


def _check_matrix(name, matrix):
    if matrix.dim() != 2 or matrix.dense_dim():
        raise NotImplementedError(f"{name}: expected a sparse matrix, got {matrix.sparse_dim()} sparse and "
                                  f"{matrix.dense_dim()} dense dims")


def _check_fits(name, left, right):
    if right.dim() not in (1, 2) or left.dim() not in (1, 2):
        raise NotImplementedError(f"{name}: expected matrices or a matrix and a vector, got shapes {tuple(left.shape)} and "
                                  f"{tuple(right.shape)}")
    if left.shape[-1] != right.shape[0]:
        raise RuntimeError(f"{name}: shapes cannot be multiplied ({tuple(left.shape)} and {tuple(right.shape)})")


def _rows_times_dense(begins, columns, values, dense):
    dtype = result_type(values, dense)
    result = _C.csr_matmul(begins, columns, values.to(dtype), (dense if dense.dim() == 2 else dense.unsqueeze(1)).to(dtype))
    return result if dense.dim() == 2 else result.squeeze(1)


def _dense_times(dense, matrix):
    """As the transposed product of the transposed operands."""
    begins, columns, values = _by_rows(matrix)
    begins, rows, order = _C.csr_transpose(begins, columns, matrix.shape[1])
    result = _rows_times_dense(begins, rows, values[order], dense if dense.dim() == 1 else dense.t())
    return result if dense.dim() == 1 else result.t()


def _sparse_times_sparse(left, right):
    """Each entry (i, k) of the left matrix meets all entries of row k of the right one."""
    rows, inner = left._places
    if right._layout is sparse_coo:  # searched for: crow_indices would be as large as the matrix is high
        right = right.coalesce()
        first, last = (_C.searchsorted(right._places[0].contiguous(), inner.contiguous(), right=r) for r in (False, True))
    else:
        first, last = (right._row_begins()[at] for at in (inner, inner + 1))
    columns, values, counts = right._places[1], right._entries, last - first
    entry = _C.repeat_interleave(_C.arange(left._nnz(), device=rows.device), counts, None)
    number = _C.arange(entry.numel(), device=rows.device) - (counts.cumsum(0) - counts)[entry]
    other = first[entry] + number
    made = _made(_C.stack([rows[entry], columns[other]]), left._entries[entry] * values[other],
                 (left.shape[0], right.shape[1]), False, sparse_coo).coalesce()
    return made if left._layout is sparse_coo else made.to_sparse_csr()


@_implements("mm", "matmul", "spmm", "mv")
def mm(input, mat2):
    """The product of two matrices, or a matrix and a vector; sparse if both are."""
    if not isinstance(input, Sparse) and not isinstance(mat2, Sparse):
        return _C.matmul(input, mat2)
    for matrix in (input, mat2):
        if isinstance(matrix, Sparse):
            _check_matrix("mm", matrix)
    _check_fits("mm", input, mat2)
    if not isinstance(input, Sparse):
        return _dense_times(input, mat2)
    return _sparse_times_sparse(input, mat2) if isinstance(mat2, Sparse) else _rows_times_dense(*_by_rows(input), mat2)


_implements("rmatmul")(lambda input, other: mm(other, input))
spmm = smm = mm


@_implements("addmm", "sspaddmm")
def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta · mat + alpha · mat1 @ mat2, of a sparse mat1."""
    product = mm(mat1, mat2)
    if isinstance(product, Sparse):
        product = product.to_dense()
    if not beta:  # then NaN in mat does not count
        return alpha * product
    return beta * (mat.to_dense() if isinstance(mat, Sparse) else mat) + alpha * product


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """alpha · mat1 @ mat2 at the places of a sparse matrix, plus beta times it."""
    if out is not None:
        raise NotImplementedError("sparse.sampled_addmm: out= is not supported")
    _check_matrix("sampled_addmm", input)
    _check_fits("sampled_addmm", mat1, mat2)
    if tuple(input.shape) != (mat1.shape[0], mat2.shape[1]):
        raise RuntimeError(f"sampled_addmm: self.shape must be {(mat1.shape[0], mat2.shape[1])}, got {tuple(input.shape)}")
    whole = input.coalesce()
    products = _C.csr_sampled_matmul(whole._row_begins(), whole._places[1], mat1, mat2.t())
    products = products if alpha == 1 else alpha * products
    return _with(whole, beta * whole._entries + products if beta else products)


def _over_rows(input, dim, dtype, finish):
    whole = input.coalesce()
    if whole.dim() != 2 or whole.dense_dim():
        raise NotImplementedError("sparse.softmax: expected a matrix of two sparse dims")
    values = whole._entries if dtype is None else whole._entries.to(dtype)
    kept = 1 - dim % 2
    rows = whole._places[kept]
    most = _C.full((whole.shape[kept],), float("-inf"), dtype=values.dtype, device=values.device).index_reduce(
        0, rows, values.detach(), "amax")
    shifted = values - most[rows]
    total = _C.zeros(whole.shape[kept], dtype=values.dtype, device=values.device).index_add(0, rows, shifted.exp())
    return _with(whole, finish(shifted, total[rows]))


@_implements("softmax")
def softmax(input, dim, *, dtype=None):
    """softmax over the entries that are stored."""
    return _over_rows(input, dim, dtype, lambda x, total: x.exp() / total)


@_implements("log_softmax")
def log_softmax(input, dim, *, dtype=None):
    return _over_rows(input, dim, dtype, lambda x, total: x - total.log())
