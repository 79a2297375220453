"""Functions that PyTorch has beside the ones whose results they rearrange: decompositions of low rank, and the
forms of normalisation that also return their statistics."""
from . import _C
from ._C import Tensor
from ._copies import into

__all__ = []


def _public(function):
    __all__.append(function.__name__)
    return function


# ---- decompositions -----------------------------------------------------------------------------

@_public
def lu(A, pivot=True, get_infos=False, out=None):
    """(LU, pivots), and the status of each matrix with `get_infos`: linalg.lu_factor_ex."""
    factors, pivots, infos = _C.linalg.lu_factor_ex(A, pivot, not get_infos)
    return into(out, (factors, pivots, infos) if get_infos else (factors, pivots))


Tensor.lu = lu


def _adjoint(A):
    return A.mH if A.is_complex() else A.mT


def _range_of(A, q, niter, M):
    """An orthonormal basis of what A - M maps q random vectors to (Halko, Martinsson and Tropp, 2009)."""
    times = lambda X: A @ X if M is None else A @ X - M @ X  # noqa: E731
    turned = lambda X: _adjoint(A) @ X if M is None else _adjoint(A) @ X - _adjoint(M) @ X  # noqa: E731
    Q = _C.linalg.qr(times(_C.randn([A.shape[-1], q], dtype=A.dtype, device=A.device)))[0]
    for _ in range(niter):
        Q = _C.linalg.qr(turned(Q))[0]
        Q = _C.linalg.qr(times(Q))[0]
    return Q


@_public
def svd_lowrank(A, q=6, niter=2, M=None):
    """(U, S, V) of the q largest singular values of A, or of A - M, by random projection."""
    wide = A.shape[-2] < A.shape[-1]
    if M is not None:
        M = M.broadcast_to(A.shape)
    if wide:
        A, M = _adjoint(A), None if M is None else _adjoint(M)
    Q = _range_of(A, q, niter, M)
    B = _adjoint(Q) @ (A if M is None else A - M)
    U, S, Vh = _C.linalg.svd(B, False)
    U, V = Q @ U, _adjoint(Vh)
    return (V, S, U) if wide else (U, S, V)


@_public
def pca_lowrank(A, q=None, center=True, niter=2):
    """(U, S, V): the q principal directions of the rows of A, as svd_lowrank of the centred matrix."""
    rows, columns = A.shape[-2:]
    if q is None:
        q = min(6, rows, columns)
    elif not 0 <= q <= min(rows, columns):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)="
                         f"{min(rows, columns)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True) if center else A, q, niter)


# ---- forms with other arguments or more results ---------------------------------------------------

def _grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    return _C.grid_sample(input, grid, ("bilinear", "nearest", "bicubic")[interpolation_mode],
                          ("zeros", "border", "reflection")[padding_mode], align_corners)


for _name in ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"):
    def _function(input, grid, interpolation_mode, padding_mode, align_corners):
        """nn.functional.grid_sample with PyTorch's numbers for the modes."""
        return _grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)
    _function.__name__ = _function.__qualname__ = _name
    globals()[_name] = _public(_function)


@_public
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """(result, mean, 1 / standard deviation): nn.functional.layer_norm with its statistics."""
    dims = tuple(range(-len(normalized_shape), 0))
    wide = input.float() if input.dtype in (_C.float16, _C.bfloat16) else input
    mean = wide.mean(dim=dims, keepdim=True)
    spread = (wide.var(dim=dims, correction=0, keepdim=True) + eps).rsqrt()
    return _C.layer_norm(input, list(normalized_shape), weight, bias, eps), mean, spread


@_public
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """(result, mean, 1 / standard deviation): nn.functional.group_norm with its statistics."""
    groups = input.reshape(N, group, C // group * HxW)
    mean = groups.mean(dim=-1)
    spread = (groups.var(dim=-1, correction=0) + eps).rsqrt()
    return _C.group_norm(input, group, weight, bias, eps), mean, spread


@_public
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """(result, mean, 1 / standard deviation): nn.functional.batch_norm; the statistics are empty unless `training`."""
    if training:
        dims = [0] + list(range(2, input.dim()))
        mean, spread = input.mean(dim=dims), (input.var(dim=dims, correction=0) + eps).rsqrt()
    else:
        mean = spread = _C.empty([0], dtype=input.dtype, device=input.device)
    result = _C.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return result, mean, spread


@_public
def hash_tensor(input, dim=None, *, keepdim=False, mode=0, out=None):
    """The exclusive or of the elements' bits, as float64 or int64, over all elements or over `dim`."""
    if mode != 0:
        raise RuntimeError(f"hash_tensor: only mode=0 (xor) is supported, got {mode}")
    wide = input.double() if input.is_floating_point() else input.long()
    bits = wide.contiguous().view(_C.int64)
    count = bits.dim()
    chosen = range(count) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [d % count for d in chosen] if count else []
    kept = [1 if d in dims else size for d, size in enumerate(bits.shape)]
    rest = [d for d in range(count) if d not in dims]
    rows = bits.permute(rest + list(dims)).reshape([bits.shape[d] for d in rest] + [-1])
    while rows.shape[-1] > 1:
        half = rows.shape[-1] // 2
        folded = _C.bitwise_xor(rows[..., :half], rows[..., half:2 * half])
        rows = _C.cat([folded, rows[..., 2 * half:]], -1)
    result = rows.squeeze(-1) if rows.shape[-1] else _C.zeros(rows.shape[:-1], dtype=_C.int64)
    return into(out, (result.reshape(kept) if keepdim else result).view(_C.uint64))
