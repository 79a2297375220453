"""Weights computed from other parameters, by the names that PyTorch's parametrizations have in a state_dict."""
from ... import _C
from ..._modes import no_grad
from ..modules.module import Module
from . import parametrize


class _WeightNorm(Module):
    """original0 · original1 / |original1|: a length and a direction."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def _norm(self, weight):
        if self.dim == -1:
            return _C.norm(weight, 2, list(range(weight.dim())), True)
        return _C.norm(weight, 2, [d for d in range(weight.dim()) if d != self.dim % weight.dim()], True)

    def forward(self, weight_g, weight_v):
        norm = self._norm(weight_v)
        return weight_v * (weight_g / (norm if self.dim != -1 else norm.reshape(())))

    def right_inverse(self, weight):
        norm = self._norm(weight)
        return (norm.reshape(()) if self.dim == -1 else norm), weight


def weight_norm(module, name="weight", dim=0):
    """Splits a weight into its length and its direction.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3, bias=False))
    >>> sorted(layer.state_dict())
    ['parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    return parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """The weight over its largest singular value, which power iteration follows."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(f"Dimension out of range (expected to be in range of [-{weight.dim()}, {weight.dim() - 1}] but "
                             f"got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim, self.eps, self.n_power_iterations = dim % weight.dim(), eps, n_power_iterations
        if weight.dim() > 1:
            matrix = self._matrix(weight.detach())
            make = {"dtype": weight.dtype, "device": weight.device}
            self.register_buffer("_u", _C.normalize(_C.randn(matrix.shape[0], **make), 2.0, 0, eps))
            self.register_buffer("_v", _C.normalize(_C.randn(matrix.shape[1], **make), 2.0, 0, eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight):
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix, count):
        with no_grad():
            for _ in range(count):
                self._u = _C.normalize(matrix.mv(self._v), 2.0, 0, self.eps)
                self._v = _C.normalize(matrix.mH.mv(self._u), 2.0, 0, self.eps)

    def forward(self, weight):
        if weight.dim() == 1:
            return _C.normalize(weight, 2.0, 0, self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        return weight / _C.vdot(self._u.clone(), matrix.mv(self._v.clone()))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a weight by its largest singular value."""
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    weight = getattr(module, name)
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


class _Orthogonal(Module):
    """An orthogonal matrix, computed from a skew-symmetric one by the matrix exponential or Cayley's map."""

    def __init__(self, shape, orthogonal_map):
        super().__init__()
        self.shape, self.orthogonal_map = tuple(shape), orthogonal_map
        self.register_buffer("base", None)

    def forward(self, x):
        n, k = self.shape[-2:]
        flipped = n < k
        x = x.mT if flipped else x
        n, k = (k, n) if flipped else (n, k)
        lower = x.tril()
        if n != k:
            lower = _C.cat([lower, lower.new_zeros(tuple(lower.shape[:-2]) + (n, n - k))], -1)
        skew = lower - lower.mT
        if self.orthogonal_map == "matrix_exp":
            q = _C.linalg.matrix_exp(skew)
        else:
            identity = _C.eye(n, dtype=x.dtype, device=x.device)
            q = _C.linalg.solve(_C.add(identity, skew, alpha=-0.5), _C.add(identity, skew, alpha=0.5))
        q = q[..., :k] if n != k else q
        if self.base is not None:
            q = self.base @ q
        return q.mT if flipped else q

    def right_inverse(self, value):
        if tuple(value.shape) != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape "
                             f"{value.shape}.")
        flipped = self.shape[-2] < self.shape[-1]
        tall = value.mT if flipped else value
        with no_grad():
            q, r = _C.linalg.qr(tall, "complete")
            signs = r.diagonal(0, -2, -1).sign()
            signs = _C.where(signs == 0, _C.ones_like(signs), signs)
            columns = tall.shape[-1]
            q = _C.cat([q[..., :columns] * signs.unsqueeze(-2), q[..., columns:]], -1)
            self.base = q
        zeros = _C.zeros_like(tall)
        return zeros.mT if flipped else zeros


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Makes a weight orthogonal; the matrix that it is now is the one where the original is zero."""
    weight = getattr(module, name)
    if weight.dim() < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.")
    chosen = orthogonal_map or "matrix_exp"
    if chosen not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    if chosen == "householder" or not use_trivialization:
        raise NotImplementedError("orthogonal: orthogonal_map='householder' and use_trivialization=False are not supported")
    return parametrize.register_parametrization(module, name, _Orthogonal(weight.shape, chosen), unsafe=True)
