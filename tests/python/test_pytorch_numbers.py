"""Under tensora.compat a seed gives PyTorch's random numbers; the expected ones are PyTorch 2.15's on the CPU."""
import json
import os
import subprocess
import sys

import pytest

import tensora

SEARCH = os.path.dirname(os.path.dirname(tensora.__file__))
PROGRAM = """
import json, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, RandomSampler
result = {}


def draw(name, *functions):
    torch.manual_seed(7)
    result[name] = [torch.as_tensor(f()).detach().double().reshape(-1)[-6:].tolist() for f in functions]


def restored():
    first, state = torch.randn(3), torch.get_rng_state()  # the fourth number of two pairs waits
    torch.rand(700000), torch.randn(2)
    torch.set_rng_state(state)
    return torch.cat([first, torch.rand(1), torch.randn(2)])


draw("uniform", lambda: torch.rand(7), lambda: torch.rand(3, dtype=torch.float64), lambda: torch.rand(300, dtype=torch.bfloat16),
     lambda: torch.empty(3, 2).t().uniform_(-2, 3))
draw("normal", lambda: torch.randn(5), lambda: torch.randn(5), lambda: torch.randn(37), lambda: torch.randn(37, dtype=torch.float16),
     lambda: torch.randn(20, dtype=torch.float64), lambda: torch.randn(3, dtype=torch.complex64).real, lambda: torch.rand(1))
draw("integers", lambda: torch.randint(0, 10, (6,)), lambda: torch.randint(-5, 1 << 40, (3,)), lambda: torch.randperm(9),
     lambda: torch.empty(2, dtype=torch.int64).random_(), lambda: torch.empty(2, dtype=torch.int32).random_(), lambda: torch.rand(1))
draw("others", lambda: torch.empty(6).bernoulli_(0.3), lambda: torch.bernoulli(torch.full((6,), 0.4)),
     lambda: torch.empty(3).exponential_(2), lambda: torch.empty(3).cauchy_(), lambda: torch.empty(3).log_normal_(),
     lambda: torch.empty(3).geometric_(0.3), lambda: torch.rand(1))
weights = torch.tensor([[0.1, 0.2, 0.3, 0.4], [5.0, 1, 1, 1]])
draw("multinomial", lambda: torch.multinomial(weights, 1), lambda: torch.multinomial(weights, 3),
     lambda: torch.multinomial(weights, 5, True), lambda: torch.rand(1))
draw("dropout", lambda: nn.functional.dropout(torch.ones(9), 0.4), lambda: nn.functional.dropout2d(torch.ones(1, 6, 1, 1), 0.4),
     lambda: nn.functional.alpha_dropout(torch.ones(6), 0.4, True), lambda: nn.functional.scaled_dot_product_attention(
         *torch.ones(3, 1, 3, 4), dropout_p=0.5, is_causal=True), lambda: torch.rand(1))
draw("layers", lambda: nn.Linear(3, 2).weight, lambda: nn.Embedding(5, 4).weight, lambda: nn.LSTM(2, 2).bias_hh_l0,
     lambda: nn.init.orthogonal_(torch.empty(2, 3)), lambda: nn.init.trunc_normal_(torch.empty(20), std=0.5, a=-0.6, b=0.4),
     lambda: nn.init.trunc_normal_(torch.empty(20), std=0.5, a=1, b=1.2), lambda: torch.rand(1))
data = TensorDataset(torch.arange(12))
draw("data", lambda: torch.cat([x for x, in DataLoader(data, 5, shuffle=True)]), lambda: list(RandomSampler(data, True, 40)),
     lambda: torch.rand(1))
draw("state", restored, lambda: torch.rand(1))
print(json.dumps({key: [[round(v, 7) for v in row] for row in rows] for key, rows in result.items()}))
"""
EXPECTED = {
    "uniform": [
        [0.1988032, 0.6592117, 0.6568903, 0.2327616, 0.4250614, 0.207086],
        [0.0378914, 0.8101471, 0.4074819],
        [0.0922852, 0.4492188, 0.0932617, 0.828125, 0.0184326, 0.1289062],
        [0.9956087, 2.8910999, 2.5536911, 2.046586, -1.5261264, 2.2517295],
    ],
    "normal": [
        [-0.1467951, 0.7861413, 0.9468216, -1.114344, 1.6907902],
        [-0.8948279, -0.355625, 1.2323858, 0.1381727, -1.6821985],
        [1.5671238, -0.9388391, -1.2369686, -0.0625674, 0.4495094, -0.8857972],
        [0.6401367, 0.684082, 1.6132812, 0.9331055, -0.9770508, -0.815918],
        [1.5646401, 2.0435259, 0.735785, 0.7254076, 0.6859026, -0.0392894],
        [0.6605783, 0.0999824, 0.7199241],
        [0.4040807],
    ],
    "integers": [
        [5, 2, 1, 6, 3, 7],
        [650436095315, 396377856283, 610973500353],
        [7, 5, 1, 6, 3, 0],
        [3306209770279126528, 5602996353307369472],
        [1636129708, 1687674368],
        [0.8797042],
    ],
    "others": [
        [1, 1, 0, 0, 0, 0],
        [1, 1, 0, 1, 0, 1],
        [0.7122208, 0.0325473, 0.0296393],
        [-1.722366, -8.4186516, -2.475812],
        [3.2791445, 2.0818403, 6.8055782],
        [1, 1, 1],
        [0.9575381],
    ],
    "multinomial": [
        [1, 2],
        [3, 2, 1, 0, 1, 2],
        [3, 2, 1, 0, 3, 1],
        [0.9936201],
    ],
    "dropout": [
        [0, 0, 0, 1.6666666, 1.6666666, 0],
        [0, 1.6666666, 1.6666666, 1.6666666, 1.6666666, 1.6666666],
        [-0.910642, 1.4703772, -0.910642, 1.4703772, -0.910642, -0.910642],
        [0, 0, 0.6666667, 0.6666667, 0.6666667, 0.6666667],
        [0.4413675],
    ],
    "layers": [
        [0.0403251, -0.3477921, 0.1838418, 0.1811613, -0.3085804, -0.0865316],
        [1.3989184, 1.4058529, -1.4012508, 1.2973359, 1.6409333, -1.0566841],
        [0.4382317, 0.3879853, 0.0393176, 0.6160226, -0.4992533, -0.4216469],
        [0.1716467, -0.4562797, -0.8731243, -0.6055533, 0.650212, -0.4588348],
        [-0.0763696, -0.2649816, -0.3777884, -0.0598926, -0.1657297, 0.2752317],
        [1.1591427, 1.1231431, 1.1941611, 1.15711, 1.1980504, 1.0914378],
        [0.287305],
    ],
    "data": [
        [2, 0, 3, 9, 4, 10],
        [6, 0, 5, 3, 8, 10],
        [0.207086],
    ],
    "state": [
        [-0.1467951, 0.7861413, 0.9468216, 0.3653162, -1.114344, 0.3775096],
        [0.2063194],
    ],
}


@pytest.fixture(scope="module")
def numbers():
    environment = {**os.environ, "PYTHONPATH": SEARCH}
    done = subprocess.run([sys.executable, "-m", "tensora.compat", "-c", PROGRAM], env=environment, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_numbers(numbers, name):
    assert len(numbers[name]) == len(EXPECTED[name])
    for ours, theirs in zip(numbers[name], EXPECTED[name]):
        assert ours == pytest.approx(theirs, rel=2e-5, abs=2e-5)


EXACT = """
import json, torch
from torch import distributions as d, nn


def bits(tensor):
    return tensor.detach().reshape(-1)[-3:].view(torch.int32).tolist()


torch.manual_seed(7)
result = [bits(torch.empty(50).uniform_(-2.1, 3.3)), bits(nn.Linear(30, 20).weight), bits(torch.randn(3, generator=torch.Generator()))]
torch.manual_seed(2**64 - 1)
result.append(torch.initial_seed())
torch.manual_seed(-3)
result += [torch.initial_seed(), torch.randint(0, 100, (3,)).tolist()]
torch.manual_seed(7)
result.append((nn.init.sparse_(torch.empty(6, 2), 0.5) == 0).nonzero().tolist())
draws = [d.Laplace(0., 1.).sample((2,)), d.Gumbel(0., 1.).sample((2,)), d.Geometric(torch.tensor(.2)).sample((4,)),
         d.MixtureSameFamily(d.Categorical(torch.ones(3) / 3), d.Normal(torch.arange(3.) * 9, 1.)).sample((3,))]
print(json.dumps([*result, [round(float(x), 4) for x in torch.cat(draws)]]))
"""


def test_numbers_to_the_last_bit():
    """Of ranges, which PyTorch computes with fused multiply-adds; of any seed, and of a generator without one."""
    environment = {**os.environ, "PYTHONPATH": SEARCH}
    done = subprocess.run([sys.executable, "-m", "tensora.compat", "-c", EXACT], env=environment, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        [1048625355, 1072727280, -1074402819], [1038419345, -1106329669, 1032731768], [1064971755, 1066669039, -1094523639],
        18446744073709551615, 18446744073709551613, [51, 15, 81], [[0, 0], [0, 1], [1, 1], [2, 1], [4, 0], [5, 0]],
        [0.6684, 2.5063, 0.0567, -0.4105, 4.0, 7.0, 1.0, 6.0, 19.815, 10.6148, -0.4225]]


def test_the_default_stays(tmp_path):
    """Without compat, and with TENSORA_COMPAT_RANDOM=tensora, the numbers are Tensora's."""
    program = "import sys, tensora; tensora.manual_seed(7); print(tensora.rand(3).tolist())"
    environment = {**os.environ, "PYTHONPATH": SEARCH, "TENSORA_COMPAT_RANDOM": "tensora"}
    outputs = [subprocess.run([sys.executable, *way, "-c", program], env=environment, capture_output=True, text=True,
                              check=True, timeout=60).stdout for way in ([], ["-m", "tensora.compat"])]
    assert outputs[0] == outputs[1]
    assert json.loads(outputs[0]) != pytest.approx(EXPECTED["uniform"][0][:3])


def test_an_unknown_choice_is_an_error():
    environment = {**os.environ, "PYTHONPATH": SEARCH, "TENSORA_COMPAT_RANDOM": "numpy"}
    done = subprocess.run([sys.executable, "-m", "tensora.compat", "-c", "pass"], env=environment, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode != 0
    assert "TENSORA_COMPAT_RANDOM: expected pytorch or tensora, got 'numpy'" in done.stderr
