"""torchmetrics: metrics accumulated over batches, a collection of them, and their state after a reset."""

import torch
import torchmetrics
from torchmetrics import classification, regression
from torchmetrics.functional.classification import multiclass_confusion_matrix

PACKAGES = ["torchmetrics", "lightning-utilities"]


def results():
    torch.manual_seed(1)
    metrics = torchmetrics.MetricCollection(
        {
            "accuracy": classification.MulticlassAccuracy(5, average="macro"),
            "f1": classification.MulticlassF1Score(5),
            "precision": classification.MulticlassPrecision(5),
            "auroc": classification.MulticlassAUROC(5),
            "calibration": classification.MulticlassCalibrationError(5, n_bins=10),
        }
    )
    errors = torchmetrics.MetricCollection(
        {
            "mse": regression.MeanSquaredError(),
            "mae": regression.MeanAbsoluteError(),
            "r2": regression.R2Score(),
            "pearson": regression.PearsonCorrCoef(),
        }
    )
    mean = torchmetrics.MeanMetric()
    for _ in range(6):
        logits, targets = torch.randn(32, 5), torch.randint(0, 5, (32,))
        logits[torch.arange(32), targets] += 1.0
        metrics.update(logits.softmax(1), targets)
        values = torch.randn(32)
        errors.update(values + 0.3 * torch.randn(32), values)
        mean.update(values, weight=values.abs())
    found = {**metrics.compute(), **errors.compute()}
    metrics.reset()
    metrics.update(logits.softmax(1), targets)
    return {
        **found,
        "mean": mean.compute(),
        "after a reset": metrics.compute()["accuracy"],
        "confusion": multiclass_confusion_matrix(logits, targets, 5),
    }
