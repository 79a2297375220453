"""Lines of the ops of neural networks, sorting and linear algebra; ops.py says what a line is."""
import tensora_glue as glue
import torch
import torch.nn.functional as F

from lines import Line, anything, chosen, dim, flag, floats, one_of
from samples import FLOATS, make


def of(*sizes, grad=True, varied=True):
    """A float32 or float64 tensor of these sizes without special values; later ones have its dtype."""
    def draw(rng, _, before):
        dtype = str(before[0].theirs.dtype)[6:] if before else rng.choice(["float32", "float64"])
        return make(rng, dtype, list(sizes), grad, varied, calm=True)
    return draw


def distinct(rng, sizes, _):
    """No two elements alike, so that their order is certain."""
    many = torch.Size(sizes).numel() > 100  # half types would round some of them to others
    sample = make(rng, rng.choice(["float32", "float64"] if many else FLOATS), sizes, True, varied=False)
    count = sample.theirs.numel()
    numbers = torch.tensor(rng.sample(range(-count, count + 1), count), dtype=sample.theirs.dtype).view(sizes)
    return replaced(sample, numbers)


def some(rng, sizes, before):
    """The same with at least one element: the op called by name does not know the median of none."""
    return distinct(rng, [max(size, 1) for size in sizes], before)


def replaced(sample, numbers):
    dtype = str(numbers.dtype)[6:]
    leaf = glue.Tensor(numbers.tolist(), dtype=dtype, requires_grad=True)
    ours = leaf if numbers.numel() else glue.view(leaf, size=list(numbers.shape))
    theirs = numbers.clone().requires_grad_()
    return type(sample)(ours, theirs, f"tensor({numbers.tolist()}, {dtype})", [(leaf, theirs)])


def positive_definite(rng, sizes, before):
    sample = make(rng, rng.choice(["float32", "float64"]), [3, 3], True, varied=False, calm=True)
    numbers = sample.theirs.detach()
    return replaced(sample, numbers @ numbers.T + 3 * torch.eye(3, dtype=numbers.dtype))


def labels(count, classes):
    return lambda rng, _, before: chosen(rng, [count], lambda: rng.randrange(classes))


LINES = {
    "softmax": Line(floats, dim=dim),
    "log_softmax": Line(floats, dim=dim),
    "sort": Line(anything, dim=dim, descending=flag, theirs=lambda x, **a: torch.sort(x, stable=True, **a)),
    "topk": Line(distinct, k=one_of(0, 1, 2), dim=dim, largest=flag, ranks=(1, 2)),
    "kthvalue": Line(distinct, k=1, dim=dim, keepdim=flag, ranks=(1, 2)),
    "median": Line(some, ranks=(1, 2)),
    "nanmedian": Line(some, ranks=(1, 2)),
    "median_dim": Line(distinct, dim=dim, keepdim=flag, ranks=(1, 2), theirs=lambda x, **a: torch.median(x, **a)),
    "nll_loss": Line(of(4, 3), labels(4, 3), ranks=(1,), first=True, theirs=lambda x, t: F.nll_loss(x, t, reduction="none")),
    "embedding": Line(of(5, 2), labels(4, 5), ranks=(1,), theirs=lambda w, i: F.embedding(i, w)),
    "convolution": Line(of(2, 4, 5, 5), of(6, 2, 3, 2), of(6), ranks=(1,), groups=2, stride=one_of([1, 1], [2, 1]),
                        padding=one_of([0, 0], [1, 2]), dilation=one_of([1, 1], [2, 1]),
                        theirs=lambda x, w, b, **a: F.conv2d(x, w, b, **a)),
    "im2col": Line(of(1, 2, 4, 5), ranks=(1,), kernel_size=[2, 3], stride=one_of([1, 1], [2, 1]),
                   padding=one_of([0, 0], [1, 1]), theirs=lambda x, **a: F.unfold(x, **a)),
    "grid_sample": Line(of(1, 2, 3, 4), of(1, 2, 2, 2), ranks=(1,), mode=one_of("bilinear", "nearest"),
                        padding_mode=one_of("zeros", "border", "reflection"), align_corners=flag),
    "layer_norm": Line(of(2, 3, 4), of(4), of(4), ranks=(1,), first=True, normalized_shape=[4],
                       theirs=lambda x, w, b, normalized_shape: F.layer_norm(x, normalized_shape, w, b)),
    "rms_norm": Line(of(2, 3, 4), of(3, 4), ranks=(1,), first=True, normalized_shape=[3, 4],
                     theirs=lambda x, w, normalized_shape: F.rms_norm(x, normalized_shape, w)),
    "group_norm": Line(of(2, 6, 3), of(6), of(6), ranks=(1,), first=True, num_groups=one_of(1, 2, 6),
                       theirs=lambda x, w, b, num_groups: F.group_norm(x, num_groups, w, b)),
    "cross_entropy": Line(of(4, 3), labels(4, 3), ranks=(1,), first=True, label_smoothing=one_of(0.0, 0.1),
                          theirs=lambda x, t, **a: F.cross_entropy(x, t, reduction="none", **a)),
    "smooth_l1": Line(of(3, 2), of(3, 2), ranks=(1,), beta=one_of(0.5, 1.0),
                      theirs=lambda x, t, beta: F.smooth_l1_loss(x, t, reduction="none", beta=beta)),
    "huber": Line(of(3, 2), of(3, 2), ranks=(1,), delta=one_of(0.5, 1.0),
                  theirs=lambda x, t, delta: F.huber_loss(x, t, reduction="none", delta=delta)),
    "squared_error": Line(of(3, 2), of(3, 2), ranks=(1,), theirs=lambda x, t: F.mse_loss(x, t, reduction="none")),
    "absolute_error": Line(of(3, 2), of(3, 2), ranks=(1,), theirs=lambda x, t: F.l1_loss(x, t, reduction="none")),
    "soft_margin": Line(of(3, 2), of(3, 2, grad=False), ranks=(1,),
                        theirs=lambda x, t: F.soft_margin_loss(x, t, reduction="none")),
    "parametric_relu": Line(of(2, 3, 2), of(1), ranks=(1,), theirs=F.prelu),
    "gate": Line(of(2, 4), ranks=(1,), gate="glu", dim=one_of(0, -1), theirs=lambda x, gate, dim: F.glu(x, dim)),
    "avg_pool": Line(of(1, 2, 5, 4), ranks=(1,), kernel_size=[2, 3], stride=one_of([1, 1], [2, 2]),
                     padding=one_of([0, 0], [1, 1]), ceil_mode=flag, count_include_pad=flag, dilation=[1, 1],
                     theirs=lambda x, dilation, **a: F.avg_pool2d(x, **a)),
    "max_pool": Line(of(1, 2, 5, 4), ranks=(1,), kernel_size=[2, 3], stride=one_of([1, 1], [2, 2]), dilation=[1, 1],
                     padding=one_of([0, 0], [1, 1]), ceil_mode=flag,
                     theirs=lambda x, **a: F.max_pool2d(x, return_indices=True, **a)),
    "constant_pad": Line(of(2, 3), ranks=(1,), before=one_of([0, 1], [1, 0]), after=one_of([0, 0], [2, 1]), value=1.5,
                         theirs=lambda x, before, after, value: F.pad(
                             x, [before[1], after[1], before[0], after[0]], value=value)),
    "attention": Line(of(1, 2, 3, 4), of(1, 2, 5, 4), of(1, 2, 5, 2), ranks=(1,), first=True, is_causal=False,
                      scale=one_of(None, 0.3), theirs=lambda *x, **a: F.scaled_dot_product_attention(*x, **a)),
    "cummax": Line(distinct, dim=dim, ranks=(1, 2)),
    "cummin": Line(distinct, dim=dim, ranks=(1, 2)),
    "logcumsumexp": Line(of(3, 4), dim=one_of(0, 1, -1), ranks=(1,)),
    "linalg_cholesky_ex": Line(positive_definite, ranks=(1,), upper=flag, first=True,
                               theirs=lambda A, upper: torch.linalg.cholesky(A, upper=upper)),
    "linalg_inv_ex": Line(of(2, 3, 3, varied=False), ranks=(1,), first=True, theirs=torch.linalg.inv),
    "linalg_solve_ex": Line(of(3, 3, varied=False), of(3, 2), ranks=(1,), first=True, theirs=torch.linalg.solve),
    "linalg_det": Line(of(2, 3, 3, varied=False), ranks=(1,), first=True, theirs=torch.linalg.det),
}
