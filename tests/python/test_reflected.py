"""Reflected operators called by name, with tensors and numbers: PyTorch's results and gradients."""
import pytest

import tensora

NAMES = {"__radd__": lambda x, y: y + x, "__rsub__": lambda x, y: y - x,
         "__rmul__": lambda x, y: y * x, "__rtruediv__": lambda x, y: y / x,
         "__rpow__": lambda x, y: y ** x, "__rmod__": lambda x, y: y % x,
         "__rfloordiv__": lambda x, y: y // x}


@pytest.mark.parametrize("name", NAMES)
def test_operands_keep_their_gradients(name):
    def values(run):
        x = tensora.tensor([2.0, 3.0], requires_grad=True)
        y = tensora.tensor([5.0, 7.5], requires_grad=True)
        result = run(x, y)
        if result.requires_grad:
            result.sum().backward()
        return result.tolist(), [t.grad is not None and t.grad.tolist() for t in (x, y)]
    assert values(lambda x, y: getattr(x, name)(y)) == values(NAMES[name])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [2, 0.5])
def test_numbers(name, number):
    x = tensora.tensor([2.0, 3.0], requires_grad=True)
    result = getattr(x, name)(number)
    assert result.tolist() == NAMES[name](x, number).tolist()
    assert result.requires_grad == NAMES[name](x, number).requires_grad


def test_integers_stay_integers():
    assert tensora.tensor([1, 2]).__rsub__(tensora.tensor([5, 5])).dtype == tensora.int64
    assert tensora.tensor([1, 2]).__rsub__(5).dtype == tensora.int64
