#!/usr/bin/env python3
"""An optimizer of your own, with groups, a schedule, saving and loading."""
import tensora
from tensora import nn
from tensora.optim import Optimizer


class SignMomentum(Optimizer):
    """Steps of a fixed length in the direction of the gradients' running mean."""

    def __init__(self, params, lr=1e-2, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @tensora.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["mean"] = tensora.zeros_like(parameter)
                state["mean"].lerp_(parameter.grad, 1 - group["momentum"])
                parameter.add_(state["mean"].sign(), alpha=-group["lr"])


tensora.manual_seed(0)
x = tensora.randn(128, 4)
y = x.sin().sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = SignMomentum([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 5e-3}], lr=1e-2)
schedule = tensora.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
for step in range(200):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    schedule.step()
print(f"loss {loss.item():.4f}, rates {[round(group['lr'], 6) for group in optimizer.param_groups]}")
other = SignMomentum([{"params": model[0].parameters()}, {"params": model[2].parameters()}])
other.load_state_dict(optimizer.state_dict())
assert [g["lr"] for g in other.param_groups] == [g["lr"] for g in optimizer.param_groups]
assert loss.item() < 0.15
