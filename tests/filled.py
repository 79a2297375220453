"""Numbers that Python and C++ (filled.h) compute alike, so that golden files hold results only: the
contents of a tensor follow from its name. And the writer of golden files."""
import math

import numpy
import torch


def unit(name, count):
    """`count` numbers between -1 and 1."""
    phase = sum((i + 1) * ord(letter) for i, letter in enumerate(name))
    x = (numpy.arange(count, dtype=numpy.uint64) * 2654435761 + phase * 40503 + 12345) % 2**32
    x ^= x >> 15
    x = x * 2246822519 % 2**32
    x ^= x >> 13
    x = x * 3266489917 % 2**32
    x ^= x >> 16
    return x.astype(numpy.float64) / 2**31 - 1


def filled(name, *sizes):
    return torch.from_numpy(unit(name, math.prod(sizes))).reshape(sizes).float()


def weight(name, like):
    """What a parameter or buffer of this name and shape holds."""
    values = torch.from_numpy(unit(name, like.numel())).reshape(like.shape)
    if name.endswith("running_var"):
        values = 1 + 0.5 * values
    elif like.dim() == 1:
        values = (1 if name.endswith("weight") else 0) + 0.1 * values
    else:
        values = 1.5 * values / math.sqrt(like.numel() / like.shape[0])
    return values.to(like.dtype)


def fill(module):
    """Fills all tensors of a module in place, by their names."""
    with torch.no_grad():
        seen = set()
        for name, tensor in list(module.named_parameters()) + list(module.named_buffers()):
            if tensor.is_floating_point() and tensor.data_ptr() not in seen and name in module.state_dict():
                seen.add(tensor.data_ptr())
                tensor.copy_(weight(name, tensor))
    return module


class Goldens:
    def __init__(self):
        self.lines = []

    def put(self, name, tensor):
        tensor = tensor.detach()
        text = " ".join(f"{value:.8g}" for value in tensor.double().flatten().tolist())
        self.lines.append(f"{name}|{','.join(map(str, tensor.shape))}|{text}")

    def digest(self, name, tensor):
        """Four products with fixed vectors, and the norm: enough to notice any difference."""
        flat = tensor.detach().double().flatten()
        parts = [float(flat @ torch.from_numpy(unit(f"digest{i}", flat.numel()))) for i in range(4)]
        self.put(name, torch.tensor(parts + [float(flat.norm())], dtype=torch.float64))

    def gradients(self, name, outputs, module, inputs=()):
        """Of a weighted sum of the outputs, for parameters and inputs."""
        loss = sum((output * filled(f"loss{i}", *output.shape)).sum() for i, output in enumerate(outputs))
        loss.backward()
        for key, parameter in module.named_parameters():
            self.digest(f"{name}.grad.{key}", parameter.grad)
        for i, tensor in enumerate(inputs):
            self.digest(f"{name}.grad_input{i}", tensor.grad)

    def write(self, path):
        path.write_text("\n".join(self.lines) + "\n")
        print(f"{path}: {len(self.lines)} entries, {path.stat().st_size} bytes")
