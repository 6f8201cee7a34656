"""skorch: a network inside scikit-learn's pipeline and grid search, with callbacks and a checkpoint."""

import io

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EarlyStopping, EpochScoring, LRScheduler

PACKAGES = ["skorch", "scikit-learn", "tabulate"]


class Network(torch.nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(10, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 3))

    def forward(self, x):
        return self.layers(x)


def results():
    x, y = make_classification(300, 10, n_informative=6, n_classes=3, random_state=0)
    x = x.astype(np.float32)
    torch.manual_seed(0)
    net = NeuralNetClassifier(
        Network,
        criterion=torch.nn.CrossEntropyLoss,
        max_epochs=6,
        lr=0.1,
        batch_size=32,
        iterator_train__shuffle=True,
        verbose=0,
        callbacks=[EpochScoring("f1_macro", lower_is_better=False), EarlyStopping(patience=4), LRScheduler("StepLR", step_size=2)],
    )
    pipeline = make_pipeline(StandardScaler(), net).fit(x, y)
    history = net.history
    file = io.BytesIO()
    net.save_params(f_params=file)
    file.seek(0)
    other = NeuralNetClassifier(Network).initialize()
    other.load_params(f_params=file)
    torch.manual_seed(0)
    search = GridSearchCV(
        NeuralNetClassifier(Network, criterion=torch.nn.CrossEntropyLoss, train_split=None, max_epochs=3, verbose=0),
        {"lr": [0.05, 0.2], "module__hidden": [4, 8]},
        cv=2,
        refit=False,
    ).fit(x, y)
    torch.manual_seed(0)
    regressor = NeuralNetRegressor(torch.nn.Linear, module__in_features=10, module__out_features=1, max_epochs=3, verbose=0)
    regressor.fit(x, x[:, :1] * 2)
    return {
        "train losses": history[:, "train_loss"],
        "valid losses": history[:, "valid_loss"],
        "f1": history[:, "f1_macro"],
        "probabilities": pipeline.predict_proba(x[:4]),
        "loaded": [bool(np.allclose(other.forward(x[:2]).numpy(), net.forward(x[:2]).numpy()))],
        "grid": search.cv_results_["mean_test_score"],
        "regressor": regressor.history[:, "train_loss"],
    }
