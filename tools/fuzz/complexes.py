"""Lines of complex numbers, Fourier transforms and decompositions; lines.py says what a line is."""
import tensora_glue as glue
import torch

from lines import Line, broadcastable, flag, mask, one_of
from samples import COMPLEX, make

# Those that have a complex form.
UNARY = ("abs neg square sqrt rsqrt reciprocal exp log sin cos tanh conj clone contiguous isnan isinf "
         "isfinite").split()


def numbers(rng, sizes, _):
    return make(rng, rng.choice(list(COMPLEX)), sizes, True)


def of(dtypes, *sizes):
    """A tensor of these sizes and one of the dtypes; later ones have that of the first."""
    def draw(rng, _, before):
        dtype = str(before[0].theirs.dtype)[6:] if before else rng.choice(dtypes)
        return make(rng, dtype, list(sizes), True, varied=False, calm=True)
    return draw


def other(rng, sizes, before):
    """What goes with the first: complex, or real."""
    return make(rng, rng.choice([*COMPLEX, "float32", "float64", "int64"]),
                broadcastable(rng, list(before[0].theirs.shape)), False, calm=True)


def theirs_of(name):
    return {"contiguous": torch.Tensor.contiguous, "conj": torch.conj_physical}.get(name) or getattr(torch, name)


# ---- Fourier transforms -----------------------------------------------------------------------------

def some_dims(rng, sizes):
    return rng.sample(range(len(sizes)), rng.randint(1, len(sizes)))


def reals(rng, sizes, _):
    return make(rng, rng.choice(["float32", "float64"]), sizes, True, calm=True)


def fft(x, dim, scale, forward):
    return torch.fft.fftn(x, dim=dim) * scale if forward else torch.fft.ifftn(x, dim=dim, norm="forward") * scale


def real_fft(x, dim, scale, forward):
    return torch.fft.fft(x, dim=dim[0]) * scale if forward else torch.fft.ifft(x, dim=dim[0], norm="forward") * scale


def irfft(x, dim, scale, last_dim_size):
    sizes = [x.shape[d] for d in dim[:-1]] + [last_dim_size]
    return torch.fft.irfftn(x, s=sizes, dim=dim, norm="forward") * scale


# ---- decompositions: what does not depend on the vectors' signs and phases --------------------------------

def our_product(x, y):
    """The op `matmul` takes real matrices."""
    a, b = list(x.shape), list(y.shape)
    spread = glue.mul(glue.view(glue.contiguous(x), size=a + [1]),
                      glue.view(glue.contiguous(y), size=b[:-2] + [1] + b[-2:]))
    return glue.sum(spread, dim=[len(a) - 1])


def our_adjoint(x):
    turned = glue.permute(x, dims=[*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2])
    return glue.conj(turned) if x.dtype in COMPLEX else turned


def our_svd(A):
    U, S, Vh = glue.linalg_svd(A, full_matrices=False)
    return [S, our_product(U, Vh), glue.abs(U), glue.abs(Vh)]


def their_svd(A):
    U, S, Vh = torch.linalg.svd(A, full_matrices=False)
    return [S, U @ Vh, U.abs(), Vh.abs()]


def our_eigh(A, upper):
    L, V = glue.linalg_eigh(glue.add(A, our_adjoint(A)), upper=upper)
    return [L, glue.abs(V)]


def their_eigh(A, upper):
    L, V = torch.linalg.eigh(A + A.mH, UPLO="U" if upper else "L")
    return [L, V.abs()]


MATRICES = ["float32", "float64", *COMPLEX]
LINES = {
    **{f"complex_{name}": Line(numbers, ours=getattr(glue, name), theirs=theirs_of(name)) for name in UNARY},
    **{f"complex_{name}": Line(numbers, other, ours=getattr(glue, name), theirs=getattr(torch, name))
       for name in "add sub mul div pow eq ne".split()},
    "complex_sum": Line(numbers, ours=glue.sum, dim=some_dims, keepdim=flag, theirs=torch.sum, ranks=(1, 2, 3)),
    "complex_mean": Line(numbers, ours=glue.mean, dim=some_dims, keepdim=flag, theirs=torch.mean, ranks=(1, 2, 3)),
    "complex_where": Line(mask, numbers, numbers, ours=glue.where, theirs=torch.where, ranks=(0, 1)),
    "complex_flip": Line(numbers, ours=glue.flip, dims=some_dims, theirs=torch.flip, ranks=(1, 2, 3)),
    "complex_tril": Line(numbers, ours=glue.tril, diagonal=one_of(-1, 0, 1), theirs=torch.tril, ranks=(2, 3)),
    "view_as_real": Line(numbers, theirs=lambda x: torch.view_as_real(x)),
    "fft_c2c": Line(numbers, dim=some_dims, scale=one_of(1.0, 0.5), forward=flag, ranks=(1, 2, 3), theirs=fft),
    "fft_r2c": Line(reals, dim=some_dims, scale=one_of(1.0, 0.5), ranks=(1, 2, 3),
                    theirs=lambda x, dim, scale: torch.fft.rfftn(x, dim=dim) * scale),
    "fft_real": Line(reals, dim=one_of([0], [-1]), scale=one_of(1.0, 0.5), forward=flag, ranks=(1, 2, 3),
                     theirs=real_fft),
    "fft_c2r": Line(of(list(COMPLEX), 3, 4), dim=one_of([1], [0, 1]), scale=one_of(1.0, 0.5),
                    last_dim_size=one_of(6, 7), theirs=irfft),
    "linalg_svd": Line(of(MATRICES, 2, 3, 3), ours=our_svd, theirs=their_svd),
    "tall_svd": Line(of(MATRICES, 4, 2), ours=our_svd, theirs=their_svd),
    "wide_svd": Line(of(MATRICES, 2, 4), ours=our_svd, theirs=their_svd),
    "linalg_eigh": Line(of(MATRICES, 2, 3, 3), ours=our_eigh, theirs=their_eigh, upper=flag),
    "linalg_qr": Line(of(MATRICES, 2, 4, 3), mode="reduced", theirs=torch.linalg.qr),
    "wide_qr": Line(of(MATRICES, 3, 5), ours=glue.linalg_qr, mode=one_of("reduced", "complete"),
                    theirs=torch.linalg.qr),
    "linalg_pinv": Line(of(MATRICES, 4, 3), theirs=torch.linalg.pinv),
    "linalg_lstsq": Line(of(MATRICES, 4, 3), of(MATRICES, 4, 2), first=True, full_rank=flag,
                         theirs=lambda A, B, full_rank: torch.linalg.lstsq(A, B).solution),
    "linalg_slogdet": Line(of(["float32", "float64"], 2, 3, 3), ours=lambda A: list(glue.linalg_slogdet(A))[:2],
                           theirs=lambda A: list(torch.linalg.slogdet(A))),
    "linalg_solve_triangular": Line(of(["float32", "float64"], 3, 3), of(["float32", "float64"], 3, 2), upper=flag,
                                    unitriangular=flag, theirs=torch.linalg.solve_triangular),
}
