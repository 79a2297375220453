"""Random calls with zero, negative and huge sizes: a result or an exception, never a crash."""
import os
import subprocess
import sys

import pytest

import tensora

PROGRAM = r"""
import random, resource, sys
import tensora
F, r = tensora.nn.functional, random.Random(int(sys.argv[1]))
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 2 * 2**30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
HUGE = [2**63 - 1, 2**62, 2**60, 2**33, 2**31, 2**31 - 1, 2**30, 2**30 - 1, -2**63, -2**62, -1]

def number(*small):
    return r.choice(HUGE) if r.random() < 0.15 else r.choice(small or (0, 1, 2, 3))
def numbers(count):
    return number() if r.random() < 0.5 else [number() for _ in range(count)]
def some(count, *names):
    return {name: numbers(count) for name in names if r.random() < 0.5}
def tensor(spatial):
    sizes = [r.choice([0, 1, 2] if r.random() < 0.2 else [1, 2]) for _ in range(2)]
    sizes += [r.choice([0, 1, 2, 5, 8] if r.random() < 0.3 else [2, 5, 8]) for _ in range(spatial)]
    return tensora.randn(sizes, dtype=r.choice([tensora.float32, tensora.float64])).requires_grad_()
def weight(first, second, spatial, dtype):
    sizes = [first, second] + [r.choice([0, 1, 2, 3]) for _ in range(spatial)]
    return tensora.randn(sizes, dtype=dtype).requires_grad_()
def maybe():
    return r.random() < 0.5

def max_pool(d):
    options = some(d, "stride", "padding", "dilation")
    return getattr(F, f"max_pool{d}d")(tensor(d), numbers(d), ceil_mode=maybe(), **options)
def avg_pool(d):
    options = some(d, "stride", "padding")
    return getattr(F, f"avg_pool{d}d")(tensor(d), numbers(d), ceil_mode=maybe(), **options)
def adaptive(d): return getattr(F, f"adaptive_{r.choice(['max', 'avg'])}_pool{d}d")(tensor(d), numbers(d))
def unpool(d):
    x = tensor(d)
    places = tensora.randint(0, 4, x.shape) * number(1)
    return getattr(F, f"max_unpool{d}d")(x, places, numbers(d), **some(d, "stride", "padding"))
def conv(d):
    x = tensor(d)
    w = weight(r.choice([0, 1, 4]), x.shape[1], d, x.dtype)
    return getattr(F, f"conv{d}d")(x, w, **some(d, "stride", "padding", "dilation"))
def conv_transpose(d):
    x = tensor(d)
    w = weight(x.shape[1], r.choice([0, 1, 4]), d, x.dtype)
    options = some(d, "stride", "padding", "output_padding", "dilation")
    return getattr(F, f"conv_transpose{d}d")(x, w, **options)
def unfold(d): return F.unfold(tensor(2), numbers(2), **some(2, "stride", "padding", "dilation"))
def fold(d): return F.fold(tensor(1), numbers(2), numbers(2), **some(2, "stride", "padding", "dilation"))
def pad(d):
    mode = r.choice(["constant", "reflect", "replicate", "circular"])
    return F.pad(tensor(d), [number(0, 1, -1) for _ in range(2 * d)], mode=mode)
def interpolate(d):
    if maybe():
        return F.interpolate(tensor(d), size=numbers(d))
    return F.interpolate(tensor(d), scale_factor=r.choice([1e-30, 0.5, 2, 1e10, 1e30, float("inf")]))
def group_norm(d): return F.group_norm(tensor(d), number(1, 2))
def instance_norm(d): return F.instance_norm(tensor(d))
def local_response_norm(d): return F.local_response_norm(tensor(d), number(1, 2))
def shuffle(d): return r.choice([F.pixel_shuffle, F.pixel_unshuffle, F.channel_shuffle])(tensor(2), number(1, 2))
def windows(d): return tensor(d).unfold(number(0, 1), number(), number(1, 2)) * 1

CALLS = [max_pool, avg_pool, adaptive, unpool, conv, conv_transpose, unfold, fold, pad, interpolate,
         group_norm, instance_norm, local_response_norm, shuffle, windows]
for i in range(600):
    call = CALLS[i % len(CALLS)]
    print(i, call.__name__, flush=True)
    try:
        call(r.randint(1, 3)).sum().backward()
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
        pass
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
@pytest.mark.parametrize("seed", range(3))
def test_calls_with_extreme_sizes_do_not_crash(seed):
    search = os.path.dirname(os.path.dirname(tensora.__file__))
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(seed)], capture_output=True, text=True,
                          timeout=300, env={**os.environ, "PYTHONPATH": search})
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{done.returncode} in call {last}: {done.stderr}"
