#!/usr/bin/env python3
"""A layer with parameters, a buffer and smaller layers."""
import tensora
from tensora import nn


class ScaledNorm(nn.Module):
    """Divides by a running mean of the rows' lengths, and scales."""

    def __init__(self, width, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.scale = nn.Parameter(tensora.ones(width))
        self.register_buffer("length", tensora.ones(()))

    def forward(self, x):
        if self.training:
            self.length.lerp_(x.detach().norm(dim=-1).mean(), self.momentum)
        return x / self.length * self.scale

    def extra_repr(self):
        return f"{len(self.scale)}, momentum={self.momentum}"


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = ScaledNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, x):
        return x + self.inner(self.norm(x))


tensora.manual_seed(0)
model = nn.Sequential(Residual(8), Residual(8), nn.Linear(8, 1))
print(model)
print({name: tuple(value.shape) for name, value in model.state_dict().items()})
x = 3 * tensora.randn(256, 8)
y = x.prod(dim=1, keepdim=True).sign()
optimizer = tensora.optim.Adam(model.parameters(), lr=1e-2)
first = None
for step in range(100):
    loss = nn.functional.mse_loss(model(x), y)
    first = loss.item() if first is None else first
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {first:.3f} -> {loss.item():.3f}, length {model[0].norm.length.item():.2f}")
assert loss.item() < 0.7 * first and model[0].norm.length > 2
