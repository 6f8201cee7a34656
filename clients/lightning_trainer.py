"""lightning and pytorch-lightning: a module trained by a Trainer, with callbacks, a checkpoint, profiles and predictions; a Fabric loop."""

import os
import tempfile

import lightning
import pytorch_lightning
import torch
from lightning.fabric import Fabric
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint, StochasticWeightAveraging
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.profilers import PyTorchProfiler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PACKAGES = ["lightning", "pytorch-lightning", "torchmetrics"]


def members(package):
    """A module and its data, of either package."""

    class Classifier(package.LightningModule):
        def __init__(self, hidden=16, lr=0.05):
            super().__init__()
            self.save_hyperparameters()
            self.net = nn.Sequential(nn.Linear(8, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, 3))
            self.example_input_array = torch.zeros(2, 8)
            self.seen = []

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, index):
            loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
            self.log("train_loss", loss, on_step=False, on_epoch=True)
            self.seen.append(loss.item())
            return loss

        def validation_step(self, batch, index):
            logits = self(batch[0])
            right = (logits.argmax(1) == batch[1]).float().mean()
            self.log_dict({"val_loss": nn.functional.cross_entropy(logits, batch[1]), "val_acc": right})

        def test_step(self, batch, index):
            self.log("test_loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

        def predict_step(self, batch, index):
            return self(batch[0]).softmax(1)

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), self.hparams.lr)
            return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)]

    class Data(package.LightningDataModule):
        def setup(self, stage):
            generator = torch.Generator().manual_seed(1)
            x = torch.randn(120, 8, generator=generator)
            y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
            self.train, self.rest = TensorDataset(x[:96], y[:96]), TensorDataset(x[96:], y[96:])

        def train_dataloader(self):
            return DataLoader(self.train, batch_size=16, shuffle=True)

        def val_dataloader(self):
            return DataLoader(self.rest, batch_size=12)

        test_dataloader = predict_dataloader = val_dataloader

    return Classifier, Data


QUIET = {"accelerator": "cpu", "devices": 1, "enable_progress_bar": False, "enable_model_summary": False}


def trained():
    Classifier, Data = members(lightning)
    lightning.seed_everything(7, verbose=False)
    with tempfile.TemporaryDirectory() as folder:
        best = ModelCheckpoint(folder, monitor="val_loss", filename="best")
        trainer = lightning.Trainer(
            max_epochs=4, callbacks=[best, EarlyStopping("val_loss", patience=3), LearningRateMonitor()], logger=CSVLogger(folder),
            gradient_clip_val=0.5, accumulate_grad_batches=2, log_every_n_steps=2, profiler="simple", **QUIET,
        )  # fmt: skip
        model, data = Classifier(), Data()
        trainer.fit(model, data)
        tested = trainer.test(model, data, verbose=False)
        predicted = torch.cat(trainer.predict(model, data))
        loaded = Classifier.load_from_checkpoint(best.best_model_path)
        again = lightning.Trainer(max_epochs=6, logger=False, default_root_dir=folder, **QUIET)
        again.fit(Classifier(), Data(), ckpt_path=best.best_model_path)
        files = sorted(name for name in os.listdir(folder) if name.endswith(".ckpt"))
        summary = str(lightning.pytorch.utilities.model_summary.ModelSummary(model, max_depth=2)).splitlines()
    return {
        "losses": model.seen,
        "logged": {name: value.item() for name, value in trainer.callback_metrics.items()},
        "tested": tested,
        "predicted": predicted[:4],
        "best": [best.best_model_score.item(), *files],
        "loaded": dict(loaded.hparams),
        "weights": loaded.net[0].weight,
        "resumed": [again.current_epoch, again.global_step],
        "summary": [line.split("|")[1:6] for line in summary if "|" in line],
    }


def averaged():
    Classifier, Data = members(lightning)
    lightning.seed_everything(8, verbose=False)
    with tempfile.TemporaryDirectory() as folder:
        profiler = PyTorchProfiler(folder, "profile", export_to_chrome=False)
        callbacks = [StochasticWeightAveraging(0.01, 2)]
        trainer = lightning.Trainer(max_epochs=5, callbacks=callbacks, logger=False, enable_checkpointing=False, profiler=profiler, **QUIET)
        model = Classifier()
        trainer.fit(model, Data())
    return {"averaged": model.net[0].weight, "swa losses": model.seen}


def by_the_other_package():
    Classifier, Data = members(pytorch_lightning)
    pytorch_lightning.seed_everything(9, verbose=False)
    trainer = pytorch_lightning.Trainer(max_epochs=2, logger=False, enable_checkpointing=False, precision="bf16-mixed", **QUIET)
    model = Classifier()
    trainer.fit(model, Data())
    return {"bf16 losses": [round(loss, 1) for loss in model.seen], "steps": trainer.global_step}


def by_fabric():
    Fabric.seed_everything(10, verbose=False)
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    net, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), 0.1, momentum=0.9))
    x = torch.randn(64, 4)
    loader = fabric.setup_dataloaders(DataLoader(TensorDataset(x, x.prod(1, keepdim=True)), batch_size=16, shuffle=True))
    losses = []
    for _ in range(3):
        for inputs, wanted in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(inputs), wanted)
            fabric.backward(loss)
            fabric.clip_gradients(net, optimizer, max_norm=1.0)
            optimizer.step()
            losses.append(loss.item())
    with tempfile.TemporaryDirectory() as folder:
        fabric.save(f"{folder}/state.ckpt", {"net": net, "optimizer": optimizer, "step": 12})
        state = {"net": net, "optimizer": optimizer, "step": 0}
        fabric.load(f"{folder}/state.ckpt", state)
    return {"fabric": losses, "step": state["step"], "world": fabric.world_size}


def results():
    return {**trained(), **averaged(), **by_the_other_package(), **by_fabric()}
