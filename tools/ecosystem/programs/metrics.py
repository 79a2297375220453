"""Programs that use libraries of metrics, image measures and explanations."""
from . import filled, numbers, perceptron, program, tokens


@program
def torchmetrics_classification():
    import torch
    import torchmetrics
    scores, target = numbers((50, 5)).softmax(-1), tokens((50,), 10) - 5
    metrics = torchmetrics.MetricCollection({
        "accuracy": torchmetrics.Accuracy(task="multiclass", num_classes=5),
        "f1": torchmetrics.F1Score(task="multiclass", num_classes=5, average="macro"),
        "auroc": torchmetrics.AUROC(task="multiclass", num_classes=5),
        "confusion": torchmetrics.ConfusionMatrix(task="multiclass", num_classes=5)})
    metrics.update(scores, target)
    return dict(metrics.compute()) | {"total": torch.tensor(1.0)}


@program
def torchmetrics_regression():
    import torchmetrics
    a, b = numbers((40,)), numbers((40,), 3)
    kinds = (torchmetrics.MeanSquaredError, torchmetrics.R2Score, torchmetrics.PearsonCorrCoef, torchmetrics.SpearmanCorrCoef)
    return {kind.__name__: kind()(a, b) for kind in kinds}


@program
def torchmetrics_image_and_text():
    import torchmetrics
    a, b = numbers((2, 3, 32, 32)).sigmoid(), numbers((2, 3, 32, 32), 3).sigmoid()
    return {"psnr": torchmetrics.image.PeakSignalNoiseRatio(data_range=1.0)(a, b),
            "ssim": torchmetrics.image.StructuralSimilarityIndexMeasure(data_range=1.0)(a, b),
            "perplexity": torchmetrics.text.Perplexity()(numbers((2, 5, 7)), tokens((2, 5), 7) % 7)}


@program
def torchmetrics_audio_retrieval_and_clustering():
    import torch
    import torchmetrics
    import torchmetrics.clustering
    a, b = numbers((2, 400)), numbers((2, 400), 3)
    scores, relevant, query = numbers((20,)), numbers((20,), 4) > 0, torch.arange(20) // 5
    return {"sdr": torchmetrics.audio.ScaleInvariantSignalDistortionRatio()(a, a + 0.1 * b),
            "snr": torchmetrics.audio.SignalNoiseRatio()(a, a + 0.1 * b),
            "map": torchmetrics.retrieval.RetrievalMAP()(scores, relevant, query),
            "ndcg": torchmetrics.retrieval.RetrievalNormalizedDCG()(scores, relevant, query),
            "rand": torchmetrics.clustering.RandScore()(query, query // 2),
            "bleu": torchmetrics.text.BLEUScore()(["a cat sat on the mat"], [["the cat sat on a mat"]])}


@program
def image_quality_measures():
    from pytorch_msssim import ms_ssim, ssim
    a, b = numbers((1, 3, 192, 192)).sigmoid().requires_grad_(), numbers((1, 3, 192, 192), 3).sigmoid()
    loss = ssim(a, b, data_range=1.0)
    loss.backward()
    return {"ssim": loss, "grad": a.grad[:, :, :24, :24], "ms_ssim": ms_ssim(a, b, data_range=1.0)}


@program
def lpips_distance():
    import lpips
    model = filled(lpips.LPIPS(net="squeeze", pretrained=False, pnet_rand=True, verbose=False))
    return {"distance": model(numbers((1, 3, 64, 64)), numbers((1, 3, 64, 64), 3))}


@program
def captum_attributions():
    from captum import attr
    model, x = perceptron(outputs=3).eval(), numbers((5, 4)).requires_grad_()
    return {"integrated": attr.IntegratedGradients(model).attribute(x, target=1, n_steps=20),
            "saliency": attr.Saliency(model).attribute(x, target=1),
            "ablation": attr.FeatureAblation(model).attribute(x, target=0),
            "layer": attr.LayerConductance(model, model[0]).attribute(x, target=1, n_steps=20),
            "deep_lift": attr.DeepLift(model).attribute(x, baselines=x.detach() * 0, target=2),
            "occlusion": attr.Occlusion(model).attribute(x, sliding_window_shapes=(2,), target=1)}


def _convolutional():
    import torch
    return filled(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, stride=2),
                                      torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                                      torch.nn.Linear(8, 10)))


@program
def grad_cam_maps():
    from pytorch_grad_cam import GradCAM, GradCAMPlusPlus
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
    model, results = _convolutional(), {}
    for kind in (GradCAM, GradCAMPlusPlus):
        with kind(model=model, target_layers=[model[2]]) as cam:
            results[kind.__name__] = cam(input_tensor=numbers((2, 3, 24, 24)), targets=[ClassifierOutputTarget(1)] * 2)
    return results


@program
def torchattacks_adversaries():
    import torch
    import torchattacks
    model, x, y = _convolutional(), numbers((4, 3, 16, 16)).sigmoid(), torch.arange(4)
    results = {}
    for name, attack in {"fgsm": torchattacks.FGSM(model, eps=0.03), "mifgsm": torchattacks.MIFGSM(model, steps=3),
                         "bim": torchattacks.BIM(model, steps=3)}.items():
        results[name] = attack(x, y)
    return results


@program
def ttach_augmented():
    import ttach
    return {"logits": ttach.ClassificationTTAWrapper(_convolutional(), ttach.aliases.d4_transform())(numbers((2, 3, 16, 16)))}


@program
def counted_operations():
    """Summaries of torchinfo, torchsummary, thop and fvcore."""
    import torchinfo
    from fvcore.nn import parameter_count
    from thop import profile
    x = numbers((1, 3, 16, 16))
    summary = torchinfo.summary(_convolutional(), input_data=x, verbose=0)
    operations, parameters = profile(_convolutional(), inputs=(x,), verbose=False)
    return {"summary": summary.total_mult_adds, "parameters": summary.trainable_params, "operations": operations,
            "thop": parameters, "fvcore": parameter_count(_convolutional())[""]}

