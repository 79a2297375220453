#!/usr/bin/env python3
"""Two networks and two optimizers that train against each other. `--brief` for a short run."""
import sys

import tensora
from tensora import nn
from tensora.nn import functional as F

tensora.manual_seed(0)
brief = "--brief" in sys.argv


def real(count):
    """Soft discs at random places."""
    y, x = tensora.meshgrid(tensora.arange(16.), tensora.arange(16.), indexing="ij")
    centre = 4 + 8 * tensora.rand(count, 2, 1, 1)
    return (2 * tensora.exp(-((y - centre[:, 0]) ** 2 + (x - centre[:, 1]) ** 2) / 8) - 1).unsqueeze(1)


generator = nn.Sequential(nn.ConvTranspose2d(16, 32, 4), nn.BatchNorm2d(32), nn.ReLU(),
                          nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                          nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1), nn.Tanh())
critic = nn.Sequential(nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
                       nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(512, 1))
to_generator = tensora.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
to_critic = tensora.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))

for step in range(60 if brief else 600):
    true, false = real(32), generator(tensora.randn(32, 16, 1, 1))
    judged = F.softplus(-critic(true)).mean() + F.softplus(critic(false.detach())).mean()
    to_critic.zero_grad()
    judged.backward()
    to_critic.step()

    fooled = F.softplus(-critic(false)).mean()
    to_generator.zero_grad()
    fooled.backward()
    to_generator.step()
    if step % 20 == 0:
        print(f"step {step}: critic {judged.item():.3f}, generator {fooled.item():.3f}")

with tensora.no_grad():
    mean = generator(tensora.randn(64, 16, 1, 1)).mean().item()
print(f"mean brightness: drawn {mean:.3f}, real {real(64).mean().item():.3f}")
assert abs(mean - real(256).mean().item()) < 0.5
