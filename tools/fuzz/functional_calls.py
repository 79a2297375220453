"""Calls of the functions of neural networks; function_calls.py says what a line is."""
import torch

REDUCE = ("none", "mean", "sum")
NAMES = {1: "1d", 2: "2d", 3: "3d"}
SPACE = {1: (7,), 2: (5, 6), 3: (4, 3, 5)}


def image(d, n, channels=2):
    return d.x(*d.pick([2], [1], [] if channels else [2]), channels, *SPACE[n])


def per_dim(d, n, *choices):
    """A number, or one for each dim."""
    return d.pick(d.rng.choice(choices), tuple(d.rng.choice(choices) for _ in range(n)))


def convolution(n):
    def draw(d):
        groups = d.pick(1, 2)
        padding = d.pick(per_dim(d, n, 0, 1, 2), "valid", "same")
        return d(image(d, n, 4), d.x(d.pick(2, 6), 4 // groups, *[d.pick(1, 2, 3) for _ in range(n)]),
                 None, stride=1 if padding == "same" else per_dim(d, n, 1, 2), padding=padding,
                 dilation=per_dim(d, n, 1, 2), groups=groups)
    return draw


def transposed(n):
    def draw(d):
        groups, out = d.pick(1, 2), d.pick(1, 3)
        stride = d.pick(2, 3)
        return d(image(d, n, 4), d.x(4, out, *[d.pick(1, 2, 3) for _ in range(n)]), d.pick(None, d.x(out * groups)),
                 stride=stride, padding=per_dim(d, n, 0, 1), output_padding=per_dim(d, n, 0, 1), groups=groups,
                 dilation=per_dim(d, n, 1, 2))
    return draw


def avg_pool(n):
    return lambda d: d(image(d, n), per_dim(d, n, 1, 2, 3), stride=d.pick(None, 1, 2), padding=d.pick(0, 0, 1),
                       ceil_mode=d.flag(), count_include_pad=d.flag(),
                       **({} if n == 1 else {"divisor_override": d.pick(None, 3)}))


def distinct_image(d, n):
    return d.distinct(*d.pick([2, 2], [2]), *SPACE[n])


def max_pool(n):
    return lambda d: d(distinct_image(d, n), per_dim(d, n, 1, 2, 3), stride=d.pick(None, 1, 2),
                       padding=d.pick(0, 0, 1),
                       dilation=d.pick(1, 2), ceil_mode=d.flag(), return_indices=d.flag())


def unpool(n):
    def draw(d):
        pooled, places = getattr(torch.nn.functional, f"max_pool{n}d")(
            distinct_image(d, n).theirs.detach(), 2, return_indices=True)
        return d(d.of(pooled, True), d.of(places), 2, output_size=d.pick(None, SPACE[n]))
    return draw


def adaptive(n):
    return lambda d: d(distinct_image(d, n), d.pick(1, 2,
                                                    tuple(d.pick(1, 2, 3, 7,
                                                                 None) for _ in range(n))) if n > 1 else d.pick(1, 3,
                                                                                                                9))


def interpolate(d):
    n = d.pick(1, 2, 3)
    mode = d.pick("nearest", "nearest-exact", "area", {1: "linear", 2: d.pick("bilinear", "bicubic"),
                                                       3: "trilinear"}[n])
    smooth = mode in ("linear", "bilinear", "bicubic", "trilinear")
    options = {"mode": mode, "align_corners": d.pick(None, True, False) if smooth else None}
    if mode in ("bilinear", "bicubic"):
        options["antialias"] = d.flag()
    if d.flag():
        options["size"] = d.pick(d.pick(1, 3, 6), tuple(d.pick(1, 2, 5, 8) for _ in range(n)))
    else:
        options["scale_factor"] = d.pick(0.5, 1.7, 2, tuple(d.pick(0.6, 1.0, 1.5, 2.3) for _ in range(n)))
        options["recompute_scale_factor"] = d.pick(None, True)
    return d(d.x(d.pick(1, 2), 2, *SPACE[n]), **options)


def grid_sample(d):
    n = d.pick(2, 2, 3)
    modes = ("bilinear", "nearest", "bicubic") if n == 2 else ("bilinear", "nearest")
    grid = d.of(torch.tensor([d.rng.uniform(-1.6, 1.6) for _ in range(2 * 6 * n)], dtype=getattr(torch, d.dtype))
                .view(2, *d.pick([2, 3], [3, 2]), *[1] * (n - 2), n), True)
    return d(d.x(2, d.pick(1, 3), *SPACE[n]), grid, mode=d.rng.choice(modes), align_corners=d.flag(),
             padding_mode=d.pick("zeros", "border", "reflection"))


def affine_grid(d):
    n = d.pick(2, 3)
    return d(d.x(2, n, n + 1), [2, 1, *[d.pick(1, 3, 4) for _ in range(n)]], align_corners=d.flag())


def pad(d):
    mode = d.pick("constant", "reflect", "replicate", "circular")
    x = d.x(2, 3, 4, 5)
    limit = 3 if mode != "constant" else 4
    amounts = [d.rng.randrange(-1 if mode == "constant" else 0, limit) for _ in range(d.pick(2, 4))]
    return d(x, amounts, mode=mode, value=d.pick(None, 1.5) if mode == "constant" else None)


def embedding_bag(d):
    mode, weights = d.pick("sum", "mean", "max"), None
    if d.flag():
        index, offsets = d.ints(3, d.pick(0, 1, 4), below=5), None
    else:
        index, offsets = d.ints(6, below=5), d.of(torch.tensor(sorted([0] + [d.rng.randrange(7) for _ in range(2)])))
    if mode == "sum" and d.flag():
        weights = d.x(*index.theirs.shape, varied=False)
    return d(index, d.x(5, 3), offsets, mode=mode, per_sample_weights=weights, padding_idx=d.pick(None, 0, -1),
             include_last_offset=False)


def ctc_loss(d):
    batch, lengths = 2, [d.pick(2, 3), d.pick(0, 1, 3)]
    targets = d.ints(batch, 3, below=4, least=1) if d.flag() else d.ints(sum(lengths), below=4, least=1)
    return d(log_probabilities(d, 6, batch, 4), targets, [6, d.pick(4, 6)], lengths, reduction=d.rng.choice(REDUCE),
             zero_infinity=d.flag())


def log_probabilities(d, *sizes):
    return d.of(torch.randn(sizes, generator=torch.Generator().manual_seed(d.rng.randrange(2**30)),
                            dtype=getattr(torch, d.dtype)).log_softmax(-1), True)


def classified(name):
    def draw(d):
        space = d.pick([], [], [2], [2, 3])
        x = log_probabilities(d, 4, 3, *space)
        target = d.ints(4, *space, below=3)
        options = dict(weight=d.pick(None, d.positive(3, grad=False)), reduction=d.rng.choice(REDUCE),
                       ignore_index=d.pick(..., 1))
        if name == "cross_entropy":
            options["label_smoothing"] = d.pick(0.0, 0.2)
            if d.rng.random() < 0.3:
                options["ignore_index"] = ...
                target = d.of(log_probabilities(d, 4, 3, *space).theirs.detach().exp(), True)
        return d(x, target, **options)
    return draw


def pair_loss(**choices):
    def draw(d):
        sizes = d.sizes(d.pick(1, 2, 3))
        return d(d.x(*sizes), d.x(*sizes), reduction=d.rng.choice(REDUCE),
                 **{k: d.rng.choice(v) for k, v in choices.items()})
    return draw


def shares(d, *sizes):
    return d.of(torch.tensor([d.rng.uniform(0.02, 0.98) for _ in range(torch.Size(sizes).numel())],
                             dtype=getattr(torch, d.dtype)).view(sizes), True)


def signs(d, *sizes):
    return d.of(torch.tensor([d.rng.choice([-1.0, 1.0]) for _ in range(torch.Size(sizes).numel())],
                             dtype=getattr(torch, d.dtype)).view(sizes))


def attention(d):
    heads, groups, t, s, e = d.pick(2, 4), d.pick(1, 2), d.pick(1, 3, 7), d.pick(1, 5, 8), d.pick(2, 4, 8)
    mask = d.pick(None, None, d.x(t, s), d.x(2, 1, t, s, dtype="bool"))
    return d(d.x(2, heads, t, e), d.x(2, heads // groups, s, e), d.x(2, heads // groups, s, d.pick(e, 3)),
             attn_mask=mask,
             is_causal=mask is None and d.flag(), scale=d.pick(None, 0.3), enable_gqa=groups > 1)


GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def recurrent(name):
    """Layers of a recurrent network, on a batch or on packed sequences."""
    def draw(d):
        layers, directions, biases = d.pick(1, 2), d.pick(1, 2), d.flag()
        features, hidden, batch, steps = d.pick(1, 3), d.pick(1, 2, 4), d.pick(1, 3), d.pick(1, 2, 5)
        projected = 1 if name == "lstm" and hidden > 1 and d.rng.random() < 0.3 else 0
        output, parameters = projected or hidden, []
        for layer in range(layers):
            for _ in range(directions):
                rows, width = GATES[name] * hidden, output * directions if layer else features
                parameters += [d.x(rows, width), d.x(rows, output)] + ([d.x(rows), d.x(rows)] if biases else [])
                parameters += [d.x(projected, hidden)] if projected else []
        state = d.x(layers * directions, batch, output)
        if name == "lstm":
            state = (state, d.x(layers * directions, batch, hidden))
        if d.flag():
            lengths = sorted((d.rng.randint(1, steps) for _ in range(batch)), reverse=True)
            sizes = torch.tensor([sum(n > t for n in lengths) for t in range(lengths[0])])
            return d(d.x(sum(lengths), features), d.of(sizes), state, parameters, biases, layers, 0.0, False,
                     directions == 2)
        first = d.flag()
        return d(d.x(*((batch, steps) if first else (steps, batch)), features), state, parameters, biases, layers,
                 0.0, False,
                 directions == 2, first)
    return draw


def cell(name):
    def draw(d):
        features, hidden, batch = d.pick(1, 3), d.pick(1, 2, 4), d.pick(1, 3)
        rows, state = GATES[name] * hidden, d.x(batch, hidden)
        biases = [d.x(rows), d.x(rows)] if d.flag() else []
        return d(d.x(batch, features), (state, d.x(batch, hidden)) if name == "lstm" else state, d.x(rows, features),
                 d.x(rows, hidden), *biases)
    return draw


def batch_norm(d):
    training = d.flag()
    return d(d.x(3, 2, *d.pick([], [4], [2, 3])), d.x(2, grad=False, varied=False), d.positive(2, grad=False),
             d.x(2, varied=False), d.x(2, varied=False),
             training=training, momentum=0.1, eps=1e-5)


def norm_of(d, *sizes):
    return d.pick([None, None], [d.x(*sizes, varied=False), d.x(*sizes, varied=False)])


FUNCTIONS = {
    **{f"conv{n}d": convolution(n) for n in NAMES}, **{f"conv_transpose{n}d": transposed(n) for n in NAMES},
    **{f"avg_pool{n}d": avg_pool(n) for n in NAMES}, **{f"max_pool{n}d": max_pool(n) for n in NAMES},
    **{f"max_unpool{n}d": unpool(n) for n in NAMES},
    **{f"adaptive_{k}_pool{n}d": adaptive(n) for n in NAMES for k in ("avg", "max")},
    **{f"lp_pool{n}d": (lambda d, n=n: d(image(d, n), d.pick(1.0, 2.0, 3.0), d.pick(2, 3), stride=d.pick(None, 1),
                                         ceil_mode=d.flag())) for n in NAMES},
    "interpolate": interpolate, "grid_sample": grid_sample, "affine_grid": affine_grid, "pad": pad,
    "unfold": lambda d: d(d.x(2, 2, 5, 6), per_dim(d, 2, 1, 2, 3), dilation=per_dim(d, 2, 1, 2),
                          padding=per_dim(d, 2, 0, 1), stride=per_dim(d, 2, 1, 2)),
    "fold": lambda d: d(d.x(*d.pick([2], []), 8, 12), (4, 5), 2),
    "pixel_shuffle": lambda d: d(d.x(1, 8, 2, 3), d.pick(1, 2, 3)),
    "pixel_unshuffle": lambda d: d(d.x(1, 2, 4, 6), d.pick(1, 2, 3)),
    "channel_shuffle": lambda d: d(d.x(1, 6, 2), d.pick(1, 2, 3, 4)),
    "embedding": lambda d: d(d.ints(*d.sizes(d.pick(0, 1, 2)), below=5), d.x(5, 3), padding_idx=d.pick(None, 0, -1),
                             scale_grad_by_freq=d.flag()),
    "embedding_bag": embedding_bag, "one_hot": lambda d: d(d.ints(*d.sizes(d.pick(0, 1, 2)), below=4), d.pick(4, 6)),
    "linear": lambda d: d(d.x(*d.sizes(d.pick(0, 1, 2)), 3), d.x(4, 3), d.pick(None, d.x(4))),
    "bilinear": lambda d: d(d.x(*(s := d.sizes(1)), 3), d.x(*s, 2), d.x(4, 3, 2), d.pick(None, d.x(4))),
    "scaled_dot_product_attention": attention,
    # Norms.
    "batch_norm": batch_norm, "instance_norm": lambda d: d(d.x(2, 3, 4), weight=d.pick(None, d.x(3, varied=False)),
                                                           eps=1e-5),
    "group_norm": lambda d: d(d.x(2, 6, *d.pick([], [3])), d.pick(1, 2, 3, 6, 4), *norm_of(d, 6)),
    "layer_norm": lambda d: d(d.x(2, 3, 4), *d.pick(([4], *norm_of(d, 4)), ([3, 4], *norm_of(d, 3, 4)))),
    "rms_norm": lambda d: d(d.x(2, 3, 4), [4], d.pick(None, d.x(4)), d.pick(None, 1e-3)),
    "normalize": lambda d: d(d.scaled(2, 3), p=d.pick(1.0, 2.0, 3.0), dim=d.pick(0, 1)),
    "local_response_norm": lambda d: d(d.x(2, 4, 3), d.pick(1, 2, 3), alpha=0.1, k=d.pick(1.0, 2.0)),
    "softmax": lambda d: d(d.x(*d.sizes(2), calm=d.flag()), dim=d.pick(0, 1, -1)),
    "softmin": lambda d: d(d.x(2, 3), dim=d.pick(0, 1)),
    "log_softmax": lambda d: d(d.x(*d.sizes(2)), dim=d.pick(0, 1, -1)),
    "cosine_similarity": lambda d: d(d.scaled(2, 3), d.scaled(d.pick(1, 2), 3), dim=d.pick(0, 1)),
    "pairwise_distance": lambda d: d(d.scaled(2, 3), d.scaled(2, 3), p=d.pick(1.0, 2.0, 3.0), keepdim=d.flag()),
    "pdist": lambda d: d(d.x(d.pick(1, 4), 3), d.pick(0.0, 1.0, 2.0, 3.0)),
    # Activations with numbers.
    "elu": lambda d: d(d.any(dtypes=["float32", "bfloat16"]), alpha=d.pick(1.0, 0.5)),
    "celu": lambda d: d(d.x(2, 3), alpha=d.pick(1.0, 0.5)),
    "leaky_relu": lambda d: d(d.x(2, 3, calm=False), negative_slope=d.pick(0.01, 0.5)),
    "hardtanh": lambda d: d(d.x(2, 3), d.pick(-1.0, 0.0), d.pick(1.0, 2.0)),
    "softplus": lambda d: d(d.x(2, 3, calm=False), beta=d.pick(1, 2), threshold=d.pick(20, 1)),
    "threshold": lambda d: d(d.x(2, 3), d.pick(0.1, 1.0), d.pick(0.0, 9.0)),
    "hardshrink": lambda d: d(d.x(2, 3), d.pick(0.5, 1.0)), "softshrink": lambda d: d(d.x(2, 3),
                                                                                      d.pick(0.5, 1.0, 0.0)),
    "prelu": lambda d: d(d.x(2, 3, 2), d.x(d.pick(1, 3))), "glu": lambda d: d(d.x(4, 6), dim=d.pick(0, 1, -1)),
    "gelu": lambda d: d(d.x(2, 3), approximate=d.pick("none", "tanh")),
    # Losses.
    "ctc_loss": ctc_loss, "cross_entropy": classified("cross_entropy"), "nll_loss": classified("nll_loss"),
    "mse_loss": pair_loss(), "l1_loss": pair_loss(), "smooth_l1_loss": pair_loss(beta=(0.0, 0.5, 1.0)),
    "huber_loss": pair_loss(delta=(0.5, 1.0)),
    "kl_div": lambda d: d(log_probabilities(d, 3, 4), shares(d, 3, 4), reduction=d.pick(*REDUCE, "batchmean"),
                          log_target=d.flag()),
    "binary_cross_entropy": lambda d: d(shares(d, 2, 3), shares(d, 2, 3),
                                        weight=d.pick(None, d.positive(3, grad=False)),
                                        reduction=d.rng.choice(REDUCE)),
    "binary_cross_entropy_with_logits": lambda d: d(d.x(2, 3), shares(d, 2, 3),
                                                    weight=d.pick(None, d.positive(3, grad=False)),
                                                    pos_weight=d.pick(None, d.positive(3, grad=False)),
                                                    reduction=d.rng.choice(REDUCE)),
    "poisson_nll_loss": lambda d: d(d.positive(2, 3), d.positive(2, 3, grad=False), log_input=d.flag(), full=d.flag(),
                                    reduction=d.rng.choice(REDUCE)),
    "gaussian_nll_loss": lambda d: d(d.x(2, 3), d.x(2, 3), d.positive(2, d.pick(1, 3)), full=d.flag(),
                                     reduction=d.rng.choice(REDUCE)),
    "hinge_embedding_loss": lambda d: d(d.x(2, 3), signs(d, 2, 3), margin=d.pick(1.0, 0.3),
                                        reduction=d.rng.choice(REDUCE)),
    "margin_ranking_loss": lambda d: d(d.x(3), d.x(3), signs(d, 3), margin=d.pick(0.0, 0.3),
                                       reduction=d.rng.choice(REDUCE)),
    "cosine_embedding_loss": lambda d: d(d.x(3, 4), d.x(3, 4), signs(d, 3), margin=d.pick(0.0, 0.3),
                                         reduction=d.rng.choice(REDUCE)),
    "triplet_margin_loss": lambda d: d(d.x(3, 4), d.x(3, 4), d.x(3, 4), p=d.pick(1.0, 2.0), swap=d.flag(),
                                       reduction=d.rng.choice(REDUCE)),
    "multi_margin_loss": lambda d: d(d.x(4, 3), d.ints(4, below=3), p=d.pick(1, 2), margin=d.pick(1.0, 0.5),
                                     weight=d.pick(None, d.positive(3, grad=False)), reduction=d.rng.choice(REDUCE)),
    "multilabel_margin_loss": lambda d: d(d.x(2, 4),
                                          d.of(torch.tensor([d.pick([3, 0, -1, 1],
                                                                    [1, -1, 2, 0]) for _ in range(2)])),
                                                                    reduction=d.rng.choice(REDUCE)),
    "multilabel_soft_margin_loss": lambda d: d(d.x(2, 3), shares(d, 2, 3),
                                               weight=d.pick(None, d.positive(3, grad=False)),
                                               reduction=d.rng.choice(REDUCE)),
    "soft_margin_loss": lambda d: d(d.x(2, 3), signs(d, 2, 3), reduction=d.rng.choice(REDUCE)),
}
CALLS = {**{f"nn.functional.{name}": draw for name, draw in FUNCTIONS.items()},
         **{name: recurrent(name) for name in GATES}, **{f"{name}_cell": cell(name) for name in GATES}}
