#!/usr/bin/env python3
"""A recurrent layer, its states, clipping of gradients: the network continues waves. `--brief` for a short run."""
import sys

import tensora
from tensora import nn

tensora.manual_seed(0)


def waves(count, length=40):
    phase = tensora.rand(count, 1) * 6.28
    speed = 0.2 + 0.3 * tensora.rand(count, 1)
    return tensora.sin(phase + speed * tensora.arange(length)).unsqueeze(-1)


class Continue(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = nn.LSTM(1, 32, batch_first=True)
        self.output = nn.Linear(32, 1)

    def forward(self, x, state=None):
        hidden, state = self.memory(x, state)
        return self.output(hidden), state


model = Continue()
optimizer = tensora.optim.Adam(model.parameters(), lr=1e-2)
for step in range(150 if "--brief" in sys.argv else 600):
    x = waves(32)
    loss = nn.functional.mse_loss(model(x[:, :-1])[0], x[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.5f}, norm of the gradients {norm.item():.3f}")

# The state carries on: 20 values are read, the next ones are the network's own.
x = waves(1)
with tensora.no_grad():
    y, state = model(x[:, :20])
    own = [y[:, -1:]]
    for _ in range(4):
        y, state = model(own[-1], state)
        own.append(y)
print("own:  ", tensora.cat(own, 1).flatten())
print("truth:", x[0, 20:25].flatten())
assert loss.item() < 0.02
