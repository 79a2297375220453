#!/usr/bin/env python3
"""`./dev bench ops`: every op family beside PyTorch, from one run; the rows below 1.0x come last.

Ours come from tensora-bench-ops (bench/ops.cpp); PyTorch's rows have the same names and inputs. A row
of ours whose result is not PyTorch's (computed in float32 for the half types) counts as a failure,
whatever its speed. Each round runs one after the other; the table shows the medians over the rounds.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = 0.6180339887498949
TOLERANCE = {"f64": 1e-9, "f32": 2e-4, "f16": 5e-3, "bf16": 3e-2, "i64": 1e-2}


# ---- PyTorch's rows ---------------------------------------------------------------------------

def fractions(torch, count, step):
    multiples = torch.arange(count, dtype=torch.float64) * step
    return multiples - multiples.floor()


class Inputs:
    """`kept` is the dtype in which the inputs, rounded to `dtype`, are then computed with."""

    def __init__(self, torch, device, dtype, kept=None):
        self.torch, self.device, self.dtype, self.kept = torch, device, dtype, kept or dtype

    def values(self, *sizes, step=GOLDEN):
        flat = (fractions(self.torch, math.prod(sizes), step) - 0.25) * 4
        return flat.reshape(sizes).to(self.dtype).to(self.kept).to(self.device)

    def indices(self, *sizes, below):
        flat = (fractions(self.torch, math.prod(sizes), 0.7548776662466927) * below).floor()
        return flat.long().reshape(sizes).to(self.device)


def pointwise(torch, make):
    F = torch.nn.functional
    x, y = make.values(4096, 4096), make.values(4096, 4096, step=0.3247179572447460)
    line, column = make.values(4096), make.values(4096, 1)
    other = torch.bfloat16 if make.dtype == torch.float32 else torch.float32
    return {"add": lambda: x + y, "add_row": lambda: x + line, "add_column": lambda: x + column,
            "add_number": lambda: x + 2.0, "mul_": lambda: x.mul_(1.0), "relu": lambda: F.relu(x),
            "exp": lambda: x.exp(), "sigmoid": lambda: x.sigmoid(), "tanh": lambda: x.tanh(),
            "gelu": lambda: F.gelu(x), "silu": lambda: F.silu(x), "sin": lambda: x.sin(),
            "erf": lambda: x.erf(), "pow": lambda: x.pow(3.0), "clamp": lambda: x.clamp(-1, 1),
            "where": lambda: torch.where(x > 0, x, y), "cast": lambda: x.to(other),
            "transposed_copy": lambda: x.t().contiguous()}


def reduce(torch, make):
    x = make.values(8192, 4096)
    return {"sum_all": lambda: x.sum(), "sum_rows": lambda: x.sum(1), "sum_cols": lambda: x.sum(0),
            "mean_rows": lambda: x.mean(1), "var_rows": lambda: x.var(1), "var_cols": lambda: x.var(0),
            "amax_all": lambda: x.amax(), "amax_rows": lambda: x.amax(1),
            "max_rows": lambda: x.max(1).values, "argmax_rows": lambda: x.argmax(1),
            "logsumexp_rows": lambda: x.logsumexp(1), "norm_rows": lambda: x.norm(2, 1),
            "prod_rows": lambda: x.prod(1), "any_rows": lambda: (x > 100).any(1),
            "cumsum_rows": lambda: x.cumsum(1), "cumsum_cols": lambda: x.cumsum(0)}


def index(torch, make):
    table, rows = make.values(32768, 1024), make.indices(16384, below=32768)
    source, places = make.values(16384, 1024), make.indices(4096, 4096, below=4096)
    square = make.values(4096, 4096)
    mask = square > 1
    return {"index_select": lambda: table.index_select(0, rows),
            "gather": lambda: square.gather(1, places),
            "scatter": lambda: square.scatter(1, places, 2.0),
            "scatter_add": lambda: torch.zeros_like(square).scatter_add(1, places, square),
            "index_add": lambda: table.index_add(0, rows, source),
            "masked_fill": lambda: square.masked_fill(mask, 0.0),
            "masked_select": lambda: square.masked_select(mask), "nonzero": lambda: mask.nonzero(),
            "cat_rows": lambda: torch.cat([square, square], 0),
            "cat_cols": lambda: torch.cat([square, square], 1), "flip": lambda: square.flip(1),
            "roll": lambda: square.roll(17, 1), "tril": lambda: square.tril()}


class Both:
    """A function of tensors, alone and with its backward; bench/ops_nn.cpp has the same rows."""

    def __init__(self, torch, make):
        self.torch, self.make, self.rows = torch, make, {}

    def add(self, name, inputs, wanted, function):
        torch, make = self.torch, self.make
        self.rows[name] = lambda: function(*inputs)
        leaves, gradients = [], []

        def whole():
            if not leaves:
                leaves.extend(x.detach() for x in inputs)
                for leaf in leaves[:wanted]:
                    leaf.requires_grad_()
            result = function(*leaves)
            if not gradients:
                narrow = make.dtype if result.dtype == make.kept else result.dtype
                gradients.append(Inputs(torch, make.device, narrow, result.dtype).values(
                    *result.shape, step=0.5698402909980532))
            return torch.autograd.grad(result, leaves[:wanted], gradients[0])[0]
        self.rows[f"{name}_fb"] = whole


def sheet(make, rows, columns):
    narrow = (make.values(rows, 1).to(make.dtype) + make.values(1, columns, step=0.3247179572447460)
              .to(make.dtype))
    return narrow.to(make.kept)


def norm(torch, make):
    F, both, gpu = torch.nn.functional, Both(torch, make), make.device == "cuda"
    x = sheet(make, 16384 if gpu else 2048, 4096)
    weight, bias = make.values(4096), make.values(4096, step=0.11)
    both.add("softmax", [x], 1, lambda x: x.softmax(-1))
    both.add("log_softmax", [x], 1, lambda x: x.log_softmax(-1))
    both.add("layer_norm", [x, weight, bias], 3, lambda x, w, b: F.layer_norm(x, [4096], w, b))
    both.add("rms_norm", [x, weight], 2, lambda x, w: F.rms_norm(x, [4096], w))
    image, scale = make.values(64 if gpu else 2, 256, 56, 56), make.values(256)
    if make.dtype == torch.bfloat16 and gpu:
        scale = scale.float()
    both.add("batch_norm", [image, scale, scale.clone()], 3,
             lambda x, w, b: F.batch_norm(x, None, None, w, b, True))
    both.add("group_norm", [image, make.values(256), make.values(256)], 3,
             lambda x, w, b: F.group_norm(x, 32, w, b))
    return both.rows


def loss(torch, make):
    F, both, gpu = torch.nn.functional, Both(torch, make), make.device == "cuda"
    rows, classes = 4096 if gpu else 64, 128256
    target = make.indices(rows, below=classes)
    both.add("cross_entropy", [sheet(make, rows, classes)], 1, lambda x: F.cross_entropy(x, target))
    table = sheet(make, 128256 if gpu else 8192, 2048 if gpu else 512)
    words = make.indices(16384 if gpu else 4096, below=128256 if gpu else 8192)
    both.add("embedding", [table], 1, lambda w: F.embedding(words, w))
    return both.rows


def sort(torch, make):
    gpu = make.device == "cuda"
    count = 1 << 24 if gpu else 1 << 20
    flat, lines = make.values(count), make.values(4096 if gpu else 256, 8192)
    vocabulary = make.values(64 if gpu else 4, 128256)
    numbers = make.indices(count, below=1 << 20)
    edges = make.values(1 << 20).sort().values
    return {"flat": lambda: flat.sort().values, "rows": lambda: lines.sort().values,
            "topk_8_of_rows": lambda: lines.topk(8).values,
            "topk_50_of_vocabulary": lambda: vocabulary.topk(50).values,
            "median_rows": lambda: lines.median(1).values, "unique": lambda: numbers.unique(),
            "bincount": lambda: numbers.bincount(),
            "searchsorted": lambda: torch.searchsorted(edges, flat)}


def conv(torch, make):
    F, both, gpu = torch.nn.functional, Both(torch, make), make.device == "cuda"
    layout = torch.channels_last if gpu else torch.contiguous_format
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False  # as ours: float32 means float32 unless allow_tf32(true) is called

    def layer(name):
        i, o, kernel, stride, size = map(int, name.split("_"))
        x = make.values(128 if gpu else 4, i, size, size).contiguous(memory_format=layout)
        w = make.values(o, i, kernel, kernel, step=0.11).contiguous(memory_format=layout)
        both.add(name, [x, w], 1 if i == 3 else 2,
                 lambda x, w: F.conv2d(x, w, None, stride, kernel // 2))
    for name in ("3_64_7_2_224", "64_64_1_1_56", "64_64_3_1_56", "128_128_3_1_28", "256_512_1_2_56",
                 "256_256_3_1_14", "1024_256_1_1_14", "512_512_3_1_7"):
        layer(name)
    image = make.values(64 if gpu else 4, 64, 112, 112)
    both.add("max_pool", [image], 1, lambda x: F.max_pool2d(x, 3, 2, 1))
    both.add("avg_pool", [image], 1, lambda x: F.avg_pool2d(x, 2))
    both.add("bilinear", [image], 1, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))
    return both.rows


def optim(torch, make):
    count = 148 if make.device == "cuda" else 16
    params = [make.values(838000).requires_grad_() for _ in range(count)]
    for param in params:
        param.grad = make.values(838000, step=0.11)
    optimizer = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01, fused=True)

    def step():
        optimizer.step()
        return params[0]
    return {"adamw": step,
            "clip_grad_norm": lambda: torch.nn.utils.clip_grad_norm_(params, 1e9, foreach=True)}


def attention(torch, make):
    """On a GPU the fastest of PyTorch's kernels."""
    F, both, gpu = torch.nn.functional, Both(torch, make), make.device == "cuda"
    from torch.nn.attention import SDPBackend, sdpa_kernel
    half = gpu and make.kept == make.dtype

    def rows(name):
        sizes = name.removesuffix("_causal")
        batch, heads, kv_heads, length, head = map(int, sizes.split("_"))
        made = lambda h, step: make.values(batch, h, length, head, step=step)

        def run(q, k, v):
            if not half:  # PyTorch would store the scores of heads that share keys
                k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
                return F.scaled_dot_product_attention(q, k, v, is_causal=name != sizes)
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, is_causal=name != sizes, enable_gqa=heads != kv_heads)
        both.add(name, [made(heads, 0.618033988), made(kv_heads, 0.324717957), made(kv_heads, 0.754877666)], 3, run)
    for name in (("4_32_32_4096_128_causal", "4_32_32_4096_128", "4_32_32_4096_64_causal",
                  "16_32_32_512_128_causal", "32_12_12_1024_64_causal", "2_32_8_8192_128_causal",
                  "64_16_16_197_64", "4_16_16_4096_256_causal", "16_32_32_512_64_causal",
                  "1_32_8_32768_128_causal") if gpu else ("1_12_12_1024_64_causal", "1_8_8_512_128")):
        rows(name)

    def decode(batch, length):
        """One query for each sequence, 32 heads of which four share a head of keys."""
        made = lambda h, n, step: make.values(batch, h, n, 128, step=step)
        q, k, v = made(32, 1, 0.618033988), made(8, length, 0.324717957), made(8, length, 0.754877666)

        def run():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION if half else SDPBackend.MATH):
                return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return run
    for batch, length in ((1, 8192), (32, 2048), (64, 8192)) if gpu else ():
        both.rows[f"decode_{batch}_{length}"] = decode(batch, length)
    return both.rows


def fourier(torch, make):
    fft, parts = torch.fft, torch.view_as_real
    real = make.values(2048, 1024)
    lines = torch.view_as_complex(make.values(2048, 1024, 2, step=0.3247179572447460))
    half, primes = fft.rfft(real), lines[:, :1009].contiguous()
    one, images = lines.reshape(-1), lines.reshape(2, 1024, 1024)
    return {"fft": lambda: parts(fft.fft(lines)), "ifft_columns": lambda: parts(fft.ifft(lines, dim=0)),
            "fft_prime": lambda: parts(fft.fft(primes)), "fft_one_line": lambda: parts(fft.fft(one)),
            "fft_real": lambda: parts(fft.fft(real)), "rfft": lambda: parts(fft.rfft(real)),
            "irfft": lambda: fft.irfft(half), "fft2": lambda: parts(fft.fft2(images))}


def random(torch, make):
    sizes, options = (4096, 4096), {"device": make.device}
    weights = make.values(64, 32768).abs() + 0.01
    quarter = torch.full(sizes, 0.25, **options)
    return {"rand.f32": lambda: torch.rand(sizes, **options).mean(),
            "randn.f32": lambda: torch.randn(sizes, **options).var(),
            "bernoulli.f32": lambda: torch.full(sizes, 0.25, **options).bernoulli().mean(),
            "randperm.i64": lambda: torch.randperm(1 << 22, **options).mean(dtype=torch.float64),
            "multinomial.f32": lambda: weights.multinomial(256, True).mean(dtype=torch.float64),
            "multinomial_without.f32": lambda: weights.multinomial(256).mean(dtype=torch.float64)}


def matrix_row(torch, make, shape):
    if shape.startswith("bmm_"):
        batch, m, k, n = map(int, shape[4:].split("x"))
        a, b = make.values(batch, m, k), make.values(batch, k, n)
        return lambda: torch.bmm(a, b)
    m, k, n = map(int, shape.rstrip("t").split("x"))
    a = make.values(m, k)
    b = make.values(n, k).t() if shape.endswith("t") else make.values(k, n)
    return lambda: a @ b


class Peer:
    """PyTorch's rows, made when they are asked for."""

    def __init__(self, torch, device):
        self.torch, self.device, self.families = torch, device, {}

    def body(self, name, wide=False):
        """`wide`: half types are computed with in float32, as a check of results needs it; PyTorch's own
        sums of half numbers round at every step."""
        family, row = name.split(".", 1)
        dtype = {"f32": self.torch.float32, "bf16": self.torch.bfloat16, "f16": self.torch.float16,
                 "f64": self.torch.float64, "i64": self.torch.float32}[name.rsplit(".", 1)[1]]
        kept = self.torch.float32 if wide and dtype.itemsize == 2 else dtype
        make = Inputs(self.torch, self.device, dtype, kept)
        if family == "matrix":
            return matrix_row(self.torch, make, row.rsplit(".", 1)[0])
        key = (family, dtype, kept)
        if key not in self.families:
            self.families = {k: v for k, v in self.families.items() if k[:2] == key[:2]}
            self.families[key] = globals()[family](self.torch, make)
        rows = self.families[key]
        return rows[row if family == "random" else row.rsplit(".", 1)[0]]

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def milliseconds(self, body):
        def group(calls):
            self.wait()
            begin = time.perf_counter()
            for _ in range(calls):
                body()
            self.wait()
            return (time.perf_counter() - begin) / calls * 1e3
        group(2)
        calls = min(max(int(20 / max(group(2), 1e-4)), 1), 2000)
        return statistics.median(group(calls) for _ in range(9))

    def fingerprint(self, result):
        flat = result.detach().reshape(-1)
        flat = flat[::max(1, flat.numel() >> 22)].cpu().double()  # of large results every nth element
        count = flat.numel()
        places = [i * (count - 1) // 63 for i in range(64)] if count else []
        return [count, flat.sum().item(), flat.abs().sum().item(), *(flat[i].item() for i in places)]


def agree(name, ours, theirs, narrow=None):
    """Whether a fingerprint of ours is that of PyTorch's result. Half types cannot do better than their
    rounding lets them: there ours may be twice as far from the exact result as PyTorch's own, `narrow`."""
    if name.startswith("random."):  # other numbers, equal in the mean
        return math.isclose(ours[1], theirs[1], rel_tol=2e-2)
    tolerance = TOLERANCE[name.rsplit(".", 1)[1]]
    scale = theirs[2] / max(theirs[0], 1)
    near = lambda a, b, room: a == b or abs(a - b) <= tolerance * room
    # Rounding can have a bias, which PyTorch's own result shows.
    sum_of = lambda i: near(ours[i], theirs[i], theirs[2]) or (narrow and near(ours[i], narrow[i], narrow[2]))
    if not (ours[0] == theirs[0] and sum_of(1) and sum_of(2)):
        return False
    error = lambda given: math.sqrt(sum((a - b) ** 2 for a, b in zip(given[3:], theirs[3:]) if a != b))
    if narrow and math.isfinite(error(ours)) and error(ours) <= 2 * error(narrow):
        return True
    return all(near(a, b, abs(b) + scale) for a, b in zip(ours[3:], theirs[3:]))


# ---- the table --------------------------------------------------------------------------------

def run_ours(program, device, pattern):
    tuned = {**os.environ, "TENSORA_CUDA_TUNE_CONV": "1"}  # as the peer's torch.backends.cudnn.benchmark
    done = subprocess.run([str(program), "--device", device, "--filter", pattern],
                          stdout=subprocess.PIPE, text=True, env=tuned)
    if done.returncode != 0:
        sys.exit(f"{program.name} failed with status {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measure(arguments, torch):
    """name -> {ours: [ms], theirs: [ms], correct}"""
    rows = {}
    peer = Peer(torch, arguments.device) if torch else None
    for number in range(arguments.rounds):
        print(f"round {number + 1} of {arguments.rounds} …", file=sys.stderr)
        for row in run_ours(arguments.program, arguments.device, arguments.filter):
            entry = rows.setdefault(row["name"], {"ours": [], "theirs": [], "correct": True})
            entry["ours"].append(row["ms"])
            if peer:
                body = peer.body(row["name"])
                theirs = peer.fingerprint(peer.body(row["name"], wide=True)())
                narrow = peer.fingerprint(body()) if row["name"].endswith("16") else None
                entry["correct"] &= agree(row["name"], row["fingerprint"], theirs, narrow)
                entry["theirs"].append(peer.milliseconds(body))
    return rows


def show(rows):
    print(f"{'row':38}{'ours ms':>10}{'PyTorch ms':>12}{'x PyTorch':>11}")
    for row in sorted(rows, key=lambda row: -(row["ratio"] or math.inf)):
        theirs = "-" if row["theirs"] is None else f"{row['theirs']:.4g}"
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        print(f"{row['name']:38}{row['ours']:>10.4g}{theirs:>12}{ratio:>11}"
              f"{'' if row['correct'] else '   WRONG RESULT'}")
    behind = [row["name"] for row in rows if row["ratio"] and row["ratio"] < 1]
    print(f"\n{len(rows)} rows, {len(behind)} below 1.0x")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--filter", default="", help="only rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    parser.add_argument("--python", help="an interpreter that has PyTorch")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--program", type=pathlib.Path, help="tensora-bench-ops, if not in the build")
    arguments = parser.parse_args()
    if arguments.python:
        rest = [a for i, a in enumerate(sys.argv) if a != "--python" and sys.argv[i - 1] != "--python"]
        os.execv(arguments.python, [arguments.python, *rest])
    arguments.program = arguments.program or arguments.build / "bin/tensora-bench-ops"
    try:
        import torch
        print(f"the peer is PyTorch {torch.__version__}, {torch.get_num_threads()} threads",
              file=sys.stderr)
    except ImportError:
        torch = None
        print("PyTorch was not found: no peer column, and no check. In a virtual environment, "
              "`pip install torch`, and name its interpreter with --python", file=sys.stderr)
    rows = []
    for name, entry in measure(arguments, torch).items():
        ours = statistics.median(entry["ours"])
        theirs = statistics.median(entry["theirs"]) if entry["theirs"] else None
        rows.append({"name": name, "ours": ours, "theirs": theirs, "correct": entry["correct"],
                     "ratio": theirs / ours if theirs else None})
    show(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if all(row["correct"] for row in rows) else 1)


if __name__ == "__main__":
    main()
