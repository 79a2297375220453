#!/usr/bin/env python3
"""A small GPT that learns from a text, letter by letter, and then writes one: `--text FILE`, `--steps N`, `--brief`."""
import argparse

import tensora
from tensora import nn
from tensora.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--text")
parser.add_argument("--steps", type=int, default=500)
parser.add_argument("--brief", action="store_true")
args = parser.parse_args()
if args.text:
    with open(args.text) as file:
        text = file.read()
else:
    text = "The quick brown fox jumps over the lazy dog. " * 50
letters = sorted(set(text))
codes = tensora.tensor([letters.index(letter) for letter in text])
CONTEXT, WIDTH = 32, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, 4, WIDTH // 4).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(len(letters), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(letters)))

    def forward(self, codes):
        x = self.tokens(codes) + self.positions(tensora.arange(codes.shape[1]))
        return self.head(self.blocks(x))


tensora.manual_seed(0)
model = GPT()
optimizer = tensora.optim.AdamW(model.parameters(), lr=3e-3)
steps = 60 if args.brief else args.steps
for step in range(steps):
    starts = tensora.randint(0, len(codes) - CONTEXT - 1, (16,)).tolist()
    x = tensora.stack([codes[i:i + CONTEXT] for i in starts])
    y = tensora.stack([codes[i + 1:i + CONTEXT + 1] for i in starts])
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 20 == 0 or step == steps - 1:
        print(f"step {step}: loss {loss.item():.4f}")

written = codes[:8].unsqueeze(0)
with tensora.no_grad():
    for _ in range(80):
        logits = model(written[:, -CONTEXT:])[:, -1]
        written = tensora.cat([written, tensora.multinomial(F.softmax(logits, -1), 1)], dim=1)
print("".join(letters[code] for code in written[0].tolist()))
assert args.text or loss.item() < 1.5
