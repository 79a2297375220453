#!/usr/bin/env python3
"""A convolutional network on the real MNIST files: `--data FOLDER` with the four IDX files, `--brief`.

Without the files it says so and ends with code 77.
"""
import argparse
import gzip
import os
import sys

import tensora
from tensora import nn
from tensora.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--data", default=os.path.join(os.path.dirname(__file__), "../../../shared/data/mnist"))
parser.add_argument("--device", default="cuda" if tensora.cuda.is_available() else "cpu")
parser.add_argument("--brief", action="store_true")
args = parser.parse_args()
if not os.path.exists(os.path.join(args.data, "train-images-idx3-ubyte.gz")):
    print(f"mnist_cnn: no MNIST files in {args.data}; name their folder with --data")
    sys.exit(77)


def read(name, offset, count):
    with gzip.open(os.path.join(args.data, name)) as file:
        content = tensora.frombuffer(bytearray(file.read()), dtype=tensora.uint8, offset=offset)
    return content.reshape(-1, *((1, 28, 28) if offset == 16 else ()))[:count]


def load(part, count):
    images = read(f"{part}-images-idx3-ubyte.gz", 16, count).float() / 255
    return TensorDataset((images - 0.1307) / 0.3081, read(f"{part}-labels-idx1-ubyte.gz", 8, count).long())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.25), nn.Linear(32 * 7 * 7, 10))

    def forward(self, x):
        return self.classifier(self.features(x))


tensora.manual_seed(0)
train, test = load("train", 3000 if args.brief else None), load("t10k", 1000 if args.brief else None)
model = Net().to(args.device)
optimizer = tensora.optim.AdamW(model.parameters(), lr=2e-3)
for epoch in range(1 if args.brief else 3):
    model.train()
    for x, y in DataLoader(train, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(args.device)), y.to(args.device))
        loss.backward()
        optimizer.step()
    model.eval()
    right = 0
    with tensora.no_grad():
        for x, y in DataLoader(test, batch_size=500):
            right += (model(x.to(args.device)).argmax(1).cpu() == y).sum().item()
    print(f"epoch {epoch + 1}: loss {loss.item():.4f}, accuracy {right / len(test):.4f}")
assert right / len(test) > (0.85 if args.brief else 0.98)
