"""Lines of fused ops, whose meaning is a composition of PyTorch's, and of optimizer steps."""
import tensora_glue as glue
import torch
import torch.nn.functional as F

from lines import Line, chosen, flag, one_of
from samples import FLOATS, make


def of(*sizes, dtypes=FLOATS, grad=True, varied=True):
    """A tensor of these sizes without special values; later ones have its dtype."""
    def draw(rng, _, before):
        dtype = str(before[0].theirs.dtype)[6:] if before else rng.choice(dtypes)
        return make(rng, dtype, list(sizes), grad, varied, calm=True)
    return draw


def positive(*sizes, grad=False):
    def draw(rng, _, before):
        sample = make(rng, str(before[0].theirs.dtype)[6:], list(sizes), False, False, calm=True)
        sample.theirs = sample.theirs.abs() + 0.25
        sample.ours = glue.add(glue.abs(sample.ours), 0.25)
        return sample
    return draw


def wider(*sizes, grad=True):
    """Of the first input's dtype, or float32 beside a half type."""
    def draw(rng, _, before):
        dtype = str(before[0].theirs.dtype)[6:]
        wide = dtype in ("float16", "bfloat16") and rng.random() < 0.7
        return make(rng, "float32" if wide else dtype, list(sizes), grad, calm=True)
    return draw


def marks(*sizes, of_values=(0, 1)):
    """A tensor of the first input's dtype that holds these values alone."""
    def draw(rng, _, before):
        sample = make(rng, str(before[0].theirs.dtype)[6:], list(sizes), False, False, calm=True)
        values = [rng.choice(of_values) for _ in range(sample.theirs.numel())]
        sample.theirs = torch.tensor(values, dtype=sample.theirs.dtype).view(sizes)
        sample.ours = glue.view(glue.Tensor([float(v) for v in values], dtype=str(sample.theirs.dtype)[6:]),
                                size=list(sizes))
        return sample
    return draw


def indices(count, limit):
    return lambda rng, _, before: chosen(rng, [count], lambda: rng.randrange(limit))


# ---- norms -------------------------------------------------------------------------------------------

def wide_sum(x, residual, bias=None):
    dtype = torch.promote_types(x.dtype, residual.dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    total = x.to(wide) + residual.to(wide)
    return total if bias is None else total + bias.to(wide)


def add_layer_norm(x, residual, weight, bias, input_bias, normalized_shape, eps):
    total = wide_sum(x, residual, input_bias)
    kept = total.to(torch.promote_types(x.dtype, residual.dtype))
    result = F.layer_norm(kept.to(total.dtype), normalized_shape, weight.to(total.dtype), bias.to(total.dtype), eps)
    return [result.to(kept.dtype), kept]


def add_rms_norm(x, residual, weight, input_bias, normalized_shape, eps):
    total = wide_sum(x, residual, input_bias)
    kept = total.to(torch.promote_types(x.dtype, residual.dtype))
    return [F.rms_norm(kept.to(total.dtype), normalized_shape, weight.to(total.dtype), eps).to(kept.dtype), kept]


def batch_norm_relu(x, weight, bias, residual=None, eps=1e-5):
    y = F.batch_norm(x, None, None, weight, bias, True, 0, eps)
    return F.relu(y if residual is None else y + residual)


def blocks_of_8_bits(x):
    """Blocks of 32 numbers: a float16 factor, and integers up to 127 times it."""
    blocks = x.reshape(-1, 32)
    factor = blocks.abs().amax(1, keepdim=True) / 127
    scaled = torch.where(factor == 0, 0, blocks * (1 / factor))  # as llama.cpp rounds
    steps = torch.trunc(scaled + torch.copysign(torch.tensor(0.5), scaled))
    return (steps * factor.half().float()).view(x.shape)


# ---- products ----------------------------------------------------------------------------------------

ACTIVATIONS = {"none": lambda x: x, "relu": F.relu, "gelu": F.gelu, "silu": F.silu, "sigmoid": torch.sigmoid,
               "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "tanh": torch.tanh}


def linear_activation(x, w, b, activation, keep_argument):
    return ACTIVATIONS[activation](F.linear(x, w, b))


def feed_forward(x, w1, w2, b1, b2, activation, keep_argument):
    return F.linear(ACTIVATIONS[activation](F.linear(x, w1, b1)), w2, b2)


def rotary(cos, sin, *rows, interleaved, inverse):
    def turned(x):
        wide, half = x.to(torch.promote_types(x.dtype, cos.dtype)), cos.shape[-1]
        s = -sin if inverse else sin
        if interleaved:
            a, b = wide[..., 0:2 * half:2], wide[..., 1:2 * half:2]
            pairs = torch.stack([a * cos - b * s, b * cos + a * s], -1).flatten(-2)
        else:
            a, b = wide[..., :half], wide[..., half:2 * half]
            pairs = torch.cat([a * cos - b * s, b * cos + a * s], -1)
        return torch.cat([pairs, wide[..., 2 * half:]], -1).to(x.dtype)
    return [turned(x) for x in rows]


# ---- optimizer steps ---------------------------------------------------------------------------------

def stepped(kind, state_names, param, grad, states, step, **options):
    """PyTorch's own optimizer, with given states; its parameter and states afterwards."""
    leaf = param.detach().clone().requires_grad_()
    leaf.grad = grad.detach().clone()
    optimizer = kind([leaf], **options)
    optimizer.state[leaf] = {"step": torch.tensor(float(step - 1)),
                             **{name: x.detach().clone() for name, x in zip(state_names, states)}}
    optimizer.step()
    return [leaf.detach(), *[optimizer.state[leaf][name] for name in state_names]]


def their_adam(param, grad, *states, decoupled, amsgrad, maximize, step, lr, weight_decay, **_):
    names = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"][:len(states)]
    return stepped(torch.optim.AdamW if decoupled else torch.optim.Adam, names, param, grad, states, step, lr=lr,
                   weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize, betas=(0.9, 0.999))


def our_adam(param, grad, *states, **attributes):
    return glue.adam_list(param, *states, grad, count=1, states=len(states), **attributes)


def adam_line(amsgrad):
    dense = [of(3, 4, varied=False, grad=False), of(3, 4, varied=False, grad=False),
             of(3, 4, varied=False, grad=False), *[positive(3, 4)] * (2 if amsgrad else 1)]
    return Line(*dense, ours=our_adam, theirs=their_adam, decoupled=flag, amsgrad=amsgrad, maximize=flag,
                step=one_of(1, 2, 1000), lr=one_of(1e-3, 0.1), weight_decay=one_of(0.0, 0.1), grads=False)


def their_sgd(param, grad, momentum_buffer, momentum, nesterov, weight_decay, lr, maximize, **_):
    return stepped(torch.optim.SGD, ["momentum_buffer"], param, grad, [momentum_buffer], 1, lr=lr, momentum=momentum,
                   nesterov=nesterov, weight_decay=weight_decay, maximize=maximize)


def clipped(*tensors, limit):
    leaves = [torch.zeros_like(x) for x in tensors]
    for leaf, x in zip(leaves, tensors):
        leaf.grad = x.detach().clone()
    total = torch.nn.utils.clip_grad_norm_(leaves, limit)
    return [*[leaf.grad for leaf in leaves], total]


def our_clipped(*tensors, limit):
    total = glue.list_norm(*tensors)
    return [*glue.list_clip(*tensors, total, limit=limit), total]


SINGLE = ["float32", "float64"]
# Dense: where the input is stored with its channels last, PyTorch reads beyond expanded ones.
FACTORS = of(2, varied=False)
LINES = {
    "add_layer_norm": Line(of(2, 3, 4), wider(2, 3, 4), wider(4), wider(4), of(4), normalized_shape=[4], eps=1e-5,
                           ours=lambda *x, **a: list(glue.add_layer_norm(*x, **a))[:2], theirs=add_layer_norm),
    "add_rms_norm": Line(of(2, 3, 4), wider(2, 3, 4), wider(4), of(4), normalized_shape=[4], eps=1e-5,
                         ours=lambda *x, **a: list(glue.add_rms_norm(*x, **a))[:2], theirs=add_rms_norm),
    "batch_norm": Line(of(3, 2, 2, 2, dtypes=SINGLE), of(2, grad=False, varied=False), positive(2), FACTORS, FACTORS,
                       training=flag, first=True, theirs=lambda x, m, v, w, b, training: F.batch_norm(
                           x, m.detach().clone(), v.clone(), w, b, training)),
    "batch_norm_relu": Line(of(3, 2, 2, 2, dtypes=SINGLE), FACTORS, FACTORS, first=True, theirs=batch_norm_relu),
    "batch_norm_add_relu": Line(of(3, 2, 2, 2, dtypes=SINGLE), FACTORS, FACTORS, of(3, 2, 2, 2), first=True,
                                ours=glue.batch_norm_relu, theirs=batch_norm_relu),
    "linear_group": Line(of(3, 4, dtypes=SINGLE), of(2, 4), of(5, 4), of(1, 4),
                         theirs=lambda x, *weights: [F.linear(x, w) for w in weights]),
    "linear_activation": Line(of(3, 4, dtypes=SINGLE), of(5, 4), of(5), activation=one_of(*ACTIVATIONS), first=True,
                              keep_argument=flag, theirs=linear_activation),
    "feed_forward": Line(of(3, 4, dtypes=SINGLE), of(5, 4), of(2, 5), of(5), of(2), first=True,
                         activation=one_of(*ACTIVATIONS), keep_argument=flag, theirs=feed_forward),
    "rotary": Line(of(3, 2, dtypes=SINGLE, grad=False), of(3, 2, grad=False), of(2, 3, 6), of(2, 3, 6),
                   interleaved=flag, inverse=flag, theirs=rotary),
    "gate_of_pairs": Line(of(3, 8, dtypes=SINGLE), ours=lambda x: glue.gate(x, gate="glu", dim=-1), theirs=F.glu),
    "cdist": Line(of(3, 4, dtypes=SINGLE), of(5, 4), p=one_of(1.0, 2.0, 3.0, float("inf")),
                  theirs=lambda x, y, p: torch.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist")),
    "col2im": Line(of(2, 12, 6, dtypes=SINGLE), output_size=[3, 4], kernel_size=[2, 2], dilation=[1, 1],
                   padding=[0, 0], stride=[1, 1],
                   theirs=lambda x, output_size, kernel_size, **_: F.fold(x, output_size, kernel_size)),
    "resize": Line(of(1, 2, 3, 4, dtypes=SINGLE), output_size=one_of([5, 7], [2, 2], [3, 4], [1, 6]),
                   method=one_of("linear", "cubic"), align_corners=flag, theirs=lambda x, **a: resized(x, **a)),
    "resize_nearest": Line(of(1, 2, 3, 4, dtypes=SINGLE), output_size=one_of([5, 7], [2, 2], [1, 6]), ours=glue.resize,
                           method=one_of("nearest", "nearest-exact"),
                           theirs=lambda x, output_size, method: F.interpolate(x, output_size, mode=method)),
    "resize_antialias": Line(of(1, 2, 6, 7, dtypes=SINGLE), output_size=one_of([4, 3], [2, 9]), ours=glue.resize,
                             method=one_of("linear", "cubic"), align_corners=flag, antialias=True,
                             theirs=lambda x, antialias, **a: resized(x, antialias=antialias, **a)),
    "attention_causal": Line(of(1, 2, 5, 4), of(1, 2, 5, 4), of(1, 2, 5, 2), first=True, ours=glue.attention,
                             is_causal=True, theirs=lambda *x, **a: F.scaled_dot_product_attention(*x, **a)),
    "attention_masked": Line(of(2, 2, 3, 4), of(2, 2, 5, 4), of(2, 2, 5, 2), of(2, 1, 3, 5, grad=False), first=True,
                             ours=glue.attention, theirs=F.scaled_dot_product_attention),
    "layer_norm_halves": Line(of(2, 3, 8, varied=False), of(8), of(8), first=True, ours=glue.layer_norm,
                              normalized_shape=[8],
                              theirs=lambda x, w, b, normalized_shape: F.layer_norm(x, normalized_shape, w, b)),
    "convolution_1d": Line(of(2, 4, 7, dtypes=SINGLE), of(6, 2, 3), of(6), first=True, ours=glue.convolution, groups=2,
                           stride=one_of([1], [2]), padding=one_of([0], [2]), dilation=one_of([1], [2]),
                           theirs=F.conv1d),
    "convolution_3d": Line(of(1, 2, 4, 3, 5, dtypes=SINGLE), of(3, 2, 2, 2, 3), of(3), ours=glue.convolution,
                           stride=one_of([1, 1, 1], [2, 1, 2]), padding=one_of([0, 0, 0], [1, 0, 1]),
                           dilation=[1, 1, 1], theirs=F.conv3d),
    "convolution_transposed": Line(of(2, 4, 3, 3, dtypes=SINGLE), of(4, 3, 3, 2), of(6), ours=glue.convolution,
                                   groups=2, stride=one_of([2, 2], [3, 2]), padding=one_of([0, 0], [1, 1]),
                                   transposed=True, dilation=one_of([1, 1], [2, 1]),
                                   output_padding=one_of([0, 0], [1, 1]),
                                   theirs=lambda x, w, b, transposed, **a: F.conv_transpose2d(x, w, b, **a)),
    "quantize": Line(of(3, 64, dtypes=["float32"], grad=False), grads=False, theirs=blocks_of_8_bits,
                     ours=lambda x: glue.dequantize(glue.quantize(glue.contiguous(x), dtype="q8_0"), dtype="float32")),
    "likely_tokens": Line(of(4, 9, dtypes=["float32"], grad=False), grads=False, k=one_of(1, 3, 9),
                          p=one_of(0.3, 0.9, 1.0), draw=lambda r, s: r.randrange(1000),
                          ours=lambda x, **a: likely(x, **a), theirs=lambda x, **a: torch.ones(4, dtype=torch.bool)),
    "embedding_bag": Line(of(5, 3, dtypes=SINGLE), indices(6, 5),
                          lambda r, s, b: chosen(r, [3], iter([0, 2, 2]).__next__),
                          mode=one_of("sum", "mean", "max"), first=True,
                          theirs=lambda w, i, o, mode: F.embedding_bag(i, w, o, mode=mode)),
    "scatter_combine": Line(of(4, 2, dtypes=SINGLE), lambda r, s, b: chosen(r, [3, 2], lambda: r.randrange(4)),
                            of(3, 2), dim=0, combine=one_of("prod", "amax", "amin"),
                            theirs=lambda x, i, s, dim, combine: x.scatter_reduce(dim, i, s, combine)),
    "binary_entropy_of_logit": Line(of(3, 2, dtypes=SINGLE), marks(3, 2), positive(2),
                                    theirs=lambda x, t, w: F.binary_cross_entropy_with_logits(
                                        x, t, pos_weight=w, reduction="none")),
    "divergence": Line(of(3, 2, dtypes=SINGLE), positive(3, 2), theirs=lambda x, t: F.kl_div(x, t, reduction="none")),
    "divergence_of_logs": Line(of(3, 2, dtypes=SINGLE), of(3, 2),
                               theirs=lambda x, t: F.kl_div(x, t, reduction="none", log_target=True)),
    "poisson_nll_of_log": Line(of(3, 2, dtypes=SINGLE), positive(3, 2),
                               theirs=lambda x, t: F.poisson_nll_loss(x, t, reduction="none")),
    "gaussian_nll": Line(of(3, 2, dtypes=SINGLE), of(3, 2), positive(3, 2),
                         theirs=lambda x, t, v: F.gaussian_nll_loss(x, t, v, reduction="none")),
    "hinge_embedding": Line(of(3, 2, dtypes=SINGLE), marks(3, 2, of_values=(-1, 1)), margin=one_of(0.5, 1.0),
                            theirs=lambda x, t, margin: F.hinge_embedding_loss(x, t, margin, reduction="none")),
    "margin_ranking": Line(of(3, 2, dtypes=SINGLE), of(3, 2), marks(3, 2, of_values=(-1, 1)), margin=one_of(0.0, 0.5),
                           theirs=lambda x, y, t, margin: F.margin_ranking_loss(x, y, t, margin, reduction="none")),
    "ctc_loss": Line(lambda r, s, b: log_probabilities(r), lambda r, s, b: chosen(r, [2, 3], lambda: r.randint(1, 3)),
                     input_lengths=one_of([6, 6], [6, 4]), target_lengths=one_of([3, 3], [2, 3], [1, 2]), first=True,
                     theirs=lambda x, t, **a: F.ctc_loss(x, t, reduction="none", **a)),
    "adam_list": adam_line(False),
    "adam_list_amsgrad": adam_line(True),
    "sgd_list": Line(*[of(3, 4, varied=False, grad=False)] * 3, momentum=0.9, nesterov=flag, lr=one_of(1e-3, 0.1),
                     weight_decay=one_of(0.0, 0.1), maximize=flag, grads=False, theirs=their_sgd,
                     ours=lambda p, g, m, **a: glue.sgd_list(p, m, g, count=1, states=1, **a)),
    "list_clip": Line(of(3, 4, dtypes=SINGLE, varied=False, grad=False), of(5, varied=False, grad=False),
                      limit=one_of(1.0, 100.0), ours=our_clipped, theirs=clipped, grads=False),
    "best_tokens": Line(of(4, 9, dtypes=["float32"], grad=False), grads=False, theirs=lambda x: x.argmax(-1),
                        ours=lambda x: glue.sample_tokens(glue.contiguous(x), rows([0.0, 1.0, 0.0], "float64"),
                                                          rows([5, 1, 0], "int64"))),
}


def rows(row, dtype):
    """The same numbers for each of four rows of logits."""
    return glue.Tensor([row] * 4, dtype=dtype)


def log_probabilities(rng):
    sample = make(rng, "float64", [6, 2, 4], True, False, calm=True)
    sample.views = lambda leaf: leaf.log_softmax(-1)
    sample.theirs, sample.ours = sample.views(sample.theirs), glue.log_softmax(sample.ours, dim=-1)
    return sample


def resized(x, output_size, method, align_corners, antialias=False):
    return F.interpolate(x, output_size, mode="bi" + method, align_corners=align_corners, antialias=antialias)


def likely(logits, k, p, draw):
    """Whether each drawn token is one of the k likeliest that together have probability p."""
    tokens = glue.sample_tokens(glue.contiguous(logits), rows([0.8, p, 0.0], "float64"), rows([k, 7, draw], "int64"))
    highest, order = torch.tensor(logits.tolist()).sort(dim=-1, descending=True, stable=True)
    shares, order = highest[:, :k].softmax(-1), order[:, :k]
    before = shares.cumsum(-1) - shares
    allowed = [set(o[b < p + 1e-5].tolist()) for o, b in zip(order, before)]
    return glue.Tensor([token in kept for token, kept in zip(tokens.tolist(), allowed)], dtype="bool")
