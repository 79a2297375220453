#!/usr/bin/env python3
"""A whole training program: loader, network, optimizer, schedule, validation. `--brief` for a short run."""
import sys

import tensora
from tensora import nn
from tensora.utils.data import DataLoader, TensorDataset, random_split

brief = "--brief" in sys.argv
tensora.manual_seed(0)
points = tensora.randn(2000 if brief else 10000, 2)
labels = (points.norm(dim=1) < 1.18).long()  # inside or outside of a circle
train, test = random_split(TensorDataset(points, labels), [0.8, 0.2])

model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = tensora.optim.AdamW(model.parameters(), lr=1e-2)
epochs = 5 if brief else 20
loader = DataLoader(train, batch_size=64, shuffle=True)
schedule = tensora.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * len(loader))


def accuracy(dataset):
    model.eval()
    right = 0
    with tensora.no_grad():
        for x, y in DataLoader(dataset, batch_size=256):
            right += (model(x).argmax(1) == y).sum().item()
    model.train()
    return right / len(dataset)


for epoch in range(epochs):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.item()
    print(f"epoch {epoch + 1}: loss {total / len(loader):.4f}, accuracy {accuracy(test):.4f}")
assert accuracy(test) > 0.95
