"""More programs of public repositories: tutorials, adversarial networks, image models, and libraries' own tests."""
import pathlib

import numpy

from . import filled, named, numbers, program
from .repositories import needs, script
from .scripts import checkout, cora, mnist

# ---- PyTorch-GAN: scripts that train on MNIST -------------------------------------------------------------------

for _kind in ("gan", "cgan", "acgan", "aae", "dcgan", "ebgan", "infogan", "lsgan", "sgan",
              "relativistic_gan", "wgan", "wgan_gp", "wgan_div"):
    script(f"pytorch_gan_{_kind}", "PyTorch-GAN", f"implementations/{_kind}", f"{_kind}.py", "--n_epochs", 1, "--batch_size", 8,
           prepare=lambda root: mnist(root / "data" / "mnist", 24))

# ---- pytorch-tutorial -------------------------------------------------------------------------------------------

for _folder, _lines in (("01-basics/linear_regression", 0), ("01-basics/logistic_regression", 3),
                        ("01-basics/feedforward_neural_network", 2), ("02-intermediate/bidirectional_recurrent_neural_network", 1)):
    script(f"pytorch_tutorial_{_folder.rpartition('/')[2]}", "pytorch-tutorial", f"tutorials/{_folder}", "main.py", lines=_lines,
           prepare=lambda root: (mnist("../../data", 10100), __import__("matplotlib").use("agg")))


# ---- graphs -----------------------------------------------------------------------------------------------------

def _graph(root):
    cora(root / "data" / "cora", 2000)


script("pygcn_trained", "pygcn", "pygcn", "train.py", "--epochs", 4, "--no-cuda", drop=r"time: \S+|elapsed: \S+", prepare=_graph)
script("pygat_trained", "pyGAT", ".", "train.py", "--epochs", 2, "--no-cuda", "--hidden", 4, "--nb_heads", 2,
       drop=r"time: \S+|elapsed: \S+", prepare=_graph)


# ---- image models -------------------------------------------------------------------------------------------------

def _cifar(names):
    import contextlib
    import io
    results = {}
    with checkout("pytorch-cifar"), contextlib.redirect_stdout(io.StringIO()):
        import models
        for name in names:
            results[name] = filled(getattr(models, name)())(numbers((1, 3, 32, 32)))
    return results


for _group, _names in {"residual": ("ResNet18", "PreActResNet18", "SENet18"), "mobile": ("MobileNet", "MobileNetV2", "EfficientNetB0"),
                       "shuffled": ("RegNetX_200MF", "DPN26"), "dense": ("densenet_cifar", "SimpleDLA", "PNASNetA"),
                       "early": ("LeNet", "GoogLeNet", "ResNeXt29_2x64d")}.items():
    named(f"pytorch_cifar_{_group}", _cifar, _names).repository = "pytorch-cifar"


@needs("Pytorch-UNet")
@program
def pytorch_unet_trained():
    import torch
    with checkout("Pytorch-UNet"):
        from unet import UNet
        from utils.dice_score import dice_loss
        model, losses = filled(UNet(n_channels=3, n_classes=2)).train(), []
        optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-5, momentum=0.999, foreach=True)
        x, y = numbers((1, 3, 32, 32)), (numbers((1, 32, 32), 3) > 0).long()
        for _ in range(2):
            out = model(x)
            loss = torch.nn.functional.cross_entropy(out, y) + dice_loss(
                out.softmax(1), torch.nn.functional.one_hot(y, 2).permute(0, 3, 1, 2).float(), multiclass=True)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return {"losses": numpy.array(losses)}


# ---- libraries' own tests: as many must pass as with PyTorch ------------------------------------------------------

def _tested(repository, *arguments, environment=None):
    import contextlib
    import io
    import os
    import pytest
    os.environ.update(environment or {})

    class Count:
        passed = 0

        def pytest_runtest_logreport(self, report):
            self.passed += report.when == "call" and report.passed
    count = Count()
    with checkout(repository), contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["-q", "-p", "no:cacheprovider", *arguments], plugins=[count])
    if not count.passed:
        raise RuntimeError(f"no test of {repository} passed")
    return {"passed": count.passed}


for _name, _repository, _arguments, _environment in (
        ("einops_own_tests", "einops", ["einops/tests/test_layers.py", "einops/tests/test_packing.py", "einops/tests/test_parsing.py", "-k", "not onnx"], {"EINOPS_TEST_BACKENDS": "numpy,torch"}),
        ("torchdiffeq_own_tests", "torchdiffeq", ["tests/norm_tests.py"], None),
        ("micrograd_own_tests", "micrograd", ["test"], None)):
    named(_name, _tested, _repository, *_arguments, environment=_environment).repository = _repository


@needs("torchdiffeq")
@program
def torchdiffeq_demo():
    from .scripts import printed
    with checkout("torchdiffeq", "examples") as root:
        import sys
        sys.path.insert(0, str(root))
        pathlib.Path("png").mkdir(exist_ok=True)
        return {"printed": printed("ode_demo.py", ["--niters", 4, "--test_freq", 2, "--data_size", 100])}
