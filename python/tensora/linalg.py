"""Linear algebra, as torch.linalg."""
from . import _C

LinAlgError = RuntimeError
globals().update({name: value for name, value in vars(_C.linalg).items() if not name.startswith("__")})
matmul = _C.matmul


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices; a view."""
    return _C.diagonal(A, offset, dim1, dim2)


def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """A vector norm over one dim, a matrix norm over two, or the 2-norm of all elements."""
    dims = () if dim is None else dim
    if ord is not None and dim is None and A.dim() == 2:
        dims = (0, 1)
    result = _C.linalg.norm(A, ord, dims, keepdim, dtype)
    return result if out is None else out.copy_(result)


def tensorsolve(A, B, dims=None, *, out=None):
    """X with tensordot(A, X) = B; the dims of A in `dims` are moved to its end first."""
    if dims is not None:
        rest = [d for d in range(A.dim()) if d not in dims]
        A = A.permute(rest + list(dims))
    result = _C.linalg.tensorsolve(A, B)
    return result if out is None else out.copy_(result)
