#!/usr/bin/env python3
"""A variational autoencoder: a network with a loss and a result of its own. `--brief` for a short run."""
import sys

import tensora
from tensora import nn
from tensora.nn import functional as F

tensora.manual_seed(0)


def pictures(count):
    """Bright squares at random places of an 8 by 8 picture."""
    x = tensora.zeros(count, 8, 8)
    for i, (row, column) in enumerate(tensora.randint(0, 6, (count, 2)).tolist()):
        x[i, row:row + 3, column:column + 3] = 1
    return x.flatten(1)


class VAE(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(64, latent), nn.Linear(64, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x):
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        code = mean + tensora.randn_like(mean) * (log_variance / 2).exp()
        return self.decoder(code), mean, log_variance


def loss_of(model, x):
    restored, mean, log_variance = model(x)
    difference = F.binary_cross_entropy_with_logits(restored, x, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean ** 2 - log_variance.exp()).sum()
    return (difference + divergence) / len(x)


model = VAE()
optimizer = tensora.optim.Adam(model.parameters(), lr=3e-3)
first = None
for step in range(200 if "--brief" in sys.argv else 1000):
    loss = loss_of(model, pictures(64))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    first = loss.item() if first is None else first
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
with tensora.no_grad():
    drawn = model.decoder(tensora.randn(1, 4)).sigmoid().reshape(8, 8)
print("\n".join("".join("#" if pixel > 0.5 else "." for pixel in row) for row in drawn.tolist()))
assert loss.item() < 0.7 * first
