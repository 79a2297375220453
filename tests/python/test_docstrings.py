"""Classes and functions of nn, nn.functional, nn.init, nn.utils and optim say what they do and name their arguments."""
import inspect
import re

import pytest

import tensora
from tensora import nn, optim
from tensora.nn import functional as F

# What these mean stands once, in the documentation of the module: where and as what parameters are made, older names of
# `reduction`, and arguments that choose between implementations in PyTorch.
SHARED = {"device", "dtype", "size_average", "reduce", "foreach", "fused", "capturable", "differentiable", "verbose"}


def public(module, wanted):
    for name in sorted(set(dir(module))):
        value = getattr(module, name)
        place = getattr(value, "__module__", "")
        if not name.startswith("_") and wanted(value) and place.startswith(("tensora.nn", "tensora.optim")):
            yield f"{module.__name__}.{name}", value


def everything():
    found = {}
    for module in (nn, optim, optim.lr_scheduler, optim.swa_utils, nn.utils.rnn):
        found.update(public(module, inspect.isclass))
    for module in (F, nn.init, nn.utils, nn.utils.rnn, optim.swa_utils):
        found.update(public(module, inspect.isfunction))
    # Ops that PyTorch has in nn.functional.
    found.update((f"F.{name}", getattr(F, name)) for name in
                 "linear bilinear conv1d conv2d conv3d conv_transpose2d glu softplus softshrink softsign tanhshrink prelu "
                 "group_norm instance_norm rms_norm local_response_norm pixel_shuffle pixel_unshuffle channel_shuffle "
                 "unfold fold cosine_similarity pairwise_distance pdist avg_pool1d avg_pool3d lp_pool1d lp_pool3d "
                 "max_unpool2d ctc_loss embedding_bag affine_grid".split())
    return found


EVERYTHING = everything()


def arguments(value):
    """Names of the arguments that the documentation has to contain."""
    function = value
    if inspect.isclass(value):
        function = value.__init__ if value.__init__ is not object.__init__ else value.__new__
        if issubclass(value, tensora.Tensor) or issubclass(value, tuple):
            function = value.__new__
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind not in kinds and name not in ("self", "cls") and not name.startswith("_")]


def words(value):
    return set(re.findall(r"\w+", value.__doc__))


def test_there_are_many():
    assert len(EVERYTHING) > 280, len(EVERYTHING)


@pytest.mark.parametrize("name", EVERYTHING)
def test_documentation_names_the_arguments(name):
    value = EVERYTHING[name]
    own = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
    assert own and len(own.strip()) > 5, "no documentation of its own"
    missing = [argument for argument in arguments(value) if argument not in SHARED and argument not in words(value)]
    assert not missing, f"{missing} in {own!r}"


def sentences(text):
    return {" ".join(part.lower().split()) for part in re.split(r"(?<=[.:;])\s", text or "") if len(part.split()) >= 6}


def test_documentation_is_not_pytorchs():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    places = {"tensora.nn": torch.nn, "tensora.nn.functional": torch.nn.functional, "tensora.optim": torch.optim,
              "tensora.optim.lr_scheduler": torch.optim.lr_scheduler, "tensora.nn.init": torch.nn.init,
              "tensora.optim.swa_utils": torch.optim.swa_utils, "tensora.nn.utils": torch.nn.utils,
              "tensora.nn.utils.rnn": torch.nn.utils.rnn, "F": torch.nn.functional}
    compared = 0
    for name, value in EVERYTHING.items():
        module, _, last = name.rpartition(".")
        theirs = getattr(places[module], last, None)
        if theirs is not None:
            compared += 1
            same = sentences(value.__doc__) & sentences(theirs.__doc__)
            assert not same, f"{name}: {same}"
    assert compared > 200


def test_signatures_follow_pytorchs():
    """The arguments' names and order, and the forward's, so that calls by position or keyword mean the same."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    different = []
    for name, value in EVERYTHING.items():
        if not name.startswith("tensora.nn.") or not inspect.isclass(value) or not issubclass(value, nn.Module):
            continue
        theirs = getattr(torch.nn, name.rpartition(".")[2], None)
        if theirs is None:
            continue
        for method in ("__init__", "forward"):
            ours, wanted = (list(inspect.signature(getattr(c, method)).parameters.values()) for c in (value, theirs))
            if any(p.kind == p.VAR_POSITIONAL for p in wanted) or method == "forward" and value.forward is nn.Module.forward:
                continue
            if [p.name for p in ours][:len(wanted)] != [p.name for p in wanted]:
                different.append(f"{name}.{method}: {[p.name for p in ours]} for {[p.name for p in wanted]}")
    assert not different, "\n".join(different)


def test_losses_take_keywords_and_positions():
    x, y = tensora.tensor([[1., 2.]]), tensora.tensor([[0., 4.]])
    assert nn.MSELoss(None, None, "sum")(input=x, target=y).item() == 5
    assert nn.CrossEntropyLoss(None, None, 1)(x, tensora.tensor([1])).isnan()  # ignores class 1
    assert nn.L1Loss(size_average=False)(target=y, input=x).item() == 3
    assert nn.MaxPool1d(2)(input=x).item() == 2
    pooled, where = nn.MaxPool1d(2, return_indices=True)(x)
    assert nn.MaxUnpool1d(2)(pooled, indices=where).tolist() == [[0., 2.]]
    assert nn.ReflectionPad1d(1)(input=x).tolist() == [[2., 1., 2., 1.]]
    assert nn.ReLU()(input=-x).tolist() == [[0., 0.]]
    assert nn.Hardtanh(min_value=-1, max_value=0.5)(x).tolist() == [[0.5, 0.5]]
    with pytest.raises(TypeError, match="reductions"):
        nn.MSELoss(reductions="sum")


def test_averaged_models_use_their_options():
    model = nn.BatchNorm1d(2)
    averages = optim.swa_utils.AveragedModel(model, use_buffers=True)
    averages.update_parameters(model)
    model.running_mean.fill_(4), model.weight.data.fill_(3), model.num_batches_tracked.fill_(7)
    averages.update_parameters(model)
    assert averages.module.running_mean.tolist() == [2, 2] and averages.module.weight.tolist() == [2, 2]
    assert averages.module.num_batches_tracked.item() == 7
    several = optim.swa_utils.AveragedModel(model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.75))
    several.update_parameters(model)
    model.weight.data.fill_(7)
    several.update_parameters(model)
    assert several.module.weight.tolist() == [4, 4]
    with pytest.raises(ValueError, match="only one of avg_fn and multi_avg_fn"):
        optim.swa_utils.AveragedModel(model, avg_fn=max, multi_avg_fn=max)


def test_total_norm_of_one_tensor():
    assert nn.utils.get_total_norm(tensora.tensor([[3., 0.], [0., 4.]])).item() == 5


def test_sync_batch_norm_has_no_bias_where_batch_norm_has_none():
    plain = nn.BatchNorm1d(2, bias=False)
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(plain)
    assert isinstance(converted, nn.SyncBatchNorm) and converted.bias is None and converted.weight is plain.weight
    assert nn.SyncBatchNorm(2, bias=False)(tensora.ones(3, 2)).tolist() == [[0, 0]] * 3
