"""Programs that use libraries of optimizers, averages and crafted losses."""
import numpy

from . import filled, named, numbers, perceptron, program, trained


def _library(library, kind, **options):
    def make(parameters):
        import importlib
        return getattr(importlib.import_module(library), kind)(parameters, **options)
    return make


for _library_name, _kind, _options in (
        ("lion_pytorch", "Lion", dict(lr=1e-2)), ("madgrad", "MADGRAD", dict(lr=1e-2)),
        ("adabelief_pytorch", "AdaBelief", dict(lr=1e-2, print_change_log=False)),
        ("pytorch_lamb", "Lamb", dict(lr=1e-2)), ("dadaptation", "DAdaptAdam", dict(lr=1.0)),
        ("prodigyopt", "Prodigy", dict(lr=1.0))):
    named(f"{_library_name}_trained", trained, _library(_library_name, _kind, **_options))


def _several(library, kinds):
    results = {}
    for kind, options in kinds.items():
        for name, value in trained(_library(library, kind, **options)).items():
            results[f"{kind}_{name}"] = value
    return results


named("pytorch_optimizer_first_order", _several, "pytorch_optimizer", {
    "AdaBound": dict(lr=1e-2), "AdaPNM": dict(lr=1e-2), "AdamP": dict(lr=1e-2), "Adan": dict(lr=1e-2),
    "DiffGrad": dict(lr=1e-2), "Tiger": dict(lr=1e-2), "LaProp": dict(lr=1e-2)})
named("pytorch_optimizer_second_order", _several, "pytorch_optimizer", {
    "AdaHessian": dict(lr=1e-2), "SophiaH": dict(lr=1e-2), "Shampoo": dict(lr=1e-2)})
named("torch_optimizer_kinds", _several, "torch_optimizer", {
    "AdaMod": dict(lr=1e-2), "RAdam": dict(lr=1e-2), "Yogi": dict(lr=1e-2), "QHAdam": dict(lr=1e-2), "SGDP": dict(lr=1e-2),
    "NovoGrad": dict(lr=1e-2), "PID": dict(lr=1e-2)})


@program
def schedulefree_trained():
    import torch
    from schedulefree import AdamWScheduleFree
    model, losses = perceptron(), []
    optimizer = AdamWScheduleFree(model.parameters(), lr=1e-2, warmup_steps=2)
    optimizer.train()
    for _ in range(6):
        loss = torch.nn.functional.mse_loss(model(numbers((32, 4))), numbers((32, 1), 3))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    optimizer.eval()
    return {"losses": numpy.array(losses), "averaged": model[0].weight}


def _averaged(average):
    """Trains a perceptron with an average beside it."""
    import torch
    model = perceptron()
    kept, optimizer = average(model), torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        loss = torch.nn.functional.mse_loss(model(numbers((32, 4))), numbers((32, 1), 3))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.update()
    return model, kept


@program
def torch_ema_average():
    from torch_ema import ExponentialMovingAverage
    model, kept = _averaged(lambda model: ExponentialMovingAverage(model.parameters(), decay=0.9))
    with kept.average_parameters():
        return {"averaged": model(numbers((5, 4))), "state": kept.state_dict()["shadow_params"][0]}


@program
def ema_pytorch_average():
    from ema_pytorch import EMA
    model, kept = _averaged(lambda model: EMA(model, beta=0.9, update_every=1, update_after_step=1))
    return {"averaged": kept(numbers((5, 4))), "model": model(numbers((5, 4)))}


@program
def higher_inner_loop():
    import higher
    import torch
    model = perceptron()
    optimizer, x, y = torch.optim.SGD(model.parameters(), lr=0.1), numbers((16, 4)), numbers((16, 1), 3)
    with higher.innerloop_ctx(model, optimizer, copy_initial_weights=False) as (fast, inner):
        for _ in range(3):
            inner.step(torch.nn.functional.mse_loss(fast(x), y))
        outer = torch.nn.functional.mse_loss(fast(x), y)
        outer.backward()
    return {"outer": outer, "grad": model[0].weight.grad}


@program
def opacus_private_training():
    import torch
    from opacus import GradSampleModule
    from opacus.accountants import RDPAccountant
    model = GradSampleModule(perceptron())
    torch.nn.functional.mse_loss(model(numbers((16, 4))), numbers((16, 1), 3)).backward()
    accountant = RDPAccountant()
    accountant.history = [(1.1, 0.01, 1000)]
    return {"samples": model._module[0].weight.grad_sample, "epsilon": accountant.get_epsilon(delta=1e-5)}


@program
def backpack_second_order():
    import torch
    from backpack import backpack, extend
    from backpack.extensions import BatchGrad, DiagGGNExact, KFAC, Variance
    model, lossfunc = extend(perceptron(outputs=3)), extend(torch.nn.CrossEntropyLoss())
    loss = lossfunc(model(numbers((8, 4))), torch.arange(8) % 3)
    with backpack(BatchGrad(), DiagGGNExact(), Variance(), KFAC(mc_samples=1)):
        loss.backward()
    weight = model[0].weight
    return {"grads": weight.grad_batch, "diagonal": weight.diag_ggn_exact, "variance": weight.variance}


@program
def curvlinops_products():
    import torch
    from curvlinops import GGNLinearOperator, HessianLinearOperator
    model = perceptron(outputs=2)
    parameters = [p for p in model.parameters()]
    data = [(numbers((8, 4)), numbers((8, 2), 3))]
    vector = numbers((sum(p.numel() for p in parameters),), 4)
    loss = torch.nn.MSELoss()
    return {"hessian": HessianLinearOperator(model, loss, parameters, data) @ vector,
            "ggn": GGNLinearOperator(model, loss, parameters, data) @ vector}


@program
def entmax_losses():
    from entmax import Entmax15Loss, entmax15, entmax_bisect, sparsemax
    x = numbers((4, 9)).requires_grad_()
    loss = Entmax15Loss()(x, x.argmax(1).roll(1))
    loss.backward()
    return {"sparsemax": sparsemax(x, dim=-1), "entmax15": entmax15(x, dim=-1), "bisect": entmax_bisect(x, alpha=1.3),
            "loss": loss, "grad": x.grad}


@program
def pytorch_crf():
    import torch
    from torchcrf import CRF
    crf, scores, tags = filled(CRF(5, batch_first=True)), numbers((3, 7, 5)), torch.arange(21).reshape(3, 7) % 5
    mask = torch.arange(7)[None] < torch.tensor([[7], [4], [5]])
    decoded = [tag for row in crf.decode(scores, mask) for tag in row]
    return {"likelihood": crf(scores, tags, mask=mask), "decoded": numpy.array(decoded)}


@program
def metric_learning_losses():
    import torch
    from pytorch_metric_learning import distances, losses, miners
    x, labels, results = numbers((16, 8)), torch.arange(16) % 4, {}
    for name in ("TripletMarginLoss", "ContrastiveLoss", "NTXentLoss", "MultiSimilarityLoss", "CircleLoss", "SupConLoss"):
        results[name] = getattr(losses, name)()(x, labels)
    mined = miners.MultiSimilarityMiner(epsilon=0.1)(x, labels)
    results["mined"] = losses.TripletMarginLoss(distance=distances.CosineSimilarity())(x, labels, mined)
    results["arcface"] = filled(losses.ArcFaceLoss(num_classes=4, embedding_size=8))(x, labels)
    return results


@program
def geoopt_manifolds():
    import geoopt
    ball, x, y = geoopt.PoincareBall(), numbers((4, 3)) * 0.2, numbers((4, 3), 3) * 0.2
    point = geoopt.ManifoldParameter(numbers((3, 3)), manifold=geoopt.Stiefel())
    point.data = point.manifold.projx(point.data)
    optimizer = geoopt.optim.RiemannianAdam([point], lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        (point * numbers((3, 3), 5)).sum().backward()
        optimizer.step()
    return {"dist": ball.dist(x, y), "exp": ball.expmap(x, y), "log": ball.logmap(x, y), "point": point}


@program
def torch_pruning_structured():
    import torch
    import torch_pruning
    model = filled(torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
                                       torch.nn.Conv2d(16, 8, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                                       torch.nn.Linear(8, 4)))
    x = numbers((1, 3, 12, 12))
    pruner = torch_pruning.pruner.MagnitudePruner(model, x, importance=torch_pruning.importance.MagnitudeImportance(p=2),
                                                  pruning_ratio=0.5, ignored_layers=[model[-1]])
    pruner.step()
    return {"out": model(x), "weight": model[0].weight}
