"""Programs that use PyTorch's libraries. Each gives numbers, which must be those of PyTorch.

A program is a function that returns tensors, numbers or arrays by name. It imports its library itself, so that reading
this package needs none of them. Parameters and inputs come from NumPy's generator, so that both runs see the same ones.
"""
import numpy

PROGRAMS = {}


def program(function):
    """Adds a program."""
    if function.__name__ in PROGRAMS:
        raise ValueError(f"two programs have the name {function.__name__}")
    PROGRAMS[function.__name__] = function
    return function


def named(name, function, *args, **kwargs):
    """Adds the program `name`, which calls function(*args, **kwargs)."""
    def run():
        return function(*args, **kwargs)
    run.__name__ = name
    return program(run)


def filled(model, seed=0):
    """The model in eval mode, with parameters and buffers of NumPy's generator."""
    import torch
    rng = numpy.random.default_rng(seed)
    with torch.no_grad():
        for name, value in sorted(model.state_dict().items()):
            if value.dtype.is_floating_point and not name.endswith(("running_var", "inv_freq")):
                scale = 0.05 if value.dim() > 1 else 0.02
                numbers = rng.standard_normal(tuple(value.shape)) * scale
                if name.endswith("weight") and value.dim() == 1:
                    numbers = numbers + 1
                value.copy_(torch.tensor(numbers.astype("float32")))
    return model.eval()


def tokens(shape, count=64, seed=1):
    """Integers from 5 to count."""
    import torch
    return torch.tensor(numpy.random.default_rng(seed).integers(5, count, shape))


def numbers(shape, seed=2):
    """Normally distributed float32 numbers."""
    import torch
    return torch.tensor(numpy.random.default_rng(seed).standard_normal(shape).astype("float32"))


def perceptron(inputs=4, outputs=1, hidden=8):
    """A network of two layers, in training mode."""
    import torch
    return filled(torch.nn.Sequential(torch.nn.Linear(inputs, hidden), torch.nn.Tanh(),
                                      torch.nn.Linear(hidden, outputs))).train()


def trained(optimizer, steps=6):
    """The losses of a perceptron, trained by the optimizer that optimizer(parameters) makes, and its last weights."""
    import torch
    model, x, y = perceptron(), numbers((32, 4)), numbers((32, 1), 3)
    made, losses = optimizer(model.parameters()), []
    for _ in range(steps):
        def closure():
            made.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward(create_graph=True)
            return loss
        losses.append(made.step(closure).item())
    return {"losses": numpy.array(losses), "weights": model[0].weight}


from . import attention, audio, geometry, metrics, optimizers, probability, repositories  # noqa: E402,F401
from . import more_repositories, text_models, training, vision  # noqa: E402,F401
