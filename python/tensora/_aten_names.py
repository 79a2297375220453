"""Functions that PyTorch has beside the ones whose results they rearrange: copies of views, decompositions
of low rank, and the forms of normalisation that also return their statistics."""
from . import _C
from ._C import Tensor

__all__ = []


def _public(function):
    __all__.append(function.__name__)
    return function


def _into(out, result):
    """The result, or `out` with its values."""
    if out is None:
        return result
    if isinstance(out, Tensor):
        return out.resize_(result.shape).copy_(result) if out.shape != result.shape else out.copy_(result)
    for place, value in zip(out, result):
        _into(place, value)
    return out


# ---- copies of views ----------------------------------------------------------------------------

def _copying(name, view):
    def function(input, *args, out=None, **kwargs):
        result = view(input, *args, **kwargs)
        copies = result.clone() if isinstance(result, Tensor) else tuple(part.clone() for part in result)
        return _into(out, copies)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A copy of what {name.removesuffix('_copy')} gives, instead of a view."
    return _public(function)


def _viewed(name):
    method = getattr(Tensor, name)
    return _copying(f"{name}_copy", lambda input, *args, **kwargs: method(input, *args, **kwargs))


alias_copy = _copying("alias_copy", lambda input: input)
detach_copy = _copying("detach_copy", lambda input: input.detach())
for _name in ("as_strided", "diagonal", "expand", "narrow", "permute", "select", "split_with_sizes", "squeeze", "t",
              "transpose", "unbind", "unfold", "unsqueeze", "view"):
    globals()[f"{_name}_copy"] = _viewed(_name)


# ---- decompositions -----------------------------------------------------------------------------

@_public
def lu(A, pivot=True, get_infos=False, out=None):
    """(LU, pivots), and the status of each matrix with `get_infos`: linalg.lu_factor_ex."""
    factors, pivots, infos = _C.linalg.lu_factor_ex(A, pivot, not get_infos)
    return _into(out, (factors, pivots, infos) if get_infos else (factors, pivots))


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

@_public
def constant_pad_nd(input, pad, value=0):
    """nn.functional.pad in the mode 'constant'."""
    return _C.pad(input, pad, "constant", value)


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
    groups = input.reshape(N, group, -1)
    mean = groups.mean(dim=-1)
    spread = (groups.var(dim=-1, correction=0) + eps).rsqrt()
    return _C.group_norm(input, group, weight, bias, eps), mean, spread


@_public
def hash_tensor(input, dim=None, *, keepdim=False, mode=0, out=None):
    """The exclusive or of the elements' bits, as float64 or int64, over all elements or over `dim`."""
    if mode != 0:
        raise RuntimeError(f"hash_tensor: only mode=0 (xor) is supported, got {mode}")
    wide = input.double() if input.is_floating_point() else input.long()
    bits = wide.contiguous().view(_C.int64)
    count = bits.dim()
    dims = range(count) if dim is None else [d % max(count, 1) for d in ([dim] if isinstance(dim, int) else dim)]
    kept = [1 if d in dims else size for d, size in enumerate(bits.shape)]
    rest = [d for d in range(count) if d not in dims]
    rows = bits.permute(rest + list(dims)).reshape([bits.shape[d] for d in rest] + [-1])
    while rows.shape[-1] > 1:
        half = rows.shape[-1] // 2
        folded = _C.bitwise_xor(rows[..., :half], rows[..., half:2 * half])
        rows = _C.cat([folded, rows[..., 2 * half:]], -1)
    result = rows.squeeze(-1) if rows.shape[-1] else _C.zeros(rows.shape[:-1], dtype=_C.int64)
    return _into(out, (result.reshape(kept) if keepdim else result).view(_C.uint64))
