"""Programs that use libraries of training loops, reinforcement learning and diffusion."""
import numpy

from . import filled, numbers, perceptron, program


@program
def accelerate_loop():
    import torch
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    model = filled(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)))
    data = torch.utils.data.TensorDataset(numbers((32, 4)), numbers((32, 1), 3))
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2),
                                                   torch.utils.data.DataLoader(data, batch_size=8))
    losses = []
    for _ in range(3):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).mean().item())
    return {"losses": numpy.array(losses)}


@program
def lightning_fit():
    import lightning
    import torch

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = filled(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)))
            self.losses = []

        def training_step(self, batch, index):
            loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
            self.losses.append(loss.item())
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(numbers((32, 4)), numbers((32, 1), 3))
    trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False)
    net = Net()
    trainer.fit(net, torch.utils.data.DataLoader(data, batch_size=8))
    return {"losses": numpy.array(net.losses)}


def _rows(count=32, batch=8):
    import torch
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(numbers((count, 4)), numbers((count, 1), 3)), batch_size=batch)


@program
def lightning_validation_and_checkpoints():
    import tempfile
    import lightning
    import torch

    class Net(lightning.LightningModule):
        def __init__(self, width=8):
            super().__init__()
            self.save_hyperparameters()
            self.net = filled(torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)))

        def training_step(self, batch, index):
            loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
            self.log("train", loss, on_epoch=True)
            return loss

        def validation_step(self, batch, index):
            self.log("valid", torch.nn.functional.mse_loss(self.net(batch[0]), batch[1]))

        def predict_step(self, batch, index):
            return self.net(batch[0])

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}
    with tempfile.TemporaryDirectory() as folder:
        keep = lightning.pytorch.callbacks.ModelCheckpoint(folder, monitor="valid", save_top_k=1)
        trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", logger=False, callbacks=[keep], gradient_clip_val=0.5,
                                    accumulate_grad_batches=2, enable_progress_bar=False, enable_model_summary=False)
        net = Net()
        trainer.fit(net, _rows(), _rows(16))
        metrics = dict(trainer.callback_metrics)
        again = Net.load_from_checkpoint(keep.best_model_path)
        predicted = trainer.predict(again, _rows(16))
        return {"valid": metrics["valid"], "train": metrics["train_epoch"],
                "weight": net.net[0].weight, "predicted": torch.cat(predicted), "width": again.hparams.width}


@program
def lightning_fabric_loop():
    import lightning
    import torch
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    model, losses = perceptron(), []
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in fabric.setup_dataloaders(_rows()):
        loss = torch.nn.functional.mse_loss(model(x), y)
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return {"losses": numpy.array(losses)}


@program
def ignite_engine():
    import torch
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import MeanAbsoluteError
    model, losses = perceptron(), []
    trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.nn.MSELoss())
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: losses.append(engine.state.output))
    trainer.run(_rows(), max_epochs=2)
    evaluator = create_supervised_evaluator(model, metrics={"mae": MeanAbsoluteError()})
    evaluator.run(_rows())
    return {"losses": numpy.array(losses), "mae": evaluator.state.metrics["mae"]}


@program
def skorch_regressor():
    import torch
    from skorch import NeuralNetRegressor
    torch.manual_seed(0)
    net = NeuralNetRegressor(perceptron, max_epochs=3, lr=0.1, train_split=None, verbose=0)
    net.fit(numbers((32, 4)).numpy(), numbers((32, 1), 3).numpy())
    return {"losses": numpy.array(net.history[:, "train_loss"]), "predicted": net.predict(numbers((5, 4), 4).numpy())}


@program
def fastai_learner():
    import torch
    from fastai.basics import DataLoaders, Learner, MSELossFlat
    model = perceptron()
    with torch.random.fork_rng():
        learner = Learner(DataLoaders(_rows(), _rows(16)), model, loss_func=MSELossFlat(), lr=0.01)
        with learner.no_bar(), learner.no_logging():
            learner.fit(2)
    return {"losses": numpy.array([float(x) for row in learner.recorder.values for x in row[:2]]), "weight": model[0].weight}


@program
def tabnet_classifier():
    import torch
    from pytorch_tabnet.tab_network import TabNet
    network = filled(TabNet(8, 3, n_d=8, n_a=8, n_steps=2, virtual_batch_size=8,
                            group_attention_matrix=torch.eye(8)))
    out, sparsity = network(numbers((6, 8)))
    explained, masks = network.forward_masks(numbers((6, 8)))
    return {"out": out, "sparsity": sparsity, "explained": explained, "mask": masks[0]}


def _agent(kind, steps, **options):
    import gymnasium
    import stable_baselines3
    import torch
    torch.set_num_threads(1)
    model = getattr(stable_baselines3, kind)("MlpPolicy", gymnasium.make("CartPole-v1"), seed=0, device="cpu", **options)
    model.learn(steps)
    action, _ = model.predict(numpy.array([0.1, 0.2, 0.01, -0.3], dtype="float32"), deterministic=True)
    parameters = model.policy.state_dict()
    return {"action": action, **{name: parameters[name] for name in list(parameters)[:2]}}


@program
def stable_baselines3_ppo():
    return _agent("PPO", 64, n_steps=32, batch_size=16, n_epochs=2)


@program
def stable_baselines3_a2c():
    return _agent("A2C", 40)


@program
def stable_baselines3_dqn():
    return _agent("DQN", 80, learning_starts=20, batch_size=8, buffer_size=100)


@program
def denoising_diffusion():
    import torch
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet
    model = filled(Unet(dim=8, dim_mults=(1, 2), flash_attn=False))
    diffusion = GaussianDiffusion(model, image_size=16, timesteps=20, sampling_timesteps=3)
    torch.manual_seed(1)
    loss = diffusion(numbers((2, 3, 16, 16)).sigmoid())
    loss.backward()
    return {"loss": loss, "sampled": diffusion.sample(batch_size=1)}


@program
def byol_training_step():
    import torch
    from byol_pytorch import BYOL
    network = filled(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                                         torch.nn.Flatten(), torch.nn.Linear(8, 8)))
    learner = filled(BYOL(network, image_size=16, hidden_layer=-1, projection_size=8, projection_hidden_size=16,
                          augment_fn=torch.nn.Identity(), augment_fn2=torch.nn.Identity())).train()
    loss = learner(numbers((4, 3, 16, 16)))
    loss.backward()
    learner.update_moving_average()
    return {"loss": loss, "grad": network[0].weight.grad}
