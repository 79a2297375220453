"""Programs that use libraries of vision models."""
from . import filled, named, numbers, program

# ---- timm and torchvision --------------------------------------------------------------------------------

def _timm(name, size=64, **options):
    def run():
        import timm
        model = filled(timm.create_model(name, pretrained=False, num_classes=10, **options))
        return {"logits": model(numbers((2, 3, size, size)))}
    run.__name__ = f"timm_{name}"
    return program(run)


for _name in ("resnet18", "resnet50", "efficientnet_b0", "mobilenetv3_small_100", "convnext_atto", "regnetx_002",
              "densenet121", "ghostnet_100"):
    _timm(_name)
_timm("vit_tiny_patch16_224", img_size=64)
_timm("deit_tiny_patch16_224", img_size=64)
_timm("swin_tiny_patch4_window7_224", 56, img_size=56)
_timm("mixer_s32_224", 224)


@program
def timm_features_by_fx():
    import timm
    model = filled(timm.create_model("resnet18", pretrained=False, features_only=True,
                                     feature_cls="fx", out_indices=(0, 1)))
    return {f"map{i}": x for i, x in enumerate(model(numbers((1, 3, 64, 64))))}


def _torchvision(name, size=64, **options):
    def run():
        import torchvision
        model = filled(getattr(torchvision.models, name)(weights=None, num_classes=10, **options))
        return {"logits": model(numbers((2, 3, size, size)))}
    run.__name__ = f"torchvision_{name}"
    return program(run)


for _name in ("resnet18", "vgg11", "mobilenet_v2", "squeezenet1_0", "shufflenet_v2_x0_5", "efficientnet_b0", "densenet121"):
    _torchvision(_name)


@program
def torchvision_feature_extraction():
    import torchvision
    from torchvision.models.feature_extraction import create_feature_extractor
    model = filled(torchvision.models.resnet18(weights=None))
    extractor = create_feature_extractor(model, {"layer1": "a", "layer4": "b"})
    return dict(extractor(numbers((1, 3, 64, 64))))


@program
def torchvision_transforms():
    from torchvision import transforms
    pipeline = transforms.Compose([transforms.Resize(24, antialias=True), transforms.CenterCrop(16),
                                   transforms.Normalize([0.5] * 3, [0.2] * 3)])
    return {"image": pipeline(numbers((3, 32, 40)).abs())}


@program
def kornia_filters():
    import kornia
    x = numbers((1, 3, 24, 24)).sigmoid()
    return {"blur": kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)), "sobel": kornia.filters.sobel(x),
            "gray": kornia.color.rgb_to_grayscale(x), "hsv": kornia.color.rgb_to_hsv(x)}




@program
def kornia_geometry_and_augmentation():
    import kornia
    import torch
    torch.manual_seed(0)
    x, angle = numbers((2, 3, 24, 24)).sigmoid(), torch.tensor([30.0, -10.0])
    points = numbers((2, 6, 2))
    flip = kornia.augmentation.RandomHorizontalFlip(p=1.0)
    return {"rotate": kornia.geometry.rotate(x, angle), "resize": kornia.geometry.resize(x, (12, 18)),
            "homography": kornia.geometry.find_homography_dlt(points, points * 2 + 1), "canny": kornia.filters.canny(x)[0],
            "flip": flip(x), "ssim": kornia.metrics.ssim(x, x.flip(-1), 5), "quaternion":
            kornia.geometry.conversions.axis_angle_to_rotation_matrix(numbers((3, 3)))}


def _segmentation(kind, **options):
    import segmentation_models_pytorch
    model = getattr(segmentation_models_pytorch, kind)(encoder_name="resnet18", encoder_weights=None, classes=3, **options)
    return {"masks": filled(model)(numbers((1, 3, 64, 64)))}


for _name in ("Unet", "FPN", "DeepLabV3Plus", "Linknet", "PSPNet"):
    named(f"segmentation_models_{_name.lower()}", _segmentation, _name)


@program
def segmentation_models_losses():
    import segmentation_models_pytorch.losses as losses
    import segmentation_models_pytorch.metrics as metrics
    x, y = numbers((2, 1, 8, 8)), (numbers((2, 1, 8, 8), 3) > 0).long()
    counts = metrics.get_stats(x.sigmoid(), y, mode="binary", threshold=0.5)
    return {"dice": losses.DiceLoss("binary")(x, y), "jaccard": losses.JaccardLoss("binary")(x, y),
            "focal": losses.FocalLoss("binary")(x, y), "lovasz": losses.LovaszLoss("binary")(x, y),
            "tversky": losses.TverskyLoss("binary")(x, y), "iou": metrics.iou_score(*counts, reduction="micro")}


@program
def efficientnet_pytorch():
    from efficientnet_pytorch import EfficientNet
    model = filled(EfficientNet.from_name("efficientnet-b0", num_classes=10))
    return {"logits": model(numbers((1, 3, 64, 64))), "features": model.extract_endpoints(numbers((1, 3, 64, 64)))["reduction_2"]}


@program
def nfnets_convolutions():
    import torch
    from nfnets import AGC, WSConv2d
    model = filled(torch.nn.Sequential(WSConv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                                       torch.nn.Linear(8, 4)))
    optimizer = AGC(model.parameters(), torch.optim.SGD(model.parameters(), lr=0.1))
    loss = model(numbers((2, 3, 12, 12))).square().sum()
    loss.backward()
    optimizer.step()
    return {"loss": loss, "weight": model[0].weight}


@program
def monai_networks():
    from monai.networks.nets import UNETR, BasicUNet, UNet
    x = numbers((1, 1, 16, 16, 16))
    return {"unet": filled(UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,)))(x),
            "basic": filled(BasicUNet(spatial_dims=2, in_channels=1, out_channels=2, features=(4, 4, 8, 8, 8, 4)))(
                numbers((1, 1, 32, 32))),
            "unetr": filled(UNETR(in_channels=1, out_channels=2, img_size=(16, 16, 16), feature_size=4, hidden_size=24,
                                  mlp_dim=32, num_heads=2))(x)}


@program
def monai_losses_metrics_and_inference():
    import torch
    from monai.inferers import sliding_window_inference
    from monai.losses import DiceCELoss, FocalLoss, TverskyLoss
    from monai.metrics import DiceMetric, compute_hausdorff_distance
    x, y = numbers((1, 2, 12, 12)), torch.nn.functional.one_hot((numbers((1, 12, 12), 3) > 0).long(), 2).permute(0, 3, 1, 2)
    network = filled(torch.nn.Conv2d(2, 3, 3, padding=1))
    return {"dice": DiceCELoss(softmax=True)(x, y.float()), "focal": FocalLoss()(x, y.float()),
            "tversky": TverskyLoss(sigmoid=True)(x, y.float()), "metric": DiceMetric()((x > 0).long(), y),
            "windows": sliding_window_inference(x, (8, 8), 2, network, overlap=0.5, mode="gaussian"),
            "hausdorff": compute_hausdorff_distance((x > 0).long(), y)}


@program
def monai_transforms():
    from monai.transforms import Compose, Flip, NormalizeIntensity, Rotate90, ScaleIntensity, Spacing
    chain = Compose([ScaleIntensity(), Flip(0), Rotate90(), NormalizeIntensity()])
    return {"image": chain(numbers((1, 10, 12))), "spaced": Spacing(pixdim=(2.0, 2.0))(numbers((1, 10, 12)))}


@program
def diffusers_unet_and_schedulers():
    import torch
    from diffusers import DDIMScheduler, DDPMScheduler, EulerDiscreteScheduler, UNet2DModel
    model = filled(UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, norm_num_groups=4,
                               block_out_channels=(8, 16), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                               up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=4))
    results = {}
    for kind in (DDPMScheduler, DDIMScheduler, EulerDiscreteScheduler):
        scheduler, sample = kind(num_train_timesteps=100), numbers((1, 3, 16, 16))
        scheduler.set_timesteps(3)
        generator = torch.Generator().manual_seed(0)
        for t in scheduler.timesteps:
            with torch.no_grad():
                predicted = model(scheduler.scale_model_input(sample, t), t).sample
            sample = scheduler.step(predicted, t, sample, generator=generator).prev_sample
        results[kind.__name__] = sample
    return results


@program
def diffusers_autoencoder_and_conditioned_unet():
    from diffusers import AutoencoderKL, UNet2DConditionModel
    coder = filled(AutoencoderKL(block_out_channels=(8, 16), down_block_types=("DownEncoderBlock2D",) * 2,
                                 up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, norm_num_groups=4))
    unet = filled(UNet2DConditionModel(sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
                                       cross_attention_dim=16, attention_head_dim=4,
                                       down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                       up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")))
    latent = coder.encode(numbers((1, 3, 16, 16))).latent_dist.mean
    return {"latent": latent, "image": coder.decode(latent).sample,
            "noise": unet(numbers((1, 4, 8, 8)), 5, encoder_hidden_states=numbers((1, 6, 16))).sample}


@program
def diffusers_transformer():
    from diffusers import DiTTransformer2DModel
    import torch
    model = filled(DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2,
                                         sample_size=8, patch_size=2, norm_num_groups=4, num_embeds_ada_norm=10))
    return {"out": model(numbers((2, 4, 8, 8)), timestep=torch.tensor([1, 5]), class_labels=torch.tensor([1, 3])).sample}


@program
def facenet_embedding():
    from facenet_pytorch import InceptionResnetV1
    return {"embedding": filled(InceptionResnetV1(pretrained=None, classify=False))(numbers((1, 3, 96, 96)))}
