"""Fourier transforms, compared with NumPy's."""
import numpy as np
import pytest

import tensora as torch

RNG = np.random.default_rng(5)


def numbers(*sizes, real=False, dtype=np.float64):
    values = RNG.standard_normal(sizes)
    return values.astype(dtype) if real else values + 1j * RNG.standard_normal(sizes)


def near(ours, theirs):
    return np.allclose(ours.numpy(), theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("n, axis, norm", [(None, -1, None), (7, 0, "ortho"), (3, 1, "forward"), (97, -1, "backward")])
def test_one_dim(name, n, axis, norm):
    x = numbers(4, 6, real=name in ("rfft", "ihfft"))
    ours = getattr(torch.fft, name)(torch.tensor(x), n=n, dim=axis, norm=norm)
    assert near(ours, getattr(np.fft, name)(x, n=n, axis=axis, norm=norm))


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"])
def test_several_dims(name):
    x = numbers(3, 4, 6, real=name.startswith("rfft"))
    ours, theirs = getattr(torch.fft, name), getattr(np.fft, name)
    assert near(ours(torch.tensor(x)), theirs(x, axes=(-2, -1) if name.endswith("2") else (0, 1, 2)))
    assert near(ours(torch.tensor(x), s=(5, 2), dim=(0, 2), norm="ortho"), theirs(x, (5, 2), (0, 2), "ortho"))


def test_frequencies_and_shifts():
    assert near(torch.fft.fftfreq(5, d=0.5, dtype=torch.float64), np.fft.fftfreq(5, 0.5))
    assert near(torch.fft.rfftfreq(6, dtype=torch.float64), np.fft.rfftfreq(6))
    x = numbers(4, 5)
    assert near(torch.fft.fftshift(torch.tensor(x)), np.fft.fftshift(x))
    assert near(torch.fft.ifftshift(torch.tensor(x), dim=1), np.fft.ifftshift(x, axes=1))


def test_dtypes_and_errors():
    assert torch.fft.fft(torch.arange(4)).dtype is torch.complex64
    assert torch.fft.irfft(torch.ones(3, dtype=torch.complex128)).dtype is torch.float64
    with pytest.raises(RuntimeError, match="unsupported dtype float16"):
        torch.fft.fft(torch.ones(4, dtype=torch.float16))
    with pytest.raises(TypeError, match="expects a real input"):
        torch.fft.rfft(torch.ones(4, dtype=torch.complex64))


def test_gradient():
    x = torch.tensor(numbers(6, real=True), requires_grad=True)
    power = (torch.fft.rfft(x, norm="ortho").abs() ** 2)
    (power[0] + 2 * power[1:-1].sum() + power[-1]).backward()  # Parseval: the sum of squares
    assert np.allclose(x.grad.numpy(), 2 * x.detach().numpy())


def test_short_time_transform_and_its_inverse():
    x = torch.tensor(numbers(2, 64, real=True))
    window = torch.hann_window(16, dtype=torch.float64)
    spectra = torch.stft(x, 16, hop_length=4, window=window, return_complex=True)
    assert spectra.shape == (2, 9, 17)
    assert near(torch.istft(spectra, 16, hop_length=4, window=window, length=64), x.numpy())
