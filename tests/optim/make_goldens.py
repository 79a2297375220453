#!/usr/bin/env python3
"""Writes goldens/*.txt: what PyTorch's schedulers and optimizers do in 100 steps.

Each line is the name of a case and the numbers that the tests compare; the tests make the same case
under the same name.
"""
import math
import pathlib
import warnings

import torch
from torch.optim import lr_scheduler as s

warnings.filterwarnings("ignore")
GOLDENS = pathlib.Path(__file__).parent / "goldens"
STEPS = 100


def write(name, cases):
    lines = [f"{case} " + " ".join(f"{number:.12g}" for number in numbers) for case, numbers in cases]
    (GOLDENS / name).write_text("\n".join(lines) + "\n")


# ---- schedulers: the rate of group 0 after each step, the last one of group 1, and the momentum ------

def two_groups(kind=torch.optim.SGD, **options):
    a, b = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(3))
    return kind([{"params": [a]}, {"params": [b], "lr": 0.01}], lr=0.1, **options)


def warmup_cosine(optimizer, warmup, total, eta_min):
    bases = [group["lr"] for group in optimizer.param_groups]

    def rate(base):
        def of(step):
            if step < warmup:
                return (step + 1) / (warmup + 1)
            part = min(1.0, (step - warmup) / (total - warmup))
            return (eta_min + (base - eta_min) * (1 + math.cos(math.pi * part)) / 2) / base
        return of

    return s.LambdaLR(optimizer, [rate(base) for base in bases])


def sequential(optimizer, first, second, milestone):
    return s.SequentialLR(optimizer, [first, second], [milestone])


SCHEDULERS = {
    "lambda": lambda o: s.LambdaLR(o, [lambda e: 0.95**e, lambda e: 1 / (e + 1)]),
    "multiplicative": lambda o: s.MultiplicativeLR(o, lambda e: 0.9 if e % 3 else 1.1),
    "step": lambda o: s.StepLR(o, 7, gamma=0.5),
    "multistep": lambda o: s.MultiStepLR(o, [30, 10, 30, 80], gamma=0.3),
    "constant": lambda o: s.ConstantLR(o, factor=0.25, total_iters=12),
    "linear": lambda o: s.LinearLR(o, start_factor=0.1, end_factor=0.8, total_iters=40),
    "exponential": lambda o: s.ExponentialLR(o, 0.93),
    "polynomial": lambda o: s.PolynomialLR(o, total_iters=60, power=1.7),
    "cosine": lambda o: s.CosineAnnealingLR(o, T_max=30, eta_min=0.001),
    "restarts": lambda o: s.CosineAnnealingWarmRestarts(o, T_0=15, eta_min=0.002),
    "restarts_longer": lambda o: s.CosineAnnealingWarmRestarts(o, T_0=7, T_mult=2),
    "warmup_cosine": lambda o: warmup_cosine(o, 10, 80, 0.003),
    "sequential": lambda o: sequential(o, s.LinearLR(o, 0.2, total_iters=20),
                                       s.CosineAnnealingLR(o, T_max=80, eta_min=0.004), 20),
    "sequential_restarts": lambda o: sequential(o, s.ConstantLR(o, 0.1, total_iters=9),
                                                s.CosineAnnealingWarmRestarts(o, T_0=20), 10),
    "sequential_step": lambda o: sequential(o, s.ExponentialLR(o, 0.9), s.StepLR(o, 10, gamma=0.5), 25),
    "chained": lambda o: s.ChainedScheduler([s.ConstantLR(o, 0.1, total_iters=20),
                                             s.ExponentialLR(o, 0.95), s.StepLR(o, 30)]),
}
CYCLING = {
    "cyclic": lambda o: s.CyclicLR(o, 0.01, 0.2, step_size_up=12, step_size_down=5),
    "cyclic_triangular2": lambda o: s.CyclicLR(o, [0.01, 0.02], [0.2, 0.1], step_size_up=8,
                                               mode="triangular2"),
    "cyclic_exp": lambda o: s.CyclicLR(o, 0.01, 0.2, step_size_up=10, mode="exp_range", gamma=0.97,
                                       base_momentum=0.7, max_momentum=0.95),
    "cyclic_function": lambda o: s.CyclicLR(o, 0.01, 0.2, step_size_up=10, scale_fn=lambda x: 1 / (1 + x),
                                            scale_mode="iterations"),
    "one_cycle": lambda o: s.OneCycleLR(o, 0.3, total_steps=100),
    "one_cycle_linear": lambda o: s.OneCycleLR(o, [0.3, 0.2], epochs=20, steps_per_epoch=5, pct_start=0.4,
                                               anneal_strategy="linear", div_factor=10,
                                               final_div_factor=100, base_momentum=0.8),
    "one_cycle_three": lambda o: s.OneCycleLR(o, 0.3, total_steps=100, three_phase=True),
}
PLATEAU = {
    "plateau": {"factor": 0.5, "patience": 3, "cooldown": 2, "min_lr": 0.001},
    "plateau_max": {"mode": "max", "factor": 0.7, "patience": 2, "threshold": 0.01,
                    "threshold_mode": "abs", "min_lr": [0.02, 0.0]},
}


def momentum_of(optimizer):
    group = optimizer.param_groups[0]
    return group["betas"][0] if "betas" in group else group["momentum"]


def scheduler_cases():
    for name, make in {**SCHEDULERS, **CYCLING}.items():
        for suffix in (["", "_betas"] if name in CYCLING else [""]):
            optimizer = (two_groups(torch.optim.AdamW) if suffix else two_groups(momentum=0.9))
            scheduler = make(optimizer)
            rates, momenta = [scheduler.get_last_lr()[0]], [momentum_of(optimizer)]
            for _ in range(STEPS - 1):
                optimizer.step()
                scheduler.step()
                rates.append(optimizer.param_groups[0]["lr"])
                momenta.append(momentum_of(optimizer))
            yield name + suffix, [*rates, optimizer.param_groups[1]["lr"],
                                  *(momenta if name in CYCLING else [])]
    for name, options in PLATEAU.items():
        optimizer = two_groups()
        scheduler = s.ReduceLROnPlateau(optimizer, **options)
        rates = []
        for step in range(STEPS):
            scheduler.step(math.exp(-0.1 * step) + 0.1 * math.sin(step))
            rates.append(optimizer.param_groups[0]["lr"])
        yield name, [*rates, optimizer.param_groups[1]["lr"]]


# ---- optimizers: a matrix and a vector in float64, or matrices alone, with gradients of a formula ------
# Every fourth step the first elements of both, at the end all elements.

class Lion(torch.optim.Optimizer):
    """As published (arXiv 2302.06675); PyTorch has none."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay,
                                  "maximize": maximize})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                grad = -p.grad if group["maximize"] else p.grad
                mean = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                direction = (mean * beta1 + grad * (1 - beta1)).sign()
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * direction)
                mean.mul_(beta2).add_(grad, alpha=1 - beta2)


o = torch.optim
# The options are such that rounding is not amplified: PyTorch's own run changes by less than 1e-10 when
# the parameters change by 1e-14.
OPTIMIZERS = {
    "sgd": (o.SGD, {"lr": 0.05}),
    "sgd_decay": (o.SGD, {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    "sgd_momentum": (o.SGD, {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    "sgd_nesterov": (o.SGD, {"lr": 0.05, "momentum": 0.8, "nesterov": True}),
    "adam": (o.Adam, {"lr": 0.02}),
    "adam_decay": (o.Adam, {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1, "maximize": True}),
    "adam_amsgrad": (o.Adam, {"lr": 0.02, "eps": 1e-4, "amsgrad": True, "weight_decay": 0.02}),
    "adamw": (o.AdamW, {"lr": 0.02}),
    "adamw_amsgrad": (o.AdamW, {"lr": 0.02, "weight_decay": 0.3, "amsgrad": True, "maximize": True}),
    "rmsprop": (o.RMSprop, {"lr": 0.01}),
    "rmsprop_centered": (o.RMSprop, {"lr": 0.01, "alpha": 0.9, "eps": 1e-2, "centered": True,
                                     "weight_decay": 0.1}),
    "rmsprop_momentum": (o.RMSprop, {"lr": 0.01, "momentum": 0.7, "maximize": True}),
    "rmsprop_all": (o.RMSprop, {"lr": 0.01, "momentum": 0.7, "centered": True, "eps": 1e-3}),
    "adagrad": (o.Adagrad, {"lr": 0.1}),
    "adagrad_decay": (o.Adagrad, {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.1,
                                  "initial_accumulator_value": 0.2, "maximize": True}),
    "adadelta": (o.Adadelta, {}),
    "adadelta_decay": (o.Adadelta, {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1,
                                    "maximize": True}),
    "adamax": (o.Adamax, {"lr": 0.02}),
    "adamax_decay": (o.Adamax, {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1, "maximize": True}),
    "nadam": (o.NAdam, {"lr": 0.005}),
    "nadam_decay": (o.NAdam, {"lr": 0.02, "weight_decay": 0.1, "momentum_decay": 0.02, "maximize": True}),
    "nadam_decoupled": (o.NAdam, {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "radam": (o.RAdam, {"lr": 0.02}),
    "radam_decay": (o.RAdam, {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1, "maximize": True}),
    "radam_decoupled": (o.RAdam, {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "adafactor": (o.Adafactor, {"lr": 0.01}),
    "adafactor_all": (o.Adafactor, {"lr": 0.05, "beta2_decay": -0.6, "eps": (1e-6, 1e-2), "d": 2.0,
                                    "weight_decay": 0.1, "maximize": True}),
    "lion": (Lion, {"lr": 0.01}),
    "lion_decay": (Lion, {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.2, "maximize": True}),
}
MUONS = {
    "muon": {"lr": 0.02},
    "muon_adamw": {"lr": 0.02, "weight_decay": 0.3, "momentum": 0.8, "nesterov": False,
                   "adjust_lr_fn": "match_rms_adamw"},
    "muon_spectral": {"lr": 0.02, "ns_steps": 3, "adjust_lr_fn": "spectral_unclamped"},
}
LBFGS = {
    "lbfgs": {"lr": 0.1, "max_iter": 4},
    "lbfgs_history": {"lr": 0.5, "max_iter": 6, "history_size": 3, "max_eval": 5},
    "lbfgs_wolfe": {"max_iter": 5, "line_search_fn": "strong_wolfe"},
    "lbfgs_wolfe_max": {"lr": 0.3, "max_iter": 3, "line_search_fn": "strong_wolfe", "maximize": True},
}


def parameter(shape, number):
    count = math.prod(shape)
    values = [math.sin(0.7 * i + number) for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_()


def gradient(p, number, step):
    index = torch.arange(p.numel(), dtype=torch.float64).reshape(p.shape)
    goal = torch.cos(1.3 * index + 2 * number)
    return ((p - goal) * (0.5 + 0.25 * (index % 3)) + 0.1 * torch.sin(3 * p + 0.05 * step)).detach()


def trajectory(params, take_step):
    numbers = []
    for step in range(STEPS):
        take_step(step)
        if step % 4 == 3:
            numbers += [p.flatten()[0].item() for p in params]
    return numbers + [value for p in params for value in p.flatten().tolist()]


def stepped(optimizer, params):
    def take_step(step):
        for number, p in enumerate(params):
            p.grad = gradient(p.detach(), number, step)
        optimizer.step()
    return trajectory(params, take_step)


def minimised(optimizer, params, sign):
    def closure():
        optimizer.zero_grad()
        a, b = params
        loss = ((a[1:] - a[:-1] ** 2) ** 2).sum() + 0.5 * ((1 - a) ** 2).sum() + (b**4).sum() / 4 \
            + ((b - a.sum() / 10) ** 2).sum()
        (sign * loss).backward()
        return sign * loss
    return trajectory(params, lambda step: optimizer.step(closure))


def optimizer_cases():
    for name, (kind, options) in OPTIMIZERS.items():
        params = [parameter((4, 3), 0), parameter((5,), 1)]
        yield name, stepped(kind(params, **options), params)
    for name, options in MUONS.items():
        params = [parameter((4, 6), 0), parameter((5, 2), 1)]
        yield name, stepped(o.Muon(params, **options), params)
    for name, options in LBFGS.items():
        params = [parameter((4, 3), 0), parameter((5,), 1)]
        yield name, minimised(o.LBFGS(params, **options), params, -1 if "maximize" in options else 1)


if __name__ == "__main__":
    GOLDENS.mkdir(exist_ok=True)
    write("schedulers.txt", scheduler_cases())
    write("optimizers.txt", optimizer_cases())
