#!/usr/bin/env python3
"""A ResNet learns to classify small photographs (CIFAR-10): augmentation, SGD with momentum, one cycle of the
learning rate; on a GPU bfloat16 and channels-last images.

`--data FOLDER` holds the binary version, data_batch_1.bin and so on; without it the program says so and ends with
code 77. `--brief` needs no files: a small ResNet learns the colours of discs.
"""
import argparse
import math
import os
import sys

import tensora
from tensora import nn
from tensora.nn import functional as F
from tensora.utils.data import DataLoader, Dataset

MEAN = tensora.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
DEVIATION = tensora.tensor([0.247, 0.2435, 0.2616]).view(3, 1, 1)


class Images(Dataset):
    """Bytes [N, 3, side, side] and labels; moved and mirrored at random where `augment` says so."""

    def __init__(self, images, labels, augment):
        self.images, self.labels, self.augment = images, labels, augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = (self.images[index].float() / 255 - MEAN) / DEVIATION
        if self.augment:
            side = image.shape[-1]
            padding = side // 8
            top, left, mirror = tensora.randint(0, 2 * padding + 1, (3,)).tolist()
            image = F.pad(image, (padding,) * 4)[:, top:top + side, left:left + side]
            image = image.flip(-1) if mirror % 2 else image
        return image, self.labels[index]


def cifar(folder, train):
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] if train else ["test_batch.bin"]
    parts = []
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            parts.append(tensora.frombuffer(bytearray(file.read()), dtype=tensora.uint8).view(-1, 1 + 3 * 32 * 32))
    rows = tensora.cat(parts)
    return Images(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].long(), augment=train)


def discs(count, train, side=16):
    """Discs of ten colours at random places of noisy images."""
    labels = tensora.randint(0, 10, (count,))
    hue = (labels / 10).view(-1, 1, 1, 1) + tensora.tensor([0, 1 / 3, 2 / 3]).view(3, 1, 1)
    colour = (hue * 2 * math.pi).cos() * 0.4 + 0.5
    line = tensora.linspace(-1, 1, side)
    x, y = line - (tensora.rand(count, 1, 1, 1) - 0.5), line[:, None] - (tensora.rand(count, 1, 1, 1) - 0.5)
    inside = (x ** 2 + y ** 2 < 0.25).float()
    images = tensora.rand(count, 3, side, side) * (1 - inside) + colour * inside
    return Images((images * 255).to(tensora.uint8), labels, augment=train)


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


def resnet(blocks, classes, width=64):
    """`blocks` names how many there are of each width; small images begin without a stride."""
    layers = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    inputs = width
    for stage, count in enumerate(blocks):
        for i in range(count):
            outputs = width << stage
            layers.append(Block(inputs, outputs, stride=2 if stage > 0 and i == 0 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def accuracy(model, loader, device):
    model.eval()
    with tensora.no_grad():
        right = sum((model(x.to(device)).argmax(1) == y.to(device)).sum() for x, y in loader).item()
    model.train()
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--device", default="cuda" if tensora.cuda.is_available() else "cpu")
    parser.add_argument("--brief", action="store_true")
    args = parser.parse_args()
    if not args.data and not args.brief:
        print("cifar_resnet: no CIFAR-10 files; get the binary version and say --data FOLDER, or --brief")
        sys.exit(77)
    tensora.manual_seed(0)
    if args.brief:
        train, test = discs(384, True), discs(200, False)
        blocks, width, batch, epochs, rate, expected = (1, 1, 1), 16, 32, 3, 0.05, 0.6
    else:
        train, test = cifar(args.data, True), cifar(args.data, False)
        blocks, width, batch, epochs, rate = (2, 2, 2, 2), 64, 128, args.epochs, 0.2
        expected = 0.5 if epochs < 10 else 0.9
    on_gpu = args.device.startswith("cuda")
    workers = 8 if on_gpu else 0
    model = resnet(blocks, 10, width).to(args.device)
    if on_gpu:  # GPUs convolve fastest if the channels of a pixel lie together
        model.to(memory_format=tensora.channels_last)
    loader = DataLoader(train, batch, shuffle=True, drop_last=True, num_workers=workers)
    test_loader = DataLoader(test, 200, num_workers=workers)
    print(f"{len(train)} images to learn from, {sum(p.numel() for p in model.parameters())} parameters")

    optimizer = tensora.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = tensora.optim.lr_scheduler.OneCycleLR(optimizer, rate, epochs=epochs, steps_per_epoch=len(loader))
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(1, epochs + 1):
        total = tensora.zeros((), device=args.device)  # on the device: reading it would wait
        for x, y in loader:
            with tensora.autocast(args.device.split(":")[0], dtype=tensora.bfloat16, enabled=on_gpu):
                loss = loss_of(model(x.to(args.device)), y.to(args.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.detach()
        right = accuracy(model, test_loader, args.device)
        print(f"epoch {epoch}  loss {total.item() / len(loader):.4f}  right on test images {100 * right:.1f} %")
    assert right >= expected, "not learned"


if __name__ == "__main__":
    main()
