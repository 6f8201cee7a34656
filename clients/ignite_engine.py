"""pytorch-ignite: a trainer and an evaluator with metrics, events, a scheduler, early stopping and a checkpoint."""

import tempfile

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import EarlyStopping, LRScheduler, ModelCheckpoint
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, Precision, Recall, RunningAverage
from torch.utils.data import DataLoader, TensorDataset

PACKAGES = ["pytorch-ignite"]


def results():
    torch.manual_seed(0)
    x, y = torch.randn(96, 5), torch.randint(0, 3, (96,))
    x[torch.arange(96), y] += 2.0
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(5, 12), torch.nn.ReLU(), torch.nn.Linear(12, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    criterion = torch.nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(model, optimizer, criterion)
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "loss")
    metrics = {
        "accuracy": Accuracy(),
        "loss": Loss(criterion),
        "precision": Precision(average=False),
        "recall": Recall(average=True),
        "confusion": ConfusionMatrix(3),
    }
    evaluator = create_supervised_evaluator(model, metrics=metrics)
    seen = {"losses": [], "running": [], "evaluations": []}
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: seen["losses"].append(engine.state.output))
    trainer.add_event_handler(Events.EPOCH_STARTED, LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)))

    @trainer.on(Events.EPOCH_COMPLETED)
    def evaluate(engine):
        seen["running"].append(engine.state.metrics["loss"])
        evaluator.run(DataLoader(TensorDataset(x, y), batch_size=32))
        seen["evaluations"].append(dict(evaluator.state.metrics))

    evaluator.add_event_handler(Events.COMPLETED, EarlyStopping(3, lambda engine: engine.state.metrics["accuracy"], trainer))
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = ModelCheckpoint(folder, "best", n_saved=1, score_function=lambda engine: -engine.state.metrics["loss"])
        evaluator.add_event_handler(Events.COMPLETED, checkpoint, {"model": model})
        trainer.run(loader, max_epochs=5)
        saved = torch.load(checkpoint.last_checkpoint)
    return {**seen, "saved": saved["0.weight"], "learning rate": optimizer.param_groups[0]["lr"]}
