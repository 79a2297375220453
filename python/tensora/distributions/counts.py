"""Draws of counts, by rejection where many events are expected and by waiting times where few are; all in float64."""
from .. import _C
from .._modes import no_grad


def _until_accepted(shape, device, propose):
    """Draws `propose(u, v)`, a pair of counts and whether they are accepted, until all are; u and v are uniform."""
    result, done = _C.zeros(shape, dtype=_C.float64, device=device), _C.zeros(shape, dtype=_C.bool, device=device)
    while not bool(done.all()):
        u = _C.rand(shape, dtype=_C.float64, device=device) - 0.5
        v = _C.rand(shape, dtype=_C.float64, device=device)
        counts, good = propose(u, v)
        result = _C.where(good & ~done, counts, result)
        done = done | good
    return result


def _waited(limit, step):
    """How many steps fit: the time that they take in all is not more than the limit."""
    count, time = _C.zeros_like(limit), step()
    while bool((time <= limit).any()):
        count = count + (time <= limit).to(limit.dtype)
        time = time + step()
    return count


def _positive(shape, device):
    return 1 - _C.rand(shape, dtype=_C.float64, device=device)


def poisson(rate):
    """Hörmann's transformed rejection (PTRS) above a rate of 10; exponential waiting times below."""
    with no_grad():
        wide = rate.to(_C.float64)
        shape, device, many = tuple(rate.shape), rate.device, wide >= 10
        mean = wide.clamp_min(10.0)
        b = 0.931 + 2.53 * mean.sqrt()
        a = 0.02483 * b - 0.059
        bound, squeeze = (1.1239 + 1.1328 / (b - 3.4)).log(), 0.9277 - 3.6224 / (b - 2)

        def propose(u, v):
            near = 0.5 - u.abs()
            k = ((2 * a / near + b) * u + mean + 0.43).floor()
            density = k * mean.log() - mean - _C.lgamma(k.clamp_min(0.0) + 1)
            inside = v.log() + bound - (a / near ** 2 + b).log() <= density
            return k, ~many | ((near >= 0.07) & (v <= squeeze)) | ((k >= 0) & ~((near < 0.013) & (v > near)) & inside)
        few = _waited(_C.where(many, -1.0, wide), lambda: -_positive(shape, device).log())
        return _C.where(many, _until_accepted(shape, device, propose), few).to(rate.dtype)


def binomial(total_count, probs):
    """Hörmann's transformed rejection (BTRS) above an expected count of 10; geometric waiting times below."""
    with no_grad():
        total, wide = _C.broadcast_tensors([total_count.to(_C.float64), probs.to(_C.float64)])
        shape, device, flipped = tuple(total.shape), probs.device, wide > 0.5
        rare = _C.where(flipped, 1 - wide, wide)
        many = total * rare >= 10
        n, p = _C.where(many, total, 40.0), _C.where(many, rare, 0.5)
        spread = (n * p * (1 - p)).sqrt()
        b, odds, middle = 1.15 + 2.53 * spread, (p / (1 - p)).log(), ((n + 1) * p).floor()
        a, bound, squeeze = 0.0248 * b + 0.01 * p - 0.0873, (2.83 + 5.1 / b) * spread, 0.92 - 4.2 / b
        highest = _C.lgamma(middle + 1) + _C.lgamma(n - middle + 1)

        def propose(u, v):
            near = 0.5 - u.abs()
            k = ((2 * a / near + b) * u + n * p + 0.5).floor()
            within = (k >= 0) & (k <= n)
            inner = k.clamp_min(0.0).minimum(n)
            density = highest - _C.lgamma(inner + 1) - _C.lgamma(n - inner + 1) + (inner - middle) * odds
            inside = (v * bound / (a / near ** 2 + b)).log() <= density
            return k, ~many | (within & (((near >= 0.07) & (v <= squeeze)) | inside))
        fails = _C.log1p(-_C.where(many, 0.5, rare))  # the logarithm of the probability of a failure
        few = _waited(_C.where(many, 0.0, total), lambda: (_positive(shape, device).log() / fails).floor() + 1)
        counts = _C.where(many, _until_accepted(shape, device, propose), few)
        return _C.where(flipped, total - counts, counts).to(probs.dtype)
