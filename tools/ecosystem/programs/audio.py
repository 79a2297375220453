"""Programs that use libraries of sound and wavelets."""
from . import numbers, program


@program
def julius_filters():
    import julius
    x = numbers((2, 800))
    return {"resampled": julius.resample_frac(x, 4, 3), "low": julius.lowpass_filter(x, 0.1),
            "bands": julius.split_bands(x, 1000, n_bands=3), "convolved": julius.fft_conv1d(x[:, None], numbers((1, 1, 65), 3))}


@program
def nnaudio_spectra():
    from nnAudio import features
    x = numbers((1, 4000))
    return {"stft": features.STFT(n_fft=256, hop_length=128, verbose=False, output_format="Magnitude")(x),
            "mel": features.MelSpectrogram(sr=8000, n_fft=256, n_mels=20, hop_length=128, verbose=False)(x),
            "mfcc": features.MFCC(sr=8000, n_mfcc=10, n_fft=256, n_mels=20, hop_length=128, verbose=False)(x)}


@program
def wavelets_of_images():
    from pytorch_wavelets import DTCWTForward, DWTForward, DWTInverse
    x = numbers((1, 2, 32, 32))
    low, high = DWTForward(J=2, wave="db2", mode="zero")(x)
    tree = DTCWTForward(J=2)(x)
    return {"low": low, "high": high[0], "back": DWTInverse(wave="db2", mode="zero")((low, high)), "tree": tree[1][0]}
