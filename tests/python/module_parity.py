#!/usr/bin/env python3
"""Runs PyTorch's ModuleInfo and optimizer samples through tensora and compares results, gradients, states and weights.

Needs PyTorch with its test data (torch.testing._internal), so it is no part of the test suite:
    python tests/python/module_parity.py (modules | optimizers) [--name NAME]
"""
import argparse
import collections
import copy
import io
import pickle
import re
import warnings

import opinfo_parity as parity
import tensora
import torch


def converted(value):
    """PyTorch's arguments as ours, modules and sequences of packed rows too."""
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return tensora.nn.utils.rnn.PackedSequence(*(converted(v) for v in value))
    if isinstance(value, torch.nn.Module):
        return paired(value)
    if value is torch.nn.functional.relu or value is torch.nn.functional.gelu:
        return getattr(tensora.nn.functional, value.__name__)
    if isinstance(value, (list, tuple)):
        items = [converted(v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: converted(v) for k, v in value.items()}
    return parity.converted(value)


def paired(module):
    """A module of PyTorch that is an argument of another."""
    made = getattr(tensora.nn, type(module).__name__)
    if isinstance(module, torch.nn.TransformerEncoderLayer):
        layer = made(module.self_attn.embed_dim, module.self_attn.num_heads, module.linear1.out_features, module.dropout.p,
                     batch_first=module.self_attn.batch_first, norm_first=module.norm_first,
                     bias=module.linear1.bias is not None)
        layer.load_state_dict(states(module))
        return layer
    raise NotImplementedError(type(module).__name__)


def states(module):
    return {k: parity.converted(v) if isinstance(v, torch.Tensor) else v for k, v in module.state_dict().items()}


def call(module, given):
    if hasattr(given, "args"):
        return module(*given.args, **given.kwargs)
    return module(*given)


def flat(value):
    if isinstance(value, (torch.Tensor, tensora.Tensor)):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v)]
    return []


RANDOM = ("Dropout", "RReLU", "FractionalMaxPool")


def module_problem(info, sample, training):
    arguments = sample.constructor_input
    torch.manual_seed(0)
    theirs = info.module_cls(*arguments.args, **arguments.kwargs).train(training)
    ours_class = getattr(tensora.nn, info.module_cls.__name__)
    ours = ours_class(*converted(arguments.args), **converted(arguments.kwargs)).train(training)
    if repr(ours) != repr(theirs):
        return f"prints as {ours!r} instead of {theirs!r}"
    given = sample.forward_input
    lazy = info.module_cls.__name__.startswith("Lazy")
    if lazy:
        call(theirs, given)
        call(ours, converted_input(given))
    own, known = ours.state_dict(), theirs.state_dict()
    if list(own) != list(known):
        return f"state {list(own)} instead of {list(known)}"
    shapes = {k: tuple(v.shape) for k, v in known.items() if isinstance(v, torch.Tensor)}
    if {k: tuple(v.shape) for k, v in own.items() if isinstance(v, tensora.Tensor)} != shapes:
        return "other shapes in the state"
    ours.load_state_dict(states(theirs))
    if (training or "FractionalMaxPool" in info.module_cls.__name__) and info.module_cls.__name__.startswith(RANDOM):
        return None
    if training:
        for module in theirs.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        for module in ours.modules():
            if isinstance(module, tensora.nn.Dropout):
                module.p = 0.0
        for module in (*theirs.modules(), *ours.modules()):
            if type(module).__name__ in ("MultiheadAttention", "LSTM", "GRU", "RNN"):
                module.dropout = 0.0
    mine = converted_input(given)
    expected, found = call(theirs, given), call(ours, mine)
    if problem := parity.compare(flat(found), flat(expected)):
        return problem
    outputs = [(a, b) for a, b in zip(flat(found), flat(expected)) if b.requires_grad]
    if outputs:
        parameters = dict(theirs.named_parameters())
        both = [(b, a) for b, a in zip(flat(list(given.args) + list(given.kwargs.values())),
                                       flat(list(mine.args) + list(mine.kwargs.values()))) if b.requires_grad and b.is_leaf]
        inputs, own_inputs = [b for b, _ in both], [a for _, a in both]
        own_parameters = dict(ours.named_parameters())
        torch.autograd.backward([b for _, b in outputs], [torch.ones_like(b) for _, b in outputs])
        tensora.autograd.backward([a for a, _ in outputs], [tensora.ones_like(a) for a, _ in outputs])
        pairs = [(name, own_parameters[name].grad, p.grad) for name, p in parameters.items()]
        pairs += [(f"input {i}", a.grad, b.grad) for i, (a, b) in enumerate(zip(own_inputs, inputs))]
        for name, a, b in pairs:
            if (a is None) != (b is None):
                return f"gradient of {name}: {'none' if a is None else 'one'}"
            problem = b is not None and not b.is_sparse and parity.compare(a, b)
            if problem:
                return f"gradient of {name}: {problem}"
    return copies_problem(ours, theirs, given)


def copies_problem(ours, theirs, given):
    """A copy, a pickle and a saved state give the same; buffers hold what PyTorch's do."""
    for name, value in theirs.named_buffers():
        if problem := parity.compare(dict(ours.named_buffers())[name], value):
            return f"buffer {name}: {problem}"
    ours.eval()
    if type(ours).__name__.startswith(RANDOM[2:]):
        return None
    expected = call(ours, converted_input(given))
    file = io.BytesIO()
    tensora.save(ours.state_dict(), file)
    file.seek(0)
    again = copy.deepcopy(ours)
    again.load_state_dict(tensora.load(file))
    try:
        pickled = pickle.loads(pickle.dumps(ours))
    except (pickle.PicklingError, AttributeError) as error:
        if "lambda" not in str(error) and "local object" not in str(error):
            raise
        pickled = again
    for other in (again, pickled):
        for a, b in zip(flat(call(other, converted_input(given))), flat(expected)):
            if not tensora.equal(a.nan_to_num(), b.nan_to_num()):
                return "a copy gives another result"
    return None


class _Given:
    def __init__(self, args, kwargs):
        self.args, self.kwargs = args, kwargs


def converted_input(given):
    return _Given(converted(tuple(given.args)), converted(dict(given.kwargs)))


def modules(name):
    from torch.testing._internal.common_modules import module_db
    passed, total, problems, missing = collections.Counter(), collections.Counter(), {}, []
    for info in module_db:
        module = info.module_cls.__name__
        if name and not re.fullmatch(name, module):
            continue
        if not hasattr(tensora.nn, module):
            missing.append(module)
            continue
        for training in (True, False):
            torch.manual_seed(0)
            samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
            for sample in samples:
                try:
                    problem = module_problem(info, sample, training)
                except Exception as error:
                    problem = f"{type(error).__name__}: {str(error)[:200]}"
                total[module] += 1
                passed[module] += problem is None
                if problem:
                    problems.setdefault(module, collections.Counter())[
                        f"{'train' if training else 'eval'} {sample.desc}: {problem}".replace("\n", " ")] += 1
    parity.report(passed, total, problems, missing, None)


def stepped(torch_like, make, options, steps=8):
    """Weights after some steps on a small problem."""
    weight = torch_like.nn.Parameter(torch_like.tensor([[0.5, -0.25, 1.0], [0.125, 2.0, -1.5]]))
    bias = torch_like.nn.Parameter(torch_like.tensor([0.1, -0.2]))
    x = torch_like.linspace(-1, 1, 12).reshape(4, 3)
    y = torch_like.linspace(0, 1, 8).reshape(4, 2)
    optimizer = make([weight, bias], **options(torch_like))

    def closure():
        optimizer.zero_grad()
        loss = ((x @ weight.t() + bias).tanh() - y).square().sum()
        loss.backward()
        return loss
    for _ in range(steps):
        optimizer.step(closure)
    return [weight, bias], optimizer


def optimizers(name):
    from torch.testing._internal.common_optimizers import optim_db
    passed, total, problems, missing = collections.Counter(), collections.Counter(), {}, []
    for info in optim_db:
        kind = info.optim_cls.__name__
        if name and not re.fullmatch(name, kind):
            continue
        if not hasattr(tensora.optim, kind):
            missing.append(kind)
            continue
        for sample in info.optim_inputs_func("cpu"):
            for extra in ({}, {"foreach": True}, {"maximize": True}):
                if "foreach" in extra and "foreach" not in info.supported_impls:
                    continue
                given = {**sample.kwargs, **extra}

                def options(torch_like):
                    return given if torch_like is torch else converted(given)
                try:
                    theirs, their_optimizer = stepped(torch, info.optim_cls, options)
                except Exception:
                    continue
                try:
                    ours, optimizer = stepped(tensora, getattr(tensora.optim, kind), options)
                    problem = parity.compare(ours, theirs)
                    own, known = optimizer.state_dict(), their_optimizer.state_dict()
                    missing_keys = set(known["param_groups"][0]) - set(own["param_groups"][0])
                    if not problem and missing_keys:
                        problem = f"no {sorted(missing_keys)} in the group"
                    if not problem and sorted(own["state"].get(0, {})) != sorted(known["state"].get(0, {})):
                        problem = f"state {sorted(own['state'].get(0, {}))} instead of {sorted(known['state'].get(0, {}))}"
                except Exception as error:
                    problem = f"{type(error).__name__}: {str(error)[:200]}"
                total[kind] += 1
                passed[kind] += problem is None
                if problem:
                    problems.setdefault(kind, collections.Counter())[f"{sample.desc} {extra}: {problem}".replace("\n", " ")] += 1
    parity.report(passed, total, problems, missing, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("modules", "optimizers"))
    parser.add_argument("--name")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    (modules if arguments.what == "modules" else optimizers)(arguments.name)


if __name__ == "__main__":
    main()
