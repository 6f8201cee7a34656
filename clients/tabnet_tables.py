"""pytorch-tabnet: a classifier with an embedding, a regressor by entmax, and pretraining, on a table of numbers."""

import warnings

import numpy as np
from pytorch_tabnet.pretraining import TabNetPretrainer
from pytorch_tabnet.tab_model import TabNetClassifier, TabNetRegressor

PACKAGES = ["pytorch-tabnet"]
TOLERANCE = 1e-3, 1e-4  # sparse masks change at once: PyTorch's own losses move by 1e-3 when the table changes by 1e-7


def results():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 6)).astype("float32")
    table[:, 5] = rng.integers(0, 4, 200)
    classes = (table[:, 0] * table[:, 1] + table[:, 5] > 1).astype(int)
    common = {"n_d": 4, "n_a": 4, "verbose": 0, "device_name": "cpu"}
    fit = {"batch_size": 64, "virtual_batch_size": 32, "drop_last": False}
    found = {}
    classifier = TabNetClassifier(n_steps=3, cat_idxs=[5], cat_dims=[4], cat_emb_dim=2, seed=0, optimizer_params={"lr": 2e-3}, **common)
    classifier.fit(table[:150], classes[:150], eval_set=[(table[150:], classes[150:])], eval_metric=["logloss"], max_epochs=2, **fit)
    found["classifier"] = classifier.history["loss"], classifier.history["val_0_logloss"], classifier.predict_proba(table[150:160])
    regressor = TabNetRegressor(mask_type="entmax", seed=1, **common)
    regressor.fit(table[:150], table[:150, :1] ** 2, max_epochs=2, **fit)
    found["regressor"] = regressor.history["loss"], regressor.predict(table[150:160])
    pretrainer = TabNetPretrainer(seed=2, **common)
    pretrainer.fit(table[:150], max_epochs=2, pretraining_ratio=0.5, **fit)
    found["pretraining"] = pretrainer.history["loss"]
    return found
