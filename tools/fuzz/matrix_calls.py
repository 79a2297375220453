"""Calls of products, linear algebra and Fourier transforms; function_calls.py says what a line is."""
import torch

from samples import COMPLEX, shape

MATRICES = ["float32", "float64", *COMPLEX]
NORMS = (None, "forward", "backward", "ortho")


def dtype_of(d):
    d.dtype = d.rng.choice(MATRICES)
    return d


def matrices(d, *sizes):
    """Without repeated rows or columns, so that they are hardly ever singular."""
    return d.x(*sizes, varied=False)


def einsum(d):
    text, *sizes = d.pick(("ij,jk->ik", (2, 3), (3, 4)), ("ij,ij->", (2, 3), (2, 3)),
                          ("bij,bjk->bik", (2, 3, 2), (2, 2, 4)),
                          ("ii->i", (3, 3)), ("ii", (3, 3)), ("ij->ji", (2, 3)), ("i,j", (2,), (3,)),
                          ("...ij,...jk", (2, 2, 3), (3, 4)),
                          ("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)), ("ijk,k->ij", (2, 3, 4), (4,)),
                          ("bn,anm,bm->ba", (2, 3), (4, 3, 2), (2, 2)),
                          ("iji->j", (2, 3, 2)), ("ij,kj->ik", (2, 3), (1, 1)), ("...,...", (2, 3), (3,)),
                          ("ij...,j->...i", (2, 3, 4), (3,)))
    return d(text, *[d.x(*s) for s in sizes])


def product(*ranks):
    """Matrices and vectors whose product exists."""
    def draw(d):
        n, k, m, batch = (d.pick(1, 2, 3, 5, 0) for _ in range(4))
        every = {"v": (k,), "w": (k,), "m": (n, k), "r": (k, m), "b": (batch, n, k), "c": (batch, k, m)}
        return d(*[d.x(*every[rank]) for rank in ranks])
    return draw


def added(*ranks):
    def draw(d):
        n, k, m, batch = (d.pick(1, 2, 3, 5) for _ in range(4))
        every = {"o": d.pick((n, m), (m,), (1, 1)), "p": (n,), "v": (k,), "V": (n,), "W": (m,), "m": (n, k),
                 "r": (k, m),
                 "b": (batch, n, k), "c": (batch, k, m), "O": (batch, n, m)}
        return d(*[d.x(*every[rank]) for rank in ranks], beta=d.pick(1, 0, 0.5), alpha=d.pick(1, 2))
    return draw


def matmul(d):
    a = [max(s, 0) for s in shape(d.rng, d.pick(1, 2, 3))]
    b = d.pick([a[-1]], [a[-1], 2], [1, a[-1], 2], [3, 1, a[-1], 1])
    return d(dtype_of(d).x(*a), d.x(*b))


def tensordot(d):
    return d(d.x(2, 3, 4), d.x(4, 3, 2), dims=d.pick(0, 1, ([1], [1]), ([0, 2], [2, 0]), ([1, 2], [1, 0])))


def fft(ranks, lists):
    def draw(d):
        d.dtype = d.rng.choice(MATRICES)
        sizes = [d.pick(1, 2, 3, 4, 5, 8) for _ in range(d.pick(*ranks))]
        norm = d.pick(*NORMS)
        if not lists:
            return d(d.x(*sizes), n=d.pick(None, 1, 3, 6), dim=d.pick(0, -1), norm=norm)
        return d(d.x(*sizes), norm=norm) if d.flag() else d(d.x(*sizes), s=d.pick((2, 3), (4, 5)), norm=norm)
    return draw


def stft(d):
    n = d.pick(4, 5, 8)
    return d(d.x(*d.pick([20], [2, 16])), n, hop_length=d.pick(None, 1, 3), window=d.pick(None, d.positive(n)),
             center=d.flag(),
             normalized=d.flag(), onesided=d.flag(), return_complex=True)


def istft(d):
    n, hop = 8, d.single().pick(1, 2)
    spectrum = torch.stft(torch.tensor([d.rng.uniform(-2, 2) for _ in range(24)], dtype=getattr(torch, d.dtype)), n,
                          hop,
                          window=torch.ones(n, dtype=getattr(torch, d.dtype)), return_complex=True)
    return d(d.of(spectrum), n, hop_length=hop, window=d.positive(n, grad=False), length=d.pick(None, 20, 24))


def lu_solve(d):
    given = torch.tensor([d.rng.uniform(-2, 2) for _ in range(9)], dtype=getattr(torch, d.single().dtype)).view(3, 3)
    factors, pivots = torch.linalg.lu_factor(given)
    return d(d.of(factors, True), d.of(pivots), d.x(3, 2), adjoint=d.flag())


SQUARE = {"linalg.inv": {}, "linalg.det": {}, "inverse": {}, "det": {}, "linalg.matrix_exp": {}}
CALLS = {
    "einsum": einsum, "matmul": matmul, "tensordot": tensordot, "mm": product("m", "r"), "mv": product("m", "v"),
    "bmm": product("b", "c"), "dot": product("v", "w"), "vdot": product("v", "w"), "inner": product("m", "v"),
    "outer": product("v", "m"), "addmm": added("o", "m", "r"), "addmv": added("p", "m", "v"),
    "addr": added("o", "V", "W"),
    "baddbmm": added("O", "b", "c"), "addbmm": added("o", "b", "c"),
    "kron": lambda d: d(dtype_of(d).x(*d.sizes(d.pick(1, 2))), d.x(*d.sizes(d.pick(1, 2)))),
    "chain_matmul": lambda d: d(d.x(2, 3), d.x(3, 4), d.x(4, 1)),
    "linalg.multi_dot": lambda d: d([d.x(*d.pick([2, 3], [3])), d.x(3, 4), d.x(4, 5), d.x(*d.pick([5, 1], [5]))]),
    "cross": lambda d: d(d.x(2, 3), d.x(d.pick(1, 2), 3), dim=-1),
    "linalg.cross": lambda d: d(d.x(3, 2), d.x(3, d.pick(1, 2)), dim=0),
    "linalg.vecdot": lambda d: d(dtype_of(d).x(2, 3), d.x(3)),
    "cdist": lambda d: d(d.x(d.pick(0, 3), 4), d.x(5, 4), p=d.pick(0.5, 1.0, 2.0, 3.0)),
    **{name: (lambda d: d(matrices(dtype_of(d), *d.pick([3, 3], [2, 3, 3], [1, 1], [0, 0],
                                                        [2, 2, 2, 2])))) for name in SQUARE},
    "linalg.matrix_power": lambda d: d(dtype_of(d).x(*d.pick([3, 3], [2, 2, 2])), d.pick(0, 1, 2, 3, 5)),
    "linalg.matrix_norm": lambda d: d(matrices(d, 2, 3, 4), d.pick("fro", "nuc", 1, -1, 2, -2, float("inf"),
                                                                   float("-inf")), keepdim=d.flag()),
    "linalg.vector_norm": lambda d: d(dtype_of(d).x(2, 3), d.pick(0, 1, 2, 3, -1, float("inf")),
                                      dim=d.pick(None, 0, (0, 1))),
    "linalg.norm": lambda d: d(matrices(d, 2, 3), d.pick(None, "fro", "nuc", 1, 2, float("inf"))),
    "linalg.cond": lambda d: d(matrices(d, 3, 3), d.pick(None, 1, 2, "fro", float("inf"))),
    "linalg.matrix_rank": lambda d: d(matrices(d, *d.pick([3, 3], [2, 4, 3]))),
    "linalg.svdvals": lambda d: d(matrices(dtype_of(d), *d.pick([3, 3], [2, 4, 3], [2, 5]))),
    "linalg.eigvalsh": lambda d: d(d.spd(*d.pick([3, 3], [2, 3, 3]))),
    "linalg.cholesky": lambda d: d(d.spd(*d.pick([3, 3], [2, 3, 3])), upper=d.flag()),
    "cholesky_inverse": lambda d: d(d.spd(3, 3), upper=d.flag()),
    "cholesky_solve": lambda d: d(d.x(3, 2), d.spd(3, 3), upper=d.flag()),
    "linalg.solve": lambda d: d(matrices(dtype_of(d), *d.pick([3, 3], [2, 3, 3])),
                                matrices(d, *d.pick([3], [3, 2], [2, 3, 2])), left=True),
    "linalg.lu": lambda d: d(matrices(d, *d.pick([3, 3], [2, 3, 4], [4, 2]))),
    "linalg.lu_factor": lambda d: d(matrices(d, *d.pick([3, 3], [2, 3, 4]))),
    "linalg.slogdet": lambda d: d(matrices(dtype_of(d), *d.pick([3, 3], [2, 3, 3]))),
    "logdet": lambda d: d(d.spd(3, 3)),
    "linalg.pinv": lambda d: d(matrices(d, *d.pick([3, 3], [4, 2], [2, 4]))),
    "linalg.tensorinv": lambda d: d(matrices(d, 2, 3, 6), ind=2),
    "linalg.tensorsolve": lambda d: d(matrices(d, 2, 3, 6), matrices(d, 2, 3)),
    "linalg.vander": lambda d: d(matrices(d, *d.pick([3], [2, 3])), N=d.pick(None, 2, 4)),
    "linalg.solve_triangular": lambda d: d(d.spd(3, 3), d.x(3, 2), upper=d.flag(), unitriangular=d.flag()),
    "linalg.diagonal": lambda d: d(d.x(2, 3, 4), offset=d.pick(0, 1, -1)),
    **{f"fft.{name}": fft((1, 2, 3), False) for name in "fft ifft rfft irfft hfft ihfft".split()},
    **{f"fft.{name}": fft((2, 3),
                          True) for name in "fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn hfft2 ihfft2 hfftn ihfftn".split()},
    "fft.fftshift": lambda d: d(d.any(d.pick(1, 2))), "fft.ifftshift": lambda d: d(d.any(d.pick(1, 2))),
    "fft.fftfreq": lambda d: d(d.pick(1, 4, 5), d.pick(1.0, 0.5)),
    "fft.rfftfreq": lambda d: d(d.pick(1, 4, 5), d.pick(1.0, 0.5)),
    "stft": stft, "istft": istft, "linalg.lu_solve": lu_solve, "lu_unpack": lambda d: d(*lu_solve(d)[0][:2]),
    "linalg.inv_ex": lambda d: d(matrices(dtype_of(d), *d.pick([3, 3], [2, 3, 3]))),
    "linalg.solve_ex": lambda d: d(matrices(d, 3, 3), d.x(3, 2)),
    "linalg.cholesky_ex": lambda d: d(d.spd(2, 3, 3), upper=d.flag()),
    "linalg.lu_factor_ex": lambda d: d(matrices(d, *d.pick([3, 3], [2, 4, 3]))),
    "pinverse": lambda d: d(matrices(d, 4, 3)),
    "linalg.lstsq": lambda d: d(matrices(d, 4, 3), d.x(4, 2), driver=d.pick(None, "gels", "gelsd")),
    "ger": product("v", "w"),
}
