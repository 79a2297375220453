"""Linear algebra, as torch.linalg."""
import collections

from . import _C
from ._copies import into

LinAlgError = RuntimeError
globals().update({name: value for name, value in vars(_C.linalg).items() if not name.startswith("__")})
matmul = _C.matmul


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices; a view."""
    return _C.diagonal(A, offset, dim1, dim2)


Polar = collections.namedtuple("Polar", ("U", "H"))


def polar(A, *, out=None):
    """(U, H) with A = U H, where U has orthonormal columns and H is positive semidefinite; A has at least as many
    rows as columns."""
    if A.dim() < 2 or A.shape[-2] < A.shape[-1]:
        raise RuntimeError("linalg.polar: expected matrices with at least as many rows as columns, got "
                           f"{list(A.shape)}")
    U, S, Vh = _C.linalg.svd(A, False)
    V = Vh.mH if A.is_complex() else Vh.mT
    return into(out, Polar(U @ Vh, V * S.unsqueeze(-2) @ Vh))


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
