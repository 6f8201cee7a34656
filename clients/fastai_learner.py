"""fastai: a learner over its own loaders, one cycle with mixup and clipped gradients, predictions."""

import torch
from fastai.basics import Adam, CrossEntropyLossFlat, DataLoader, DataLoaders, Learner, accuracy, set_seed
from fastai.callback.all import GradientClip, MixUp

PACKAGES = ["fastai", "fastcore"]


def results():
    set_seed(0)
    inputs = torch.randn(96, 8)
    pairs = list(zip(inputs, (inputs[:, 0] * inputs[:, 1] > 0).long(), strict=True))
    loaders = DataLoaders(DataLoader(pairs[:64], bs=16, shuffle=True, num_workers=0), DataLoader(pairs[64:], bs=16, num_workers=0))
    network = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 2))
    learner = Learner(loaders, network, loss_func=CrossEntropyLossFlat(), metrics=accuracy, opt_func=Adam)
    found = {}
    with learner.no_logging(), learner.no_bar():
        learner.fit(2, 1e-2)
        found["fit"] = [list(map(float, values)) for values in learner.recorder.values]
        learner.fit_one_cycle(2, 1e-2, cbs=[GradientClip(1.0), MixUp(0.4)])
        found["one cycle"] = [list(map(float, values)) for values in learner.recorder.values]
        found["predictions"] = learner.get_preds(dl=loaders.valid)[0]
    return found
