#!/usr/bin/env python3
"""A tour of tensora in one file, to be read from top to bottom and run cell by cell."""
# %% Tensors
import tensora
from tensora import nn
from tensora.nn import functional as F

x = tensora.arange(6.).reshape(2, 3)
print(x, x.shape, x.dtype, x.device)
print(x[:, 1:], x.sum(dim=0), x @ x.T)

# %% Gradients
w = tensora.tensor([1., 2., 3.], requires_grad=True)
loss = ((x @ w) ** 2).mean()
loss.backward()
print(w.grad)

# %% A model of one's own
tensora.manual_seed(0)


class Spiral(nn.Module):
    """Tells the two arms of a spiral apart."""

    def __init__(self, width=64):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(2, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.output = nn.Linear(width, 2)

    def forward(self, points):
        return self.output(self.hidden(points))


def spiral(count):
    """Points of two arms, and which arm each one is on."""
    arm = tensora.randint(0, 2, (count,))
    angle = tensora.rand(count) * 9
    turn = angle + arm * 3.14159
    points = tensora.stack([angle * turn.cos(), angle * turn.sin()], dim=1) / 9
    return points + 0.02 * tensora.randn(count, 2), arm


# %% Training
model = Spiral()
optimizer = tensora.optim.AdamW(model.parameters(), lr=1e-2)
schedule = tensora.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=300)
points, arms = spiral(512)
for step in range(300):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(points), arms)
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 100 == 0:
        print(f"step {step:3d}  loss {loss.item():.4f}  lr {schedule.get_last_lr()[0]:.4f}")

# %% Measuring
with tensora.no_grad():
    test_points, test_arms = spiral(256)
    accuracy = (model(test_points).argmax(1) == test_arms).float().mean().item()
print(f"accuracy {accuracy:.3f}")
assert accuracy > 0.9

# %% Keeping it
tensora.save_safetensors(model.state_dict(), "/tmp/spiral.safetensors")
again = Spiral()
again.load_state_dict(tensora.load("/tmp/spiral.safetensors"))
assert tensora.equal(again(test_points), model(test_points))
