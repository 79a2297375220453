"""Calls that several statements make: assignments, optimizers, modules, conversions there and back.

A function here takes the library first, PyTorch or ours, and stands in its place.
"""
import torch

import argument_calls
import module_calls


def assigned(library, x, index, value):
    result = x.clone()
    result[index] = value
    return result


def clipped(library, kind, gradients, limit, norm):
    """Gradients after clipping, and what the function returns."""
    leaves = [library.zeros_like(x) for x in gradients]
    for leaf, gradient in zip(leaves, gradients):
        leaf.grad = gradient.detach().clone()
    if kind == "value":
        library.nn.utils.clip_grad_value_(leaves, limit)
        return [leaf.grad for leaf in leaves]
    return [library.nn.utils.clip_grad_norm_(leaves, limit, norm), *[leaf.grad for leaf in leaves]]


def optimized(library, kind, parameters, gradients, options, reload=None):
    """Parameters after a step for each list of gradients; after `reload` of them a new optimizer goes on."""
    leaves = [x.detach().clone().requires_grad_() for x in parameters]
    build = getattr(library.optim, kind)
    optimizer = build(leaves, **options)
    for number, step in enumerate(gradients):
        for leaf, gradient in zip(leaves, step):
            leaf.grad = None if gradient is None else gradient.detach().clone()
        optimizer.step()
        if number == reload:
            state, optimizer = optimizer.state_dict(), build(leaves, **options)
            optimizer.load_state_dict(state)
    return [leaf.detach() for leaf in leaves]


def minimized(library, parameters, options, steps):
    """Parameters after steps of LBFGS on the sum of (x - 1)^2 (x + 2)^2, and the losses."""
    leaves = [x.detach().clone().requires_grad_() for x in parameters]
    optimizer, losses = library.optim.LBFGS(leaves, **options), []

    def closure():
        optimizer.zero_grad()
        loss = sum(((x - 1)**2 * (x + 2)**2).sum() for x in leaves)
        loss.backward()
        return loss
    for _ in range(steps):
        losses.append(optimizer.step(closure).detach())
    return [*[leaf.detach() for leaf in leaves], *losses]


def rounded(library, x, dtype):
    return x.to(getattr(library, dtype)).to(x.dtype)


def packed(library, kind, x, lengths, parameters, first):
    """A recurrent module on sequences of several lengths, packed and padded again."""
    hidden = parameters[1].shape[1]
    module = getattr(library.nn, kind)(x.shape[2], hidden, batch_first=first).to(x.dtype)
    with library.no_grad():
        for own, given in zip(module.parameters(), parameters):
            own.copy_(given)
    rnn = library.nn.utils.rnn
    given = rnn.pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
    output, state = module(given)
    padded, counts = rnn.pad_packed_sequence(output, batch_first=first, padding_value=1.5)
    return [padded, counts, state]


COMPOSED = {**{function.__name__: function for function in (assigned, clipped, optimized, minimized, rounded, packed)},
            **module_calls.COMPOSED, **argument_calls.COMPOSED}

OPTIONS = {
    "SGD": dict(lr=(0.1,), momentum=(0, 0.9), dampening=(0, 0.5), weight_decay=(0, 0.1)),
    "Adam": dict(lr=(0.1, 1e-3), betas=((0.9, 0.999), (0.5, 0.8)), eps=(1e-8, 1e-3), weight_decay=(0, 0.1),
                 amsgrad=(True, False)),
    "AdamW": dict(lr=(0.1, 1e-3), weight_decay=(0.01, 0.1), amsgrad=(True, False)),
    "RMSprop": dict(lr=(0.1,), alpha=(0.99, 0.5), weight_decay=(0, 0.1), momentum=(0, 0.9), centered=(True, False)),
    "Adagrad": dict(lr=(0.1,), lr_decay=(0, 0.1), weight_decay=(0, 0.1), initial_accumulator_value=(0, 0.5)),
    "Adadelta": dict(lr=(1.0, 0.1), rho=(0.9, 0.5), weight_decay=(0, 0.1)),
    "Adamax": dict(lr=(0.1,), weight_decay=(0, 0.1)),
    "NAdam": dict(lr=(0.1,), weight_decay=(0, 0.1), momentum_decay=(0.004, 0.1),
                  decoupled_weight_decay=(True, False)),
    "RAdam": dict(lr=(0.1,), weight_decay=(0, 0.1), decoupled_weight_decay=(True, False)),
    "ASGD": dict(lr=(0.1,), lambd=(1e-4, 0.1), alpha=(0.75,), t0=(0, 2, 1e6), weight_decay=(0, 0.1)),
    "Rprop": dict(lr=(0.1, 1e-3), etas=((0.5, 1.2), (0.3, 1.5)), step_sizes=((1e-6, 50), (0.05, 0.2))),
    "Muon": dict(lr=(0.1,), weight_decay=(0.1, 0.0), momentum=(0.95, 0.5), nesterov=(True, False)),
    "Adafactor": dict(lr=(0.1,), beta2_decay=(-0.8,), d=(1.0, 0.5), weight_decay=(0, 0.1)),
}


def optimizer(d):
    kind = d.rng.choice(list(OPTIONS))
    options = {key: d.rng.choice(values) for key, values in OPTIONS[kind].items()}
    if kind != "Muon":
        options["maximize"] = d.flag()
    if kind == "ASGD":
        d.dtype = "float32"  # as precise as PyTorch's step size is
    if kind == "SGD" and options["momentum"] and not options["dampening"]:
        options["nesterov"] = d.flag()
    sizes = [d.pick(*([[3, 4], [5], [2, 1, 3]] if kind != "Muon" else [[3, 4], [4, 2]])) for _ in range(d.pick(1, 3))]
    # Some parameters have no gradient in some steps.
    steps = [[d.x(*s, grad=False) if d.rng.random() < 0.9 else None for s in sizes] for _ in range(d.pick(1, 2, 6))]
    return d(kind, [d.x(*s, grad=False, varied=False) for s in sizes], steps, options,
             d.pick(None, None, d.rng.randrange(len(steps))))


def lbfgs(d):
    options = dict(lr=d.pick(1.0, 0.1), max_iter=d.pick(1, 4, 20), max_eval=d.pick(None, 5), history_size=d.pick(1, 10),
                   tolerance_change=d.pick(1e-9, 1e-3), line_search_fn=d.pick(None, "strong_wolfe"))
    d.single()
    return d([d.x(*s, grad=False, varied=False) for s in d.pick([[3]], [[2, 2], [1]])], options, d.pick(1, 3))


def clip(d):
    gradients = [d.x(*d.sizes(d.pick(1, 2)), grad=False) for _ in range(d.pick(1, 3))]
    return d(d.pick("value", "norm"), gradients, d.pick(0.5, 100.0), d.pick(1.0, 2.0, float("inf"), 3.0))


def assignment(subscript):
    def draw(d):
        sizes = [max(size, 1) for size in d.sizes(d.pick(1, 2, 3))]
        return d(d.x(*sizes, dtype=d.pick(d.dtype, "int64", "bfloat16")), subscript(d, sizes),
                 d.pick(2, d.x(dtype=d.pick(d.dtype, "int64"))))
    return draw


def sequences(d):
    kind = d.pick("LSTM", "GRU", "RNN")
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    features, hidden, batch, first = d.pick(1, 3), d.pick(1, 4), d.pick(1, 3), d.flag()
    lengths = [d.rng.randint(1, 5) for _ in range(batch)]
    steps = max(lengths)
    parameters = [d.x(rows * hidden, n, grad=False) for n in (features, hidden)] + [d.x(rows * hidden,
                                                                                        grad=False)] * 2
    return d(kind, d.x(*((batch, steps) if first else (steps, batch)), features), d.of(torch.tensor(lengths)),
             parameters, first)


def calls(subscript):
    return {**module_calls.CALLS, **argument_calls.CALLS, "assigned": assignment(subscript), "clipped": clip, "optimized": optimizer, "minimized": lbfgs,
            "packed": sequences,
            "rounded": lambda d: d(d.any(dtypes=["float32", "float64", "bfloat16"]),
                                   d.pick("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16"))}
