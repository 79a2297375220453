#!/usr/bin/env python3
"""`./dev bench train`: training steps of whole networks beside PyTorch, from one run.

Both sides start from the same weights, which travel in a safetensors file, and see the same data. A row
counts only if the losses of its first steps agree. Every run is a process of its own, so that the peak of
memory is its own. On the CPU: MLP, LeNet, ResNet-18, GPT and LSTM in float32 with Adam; on CUDA: GPT-2
and ResNet-50 under bfloat16 autocast, and a LLaMA of 1.2 billion bfloat16 parameters.
"""
import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
#        name: what a step processes, and how far the losses may differ, relative to the first one.
#        ResNet-18's steps magnify rounding: after six, PyTorch with and without oneDNN differ by 2 %.
ROWS = {"mlp_b64": (64, "rows", 2e-3), "mlp_b256": (256, "rows", 2e-3), "lenet_b64": (64, "images", 2e-3),
        "resnet18_b16": (16, "images", 4e-2), "gpt_mini_b8": (8 * 256, "tokens", 2e-3),
        "lstm_b16_t64": (16 * 64, "tokens", 2e-3), "gpt2_b32": (32 * 1024, "tokens", 3e-3),
        "resnet50_b256": (256, "images", 1e-2), "llama1b_b4": (4 * 2048, "tokens", 5e-3),
        "llama1b_b4_checkpointed": (4 * 2048, "tokens", 5e-3)}
CAST_ROWS = ("gpt2_b32", "resnet50_b256")  # under bfloat16 autocast
CUDA_ROWS = ("gpt2_b32", "resnet50_b256", "llama1b_b4", "llama1b_b4_checkpointed")


# ---- PyTorch's models, with the names that ours have ------------------------------------------

def networks(torch):
    nn, F = torch.nn, torch.nn.functional

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
            self.fc1, self.fc2 = nn.Linear(64 * 7 * 7, 128), nn.Linear(128, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
            return self.fc2(F.relu(self.fc1(x)))

    class ResNetBlock(nn.Module):
        def __init__(self, channels, width, stride, bottleneck):
            super().__init__()
            out = 4 * width if bottleneck else width
            conv = lambda i, o, k, s=1: nn.Conv2d(i, o, k, s, k // 2, bias=False)
            self.conv1 = conv(channels, width, 1) if bottleneck else conv(channels, width, 3, stride)
            self.conv2 = conv(width, width, 3, stride) if bottleneck else conv(width, width, 3)
            self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
            self.bottleneck = bottleneck
            if bottleneck:
                self.conv3, self.bn3 = conv(width, out, 1), nn.BatchNorm2d(out)
            self.downsample = None
            if stride != 1 or channels != out:
                self.downsample = nn.Sequential(conv(channels, out, 1, stride), nn.BatchNorm2d(out))

        def forward(self, x):
            y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
            if self.bottleneck:
                y = self.bn3(self.conv3(F.relu(y, inplace=True)))
            y += x if self.downsample is None else self.downsample(x)
            return F.relu(y, inplace=True)

    class ResNet(nn.Module):
        def __init__(self, layers, bottleneck, classes, small):
            super().__init__()
            self.small, channels = small, 64
            self.conv1 = nn.Conv2d(3, 64, 3 if small else 7, 1 if small else 2, 1 if small else 3, bias=False)
            self.bn1 = nn.BatchNorm2d(64)
            for stage, count in enumerate(layers):
                blocks = []
                for i in range(count):
                    blocks.append(ResNetBlock(channels, 64 << stage, 2 if stage and i == 0 else 1, bottleneck))
                    channels = (64 << stage) * (4 if bottleneck else 1)
                setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            self.fc = nn.Linear(channels, classes)
            for module in self.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

        def forward(self, x):
            x = F.relu(self.bn1(self.conv1(x)), inplace=True)
            if not self.small:
                x = F.max_pool2d(x, 3, 2, 1)
            return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))

    class GptAttention(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.heads, self.c_attn, self.c_proj = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)

        def forward(self, x):
            b, t, d = x.shape
            q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.c_attn(x).split(d, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).reshape(b, t, d))

    class GptMlp(nn.Module):
        def __init__(self, d, approximate):
            super().__init__()
            self.approximate, self.c_fc, self.c_proj = approximate, nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def forward(self, x):
            return self.c_proj(F.gelu(self.c_fc(x), approximate=self.approximate))

    class GptBlock(nn.Module):
        def __init__(self, d, heads, approximate):
            super().__init__()
            self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(d), GptAttention(d, heads), nn.LayerNorm(d)
            self.mlp = GptMlp(d, approximate)

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class Gpt(nn.Module):
        def __init__(self, vocabulary, d, layers, heads, positions, approximate):
            super().__init__()
            self.transformer = nn.ModuleDict(dict(
                wte=nn.Embedding(vocabulary, d), wpe=nn.Embedding(positions, d),
                h=nn.ModuleList(GptBlock(d, heads, approximate) for _ in range(layers)), ln_f=nn.LayerNorm(d)))
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, 0, 0.02)

        def forward(self, x, y):
            t = self.transformer
            h = t["wte"](x) + t["wpe"](torch.arange(x.shape[1], device=x.device))
            for block in t["h"]:
                h = block(h)
            return F.cross_entropy(F.linear(t["ln_f"](h), t["wte"].weight).flatten(0, 1), y.flatten())

    class LlamaAttention(nn.Module):
        def __init__(self, d, heads, groups):
            super().__init__()
            make, self.size = lambda i, o: nn.Linear(i, o, bias=False), d // heads
            self.q_proj, self.k_proj = make(d, d), make(d, groups * self.size)
            self.v_proj, self.o_proj = make(d, groups * self.size), make(d, d)

        def forward(self, x, cos, sin):
            b, t, d = x.shape
            q, k, v = (p(x).view(b, t, -1, self.size).transpose(1, 2)
                       for p in (self.q_proj, self.k_proj, self.v_proj))

            def turned(x):
                first, second = x.chunk(2, -1)
                return x * cos + torch.cat((-second, first), -1) * sin
            y = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
            return self.o_proj(y.transpose(1, 2).reshape(b, t, d))

    class LlamaMlp(nn.Module):
        def __init__(self, d, hidden):
            super().__init__()
            make = lambda i, o: nn.Linear(i, o, bias=False)
            self.gate_proj, self.up_proj, self.down_proj = make(d, hidden), make(d, hidden), make(hidden, d)

        def forward(self, x):
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))

    class LlamaBlock(nn.Module):
        def __init__(self, d, heads, groups, hidden):
            super().__init__()
            self.self_attn, self.mlp = LlamaAttention(d, heads, groups), LlamaMlp(d, hidden)
            self.input_layernorm = nn.RMSNorm(d, eps=1e-5)
            self.post_attention_layernorm = nn.RMSNorm(d, eps=1e-5)

        def forward(self, x, cos, sin):
            x = x + self.self_attn(self.input_layernorm(x), cos, sin)
            return x + self.mlp(self.post_attention_layernorm(x))

    class Llama(nn.Module):
        def __init__(self, checkpointed, vocabulary=128256, d=2048, layers=16, heads=32, groups=8, hidden=8192):
            super().__init__()
            self.checkpointed, self.size = checkpointed, d // heads
            self.model = nn.ModuleDict(dict(
                embed_tokens=nn.Embedding(vocabulary, d),
                layers=nn.ModuleList(LlamaBlock(d, heads, groups, hidden) for _ in range(layers)),
                norm=nn.RMSNorm(d, eps=1e-5)))
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, 0, 0.02)

        def forward(self, x, y):
            frequencies = 1 / 500000 ** (torch.arange(0, self.size, 2, device=x.device).float() / self.size)
            angles = torch.outer(torch.arange(x.shape[1], device=x.device).float(), frequencies).repeat(1, 2)
            h = self.model["embed_tokens"](x)
            cos, sin = angles.cos().to(h.dtype), angles.sin().to(h.dtype)
            for block in self.model["layers"]:
                if self.checkpointed:
                    h = torch.utils.checkpoint.checkpoint(block, h, cos, sin, use_reentrant=False)
                else:
                    h = block(h, cos, sin)
            logits = F.linear(self.model["norm"](h), self.model["embed_tokens"].weight)
            return F.cross_entropy(logits.flatten(0, 1).float(), y.flatten())

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(1000, 128), nn.Linear(256, 1000)
            self.rnn = nn.LSTM(128, 256, batch_first=True)

        def forward(self, x, y):
            return F.cross_entropy(self.head(self.rnn(self.embedding(x))[0]).flatten(0, 1), y.flatten())

    mlp = lambda: nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return {"mlp_b64": mlp, "mlp_b256": mlp, "lenet_b64": LeNet,
            "resnet18_b16": lambda: ResNet((2, 2, 2, 2), False, 10, True),
            "gpt_mini_b8": lambda: Gpt(65, 384, 6, 6, 256, "none"), "lstm_b16_t64": Lstm,
            "gpt2_b32": lambda: Gpt(50304, 768, 12, 12, 1024, "tanh"),
            "resnet50_b256": lambda: ResNet((3, 4, 6, 3), True, 1000, False),
            "llama1b_b4": lambda: Llama(False), "llama1b_b4_checkpointed": lambda: Llama(True)}


# ---- data and weights -------------------------------------------------------------------------

def fractions(torch, count, step):
    multiples = torch.arange(count, dtype=torch.float64) * step
    return multiples - multiples.floor()


def numbers(torch, *sizes):
    return ((fractions(torch, math.prod(sizes), 0.6180339887498949) - 0.5) * 3.4).float().reshape(sizes)


def tokens(torch, *sizes, below):
    return (fractions(torch, math.prod(sizes), 0.7548776662466927) * below).floor().long().reshape(sizes)


def text(torch, batch, length, below):
    both = tokens(torch, batch, length + 1, below=below)
    return both[:, :-1].contiguous(), both[:, 1:].contiguous()


def batch(torch, name):
    images = {"mlp_b64": (64, 784), "mlp_b256": (256, 784), "lenet_b64": (64, 1, 28, 28),
              "resnet18_b16": (16, 3, 32, 32), "resnet50_b256": (256, 3, 224, 224)}
    if name in images:
        classes = 1000 if name == "resnet50_b256" else 10
        return numbers(torch, *images[name]), tokens(torch, images[name][0], below=classes)
    texts = {"gpt_mini_b8": (8, 256, 65), "lstm_b16_t64": (16, 64, 1000), "gpt2_b32": (32, 1024, 50257)}
    return text(torch, *texts.get(name, (4, 2048, 128256)))


def save_safetensors(torch, tensors, path):
    """The format in a few lines, so that PyTorch is all that is needed."""
    kinds = {torch.float32: "F32", torch.bfloat16: "BF16", torch.int64: "I64"}
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def made(torch, name):
    torch.manual_seed(0)
    model = networks(torch)[name]()
    return model.to(torch.bfloat16) if name.startswith("llama") else model


# ---- PyTorch's side ---------------------------------------------------------------------------

def run_peer(arguments):
    import torch
    import torch.utils.checkpoint
    F, name, device = torch.nn.functional, arguments.peer, arguments.device
    if device == "cpu" and arguments.threads:
        torch.set_num_threads(arguments.threads)
    model = made(torch, name)
    if arguments.weights:
        save_safetensors(torch, model.state_dict(), arguments.weights)
    x, y = (tensor.to(device) for tensor in batch(torch, name))
    model = model.to(device)
    if name == "resnet50_b256":
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        torch.backends.cudnn.benchmark = True
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    elif name.startswith("llama"):
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    elif name.startswith("gpt"):
        optimizer = torch.optim.AdamW(model.parameters(), 3e-4 if name == "gpt2_b32" else 1e-3,
                                      fused=device == "cuda")
    else:
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    run = torch.compile(model) if arguments.compiled else model
    takes_targets = not name.startswith(("mlp", "lenet", "resnet"))
    cast = name in CAST_ROWS and not arguments.exact
    if arguments.exact:  # convolutions in TF32 are PyTorch's default
        torch.backends.cudnn.allow_tf32 = False
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def step():
        with torch.autocast(device, torch.bfloat16, enabled=cast):
            loss = run(x, y) if takes_targets else F.cross_entropy(run(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()
    begin = time.perf_counter()
    losses = [step()]
    wait()
    first = (time.perf_counter() - begin) * 1e3
    losses += [step() for _ in range(arguments.curve - 1)]
    times = []
    for _ in range(arguments.timed):
        wait()
        begin = time.perf_counter()
        step()
        wait()
        times.append((time.perf_counter() - begin) * 1e3)
    peak = (torch.cuda.max_memory_allocated() if device == "cuda"
            else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    print(json.dumps({"name": name, "ms": statistics.median(times), "best_ms": min(times), "first_ms": first,
                      "peak_bytes": peak,
                      "losses": [loss.item() for loss in losses]}))


# ---- the table --------------------------------------------------------------------------------

def result_of(command, environment=None):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if done.returncode == 0 and lines else None


def difference(ours, theirs):
    """The largest difference of two curves, relative to where they start; infinite if one is not finite."""
    pairs = list(zip(ours, theirs))
    if not pairs or not all(math.isfinite(a) and math.isfinite(b) for a, b in pairs):
        return math.inf
    return max(abs(a - b) for a, b in pairs) / abs(theirs[0])


def measure(arguments, name, weights):
    common = ["--device", arguments.device, "--curve", arguments.curve, "--timed", arguments.timed]
    peer = [arguments.python, pathlib.Path(__file__).resolve(), "--peer", name, *common, "--threads",
            arguments.threads or 0]
    rows = {"eager": result_of([*peer, "--weights", weights])}
    if name in CAST_ROWS:
        rows["float32"] = result_of([*peer, "--exact", "--timed", 1])
    if arguments.compiled:
        rows["compiled"] = result_of([*peer, "--compiled"])
    environment = dict(os.environ)
    if arguments.threads:
        environment["TENSORA_NUM_THREADS"] = str(arguments.threads)
    mine = [arguments.program, "--case", name, "--weights", weights, *common]
    ours = result_of(mine, environment)
    if ours and name in CAST_ROWS:
        ours["float32"] = result_of([*mine, "--exact", 1, "--timed", 1], environment)
    return ours, rows


def show(name, ours, peers):
    count, unit, tolerance = ROWS[name]
    text = lambda row: (f"{row['ms']:10.2f} ms {count / row['ms'] * 1e3:12,.0f} {unit}/s "
                        f"{row['peak_bytes'] / 2**30:7.2f} GiB")
    print(f"{name}\n  ours      {text(ours) if ours else 'FAILED'}")
    good = ours is not None
    # Two runs in bfloat16 round differently and part; PyTorch's own leaves its float32 curve. So both are run
    # in float32 too, where the curves must agree, and ours may be 4 times as far from it in bfloat16.
    exact = peers.get("float32")
    room = tolerance
    if exact and ours and ours["float32"] and peers["eager"]:
        theirs, mine = (difference(row["losses"], exact["losses"]) for row in (peers["eager"], ours))
        apart = difference(ours["float32"]["losses"], exact["losses"])
        print(f"  float32 curves differ by {apart:.1e}; off them in bfloat16: ours {mine:.1e}, PyTorch's {theirs:.1e}")
        room = max(tolerance, theirs * 5) if apart <= tolerance and mine <= 4 * theirs else 0
    for kind, row in peers.items():
        if kind == "float32":
            continue
        if not row:
            print(f"  {kind:9} failed")
            continue
        if ours:
            apart = difference(ours["losses"], row["losses"])
            ok = apart <= room
            good = good and (ok or kind != "eager")
            print(f"  {kind:9} {text(row)}   {row['ms'] / ours['ms']:5.2f}x the speed, "
                  f"{ours['peak_bytes'] / row['peak_bytes']:5.2f}x the memory, "
                  f"curves differ by {apart:.1e}{'' if ok else ': TOO MUCH'}")
        else:
            print(f"  {kind:9} {text(row)}")
    sys.stdout.flush()
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--filter", default="", help="only rows whose name contains this")
    parser.add_argument("--curve", type=int, default=20, help="steps whose losses are compared")
    parser.add_argument("--timed", type=int, default=15, help="steps that are timed")
    parser.add_argument("--threads", type=int, default=None, help="on the CPU")
    parser.add_argument("--compiled", action="store_true", help="torch.compile too")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    parser.add_argument("--python", default=sys.executable, help="the interpreter whose PyTorch is the peer")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--exact", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--weights", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        return run_peer(arguments)
    arguments.program = arguments.build / "bin/tensora-bench-train"
    names = [name for name in ROWS if arguments.filter in name and
             (name in CUDA_ROWS) == (arguments.device == "cuda")]
    if not names:
        sys.exit(f"there is no row '{arguments.filter}' for {arguments.device}; there are: {', '.join(ROWS)}")
    rows, good = {}, True
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            weights = pathlib.Path(folder) / f"{name}.safetensors"
            ours, peers = measure(arguments, name, weights)
            good = show(name, ours, peers) and good
            rows[name] = {"ours": ours, **peers}
            weights.unlink(missing_ok=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
