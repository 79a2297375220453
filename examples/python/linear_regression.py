#!/usr/bin/env python3
"""Start here: tensors, the graph, backward and update, step by step; then the same with a layer and an optimizer."""
import tensora
from tensora import nn

tensora.manual_seed(0)
x = tensora.randn(200, 3)
truth = tensora.tensor([1.5, -2., 0.5])
y = x @ truth + 0.7 + 0.01 * tensora.randn(200)

# By hand: the gradient of the mean squared error, and a step against it.
weight = tensora.zeros(3, requires_grad=True)
bias = tensora.zeros(1, requires_grad=True)
for step in range(200):
    loss = ((x @ weight + bias - y) ** 2).mean()
    loss.backward()
    with tensora.no_grad():
        for parameter in (weight, bias):
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
print("by hand:        ", weight.detach(), bias.item())
assert (weight - truth).abs().max() < 0.01 and abs(bias.item() - 0.7) < 0.01

# The same with a layer and an optimizer.
layer = nn.Linear(3, 1)
optimizer = tensora.optim.SGD(layer.parameters(), lr=0.1)
for step in range(200):
    optimizer.zero_grad()
    nn.functional.mse_loss(layer(x).squeeze(1), y).backward()
    optimizer.step()
print("with a layer:   ", layer.weight.detach(), layer.bias.item())
assert (layer.weight - truth).abs().max() < 0.01
