"""Calls of modules and schedulers; composed_calls.py says what stands in the library's place."""
import torch

from samples import weights

SPACE = {1: (6,), 2: (5, 4), 3: (3, 4, 3)}


def results_of(value):
    return [x for v in value for x in results_of(v)] if isinstance(value, (list, tuple)) else [value]


def gradient_of(leaf):
    return leaf.grad if leaf.grad is not None else leaf.detach() * 0


def module(library, kind, arguments, options, inputs, parameters, training=True, **call):
    """What a module returns the second time, all gradients then, and its buffers."""
    built = getattr(library.nn, kind)(*arguments, **options)
    built = built.to((parameters or inputs)[0].dtype).train(training)
    with library.no_grad():
        for own, given in zip(built.parameters(), parameters):
            own.copy_(given)
    leaves = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    built(*leaves, **call)
    results = [x for x in results_of(built(*leaves, **call)) if x is not None]
    total = sum((x * library.tensor(weights(x.numel()), dtype=x.dtype).reshape(x.shape)).sum()
                for x in results if x.requires_grad)
    if not isinstance(total, int):
        total.backward()
    return [*[x.detach() for x in results], *[gradient_of(x) for x in leaves if x.is_floating_point()],
            *[gradient_of(x) for x in built.parameters()], *built.buffers()]


def scheduled(library, kind, options, rates, metrics, reload):
    """The rates of two groups after each step; after `reload` steps a new scheduler goes on."""
    leaves = [library.zeros(1, requires_grad=True) for _ in rates]
    optimizer = library.optim.SGD([{"params": [leaf], "lr": rate} for leaf, rate in zip(leaves, rates)], lr=1.0,
                                  momentum=0.9)
    build = getattr(library.optim.lr_scheduler, kind)
    scheduler, found = build(optimizer, **options), []
    for number, metric in enumerate(metrics):
        optimizer.step()
        scheduler.step(*([metric] if kind == "ReduceLROnPlateau" else []))
        found.append([group["lr"] for group in optimizer.param_groups])
        if number == reload:
            state = scheduler.state_dict()
            scheduler = build(optimizer, **options)
            scheduler.load_state_dict(state)
            for group, rate in zip(optimizer.param_groups, found[-1]):
                group["lr"] = rate
    return library.tensor(found, dtype=library.float64)


SCHEDULERS = {
    "StepLR": dict(step_size=(1, 3), gamma=(0.1, 0.5)),
    "MultiStepLR": dict(milestones=([2, 5], [1, 1, 4], []), gamma=(0.1, 0.5)),
    "ConstantLR": dict(factor=(0.5, 1.0), total_iters=(0, 3)),
    "LinearLR": dict(start_factor=(0.25, 1.0), end_factor=(1.0, 0.5), total_iters=(1, 4)),
    "ExponentialLR": dict(gamma=(0.9, 0.5)),
    "PolynomialLR": dict(total_iters=(1, 5), power=(1.0, 2.0)),
    "CosineAnnealingLR": dict(T_max=(1, 3, 5), eta_min=(0.0, 0.01)),
    "CosineAnnealingWarmRestarts": dict(T_0=(1, 3), T_mult=(1, 2), eta_min=(0.0, 0.01)),
    "CyclicLR": dict(base_lr=(0.01,), max_lr=(0.5,), step_size_up=(1, 3), step_size_down=(None, 2),
                     mode=("triangular", "triangular2", "exp_range"), gamma=(1.0, 0.9), cycle_momentum=(True, False)),
    "OneCycleLR": dict(max_lr=(0.5,), total_steps=(12, 20), pct_start=(0.3, 0.5), anneal_strategy=("cos", "linear"),
                       cycle_momentum=(True, False), three_phase=(True, False), div_factor=(25.0, 5.0)),
    "ReduceLROnPlateau": dict(mode=("min", "max"), factor=(0.1, 0.5), patience=(0, 1), threshold=(1e-4, 0.3),
                              threshold_mode=("rel", "abs"), cooldown=(0, 2), min_lr=(0, 0.02), eps=(1e-8, 0.05)),
}


def schedule(d):
    kind = d.rng.choice(list(SCHEDULERS))
    options = {key: d.rng.choice(values) for key, values in SCHEDULERS[kind].items()}
    count = d.pick(1, 4, 11)
    return d(kind, options, [0.1, d.pick(1.0, 0.003)], [d.rng.uniform(0, 2) for _ in range(count)],
             d.pick(None, d.rng.randrange(count)))


# ---- modules: the kind, the arguments, the options, the inputs and the call's options ------------------

def convolution(d):
    n, groups, transposed = d.pick(1, 2, 3), d.pick(1, 2), d.flag()
    options = dict(stride=d.pick(1, 2), padding=d.pick(0, 1), groups=groups, bias=d.flag(), dilation=d.pick(1, 2))
    if not transposed:
        options["padding_mode"] = d.pick("zeros", "reflect", "replicate", "circular")
    return (f"Conv{'Transpose' if transposed else ''}{n}d", (4, d.pick(2, 4), d.pick(1, 2, 3)), options,
            [d.x(*d.pick([2], []), 4, *SPACE[n])], {})


def channel_norm(d):
    n, kind = d.pick(1, 2, 3), d.pick("BatchNorm", "InstanceNorm")
    options = dict(affine=d.flag(), track_running_stats=d.flag(), eps=d.pick(1e-5, 0.1),
                   momentum=d.pick(0.1, None, 1.0) if kind == "BatchNorm" else d.pick(0.1, 1.0))
    space = SPACE[n] if n > 1 or kind == "InstanceNorm" or d.flag() else ()
    return f"{kind}{n}d", (3,), options, [d.x(4, 3, *space)], {}


def norm(d):
    kind, affine = d.pick("GroupNorm", "RMSNorm", "LayerNorm"), d.flag()
    if kind == "GroupNorm":
        return kind, (d.pick(1, 2, 4), 4), dict(affine=affine), [d.x(2, 4, *d.pick([], [3]))], {}
    options = dict(elementwise_affine=affine, eps=d.pick(1e-5, 0.1))
    if kind == "LayerNorm":
        options["bias"] = d.flag()
    return kind, (d.pick(4, [4], [3, 4]),), options, [d.x(2, 3, 4)], {}


def recurrent(d):
    kind = d.pick("LSTM", "GRU", "RNN")
    options = dict(num_layers=d.pick(1, 2), bidirectional=d.flag(), bias=d.flag(), batch_first=d.flag())
    options.update({"LSTM": {"proj_size": d.pick(0, 2)}, "GRU": {}, "RNN": {"nonlinearity": d.pick("tanh", "relu")}}[kind])
    return kind, (2, 3), options, [d.x(*d.pick([3, 2], [3]), 2)], {}


def attention(d):
    first, apart = d.flag(), d.rng.random() < 0.3
    options = dict(bias=d.flag(), batch_first=first, add_zero_attn=d.rng.random() < 0.2,
                   add_bias_kv=d.rng.random() < 0.2, **(dict(kdim=3, vdim=2) if apart else {}))
    batch, queries, keys = 2, 3, 5
    call = dict(need_weights=d.flag(), average_attn_weights=d.flag(), **masks(d, batch, queries, keys))

    def rows(count, features):
        return d.x(*((batch, count) if first else (count, batch)), features)
    return ("MultiheadAttention", (4, 2), options,
            [rows(queries, 4), rows(keys, 3 if apart else 4), rows(keys, 2 if apart else 4)], call)


def masks(d, batch, queries, keys, padding="key_padding_mask", mask="attn_mask"):
    """What attention leaves out, or adds; the first key is always kept."""
    call = {}
    if d.rng.random() < 0.3:
        left_out = torch.rand(batch, keys, generator=torch.Generator().manual_seed(d.rng.randrange(2**30))) < 0.4
        left_out[:, 0] = False
        call[padding] = d.of(left_out)
    if d.rng.random() < 0.3 and not call:
        call[mask] = d.x(queries, keys, grad=False, varied=False)
    return call


def transformer(d):
    first = d.flag()
    options = dict(dim_feedforward=5, dropout=0.0, activation=d.pick("relu", "gelu"), batch_first=first,
                   norm_first=d.flag(), bias=d.flag())
    if d.flag():
        return "TransformerEncoderLayer", (4, 2), options, [d.x(*((2, 3) if first else (3, 2)), 4)], masks(
            d, 2, 3, 3, "src_key_padding_mask", "src_mask")
    return "TransformerDecoderLayer", (4, 2), options, [d.x(*((2, n) if first else (n, 2)), 4) for n in (3, 5)], masks(
        d, 2, 3, 5, "memory_key_padding_mask", "memory_mask")


def embedded(d):
    options = dict(padding_idx=d.pick(None, 0, -1), max_norm=d.pick(None, 0.5), norm_type=d.pick(2.0, 1.0),
                   scale_grad_by_freq=d.flag())
    if d.flag():
        return "Embedding", (5, 3), options, [d.ints(*d.sizes(d.pick(1, 2)), below=5)], {}
    options.update(mode=d.pick("sum", "mean"), scale_grad_by_freq=False)
    return "EmbeddingBag", (5, 3), options, [d.ints(3, d.pick(1, 4), below=5)], {}


def simple(d):
    """Modules of a line."""
    kind, arguments, options, sizes = d.pick(
        ("Linear", (3, 4), dict(bias=d.flag()), [d.pick([3], [2, 3], [2, 0, 3])]),
        ("Bilinear", (3, 2, 4), dict(bias=d.flag()), [[2, 3], [2, 2]]),
        ("PReLU", (d.pick(1, 3),), {}, [[2, 3, 2]]), ("Softmax2d", (), {}, [d.pick([3, 2, 2], [1, 3, 2, 2])]),
        ("LSTMCell", (2, 3), dict(bias=d.flag()), [d.pick([4, 2], [2])]),
        ("GRUCell", (2, 3), dict(bias=d.flag()), [d.pick([4, 2], [2])]),
        ("RNNCell", (2, 3), dict(bias=d.flag(), nonlinearity=d.pick("tanh", "relu")), [d.pick([4, 2], [2])]),
        ("Flatten", (d.pick(0, 1), d.pick(-1, 2)), {}, [[2, 3, 4]]), ("Unflatten", (1, (2, 2)), {}, [[3, 4]]),
        ("Upsample", (), dict(scale_factor=d.pick(2, 1.5), mode=d.pick("nearest", "bilinear")), [[1, 2, 3, 4]]),
        ("ZeroPad2d", (d.pick(1, (1, 0, 2, 1), (-1, 1, 0, 0)),), {}, [[1, 2, 3, 4]]),
        ("ReflectionPad2d", (d.pick(1, (1, 0, 2, 1)),), {}, [[1, 2, 3, 4]]),
        ("CircularPad1d", (d.pick(1, (2, 1)),), {}, [[1, 2, 4]]),
        ("ReplicationPad3d", (d.pick(1, (1, 0, 2, 1, 0, 3)),), {}, [[1, 2, 3, 4, 2]]),
        ("ConstantPad1d", (d.pick(1, (2, -1)), 1.5), {}, [[2, 4]]),
        ("LocalResponseNorm", (d.pick(1, 2, 3),), dict(alpha=0.1), [[2, 4, 3]]),
        ("CosineSimilarity", (), dict(dim=d.pick(0, 1)), [[2, 3], [2, 3]]),
        ("PairwiseDistance", (), dict(p=d.pick(1.0, 2.0, 3.0), keepdim=d.flag()), [[2, 3], [2, 3]]))
    return kind, arguments, options, [d.x(*s) for s in sizes], {}


def build(d):
    """A module of one of these kinds, with parameters of the sizes that PyTorch's has."""
    if d.dtype in ("float16", "bfloat16") and d.rng.random() < 0.7:
        d.single()
    kind, arguments, options, inputs, call = d.pick(convolution, channel_norm, norm, recurrent, attention, transformer,
                                                    embedded, simple, simple)(d)
    sizes = [list(p.shape) for p in getattr(torch.nn, kind)(*arguments, **options).parameters()]
    return d(kind, arguments, options, inputs, [d.x(*s, grad=False, varied=False) for s in sizes], training=d.flag(), **call)


COMPOSED = {"module": module, "scheduled": scheduled}
CALLS = {"module": build, "scheduled": schedule}
