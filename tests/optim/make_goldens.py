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


if __name__ == "__main__":
    GOLDENS.mkdir(exist_ok=True)
    write("schedulers.txt", scheduler_cases())
