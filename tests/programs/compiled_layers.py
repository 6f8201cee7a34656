"""Every layer of ``nn``, scripted and traced here: PyTorch loads the archives and gives the same numbers, and so do we.

python -m tests.programs.compiled_layers [NAME ...]
"""

from __future__ import annotations

import io
import sys
import warnings
from typing import Any

import numpy as np
from oracle import pytorch

import flambeau as torch
from flambeau import nn

r, t = torch.randn, torch.tensor
LAYERS: dict[str, Any] = {
    "Linear": (lambda: nn.Linear(4, 3), (r(2, 4),)),
    "Bilinear": (lambda: nn.Bilinear(3, 4, 2), (r(2, 3), r(2, 4))),
    "Conv1d": (lambda: nn.Conv1d(3, 4, 3, padding="same"), (r(2, 3, 8),)),
    "Conv2dpad": (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), (r(2, 3, 8, 8),)),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2), (r(1, 2, 4, 4, 4),)),
    "ConvT1": (lambda: nn.ConvTranspose1d(3, 4, 3, stride=2), (r(2, 3, 8),)),
    "ConvT3": (lambda: nn.ConvTranspose3d(2, 2, 2), (r(1, 2, 3, 3, 3),)),
    "MaxPool1d": (lambda: nn.MaxPool1d(2), (r(2, 3, 8),)),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), (r(2, 3, 4, 4, 4),)),
    "AvgPool1d": (lambda: nn.AvgPool1d(2), (r(2, 3, 8),)),
    "AvgPool2d": (lambda: nn.AvgPool2d(2, ceil_mode=True), (r(2, 3, 5, 5),)),
    "AvgPool3d": (lambda: nn.AvgPool3d(2), (r(2, 3, 4, 4, 4),)),
    "AdMax2": (lambda: nn.AdaptiveMaxPool2d(2), (r(2, 3, 5, 5),)),
    "AdAvg1": (lambda: nn.AdaptiveAvgPool1d(2), (r(2, 3, 5),)),
    "AdAvg2None": (lambda: nn.AdaptiveAvgPool2d((2, None)), (r(2, 3, 5, 5),)),
    "AdAvg3": (lambda: nn.AdaptiveAvgPool3d(1), (r(2, 3, 5, 5, 5),)),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), (r(2, 3, 4, 4).abs(),)),
    "FracMax": (lambda: nn.MaxPool2d(2, return_indices=True), (r(2, 3, 4, 4),)),
    "BN1": (lambda: nn.BatchNorm1d(3), (r(4, 3),)),
    "BN3": (lambda: nn.BatchNorm3d(3, momentum=None), (r(2, 3, 2, 2, 2),)),
    "BNnt": (lambda: nn.BatchNorm2d(3, track_running_stats=False), (r(2, 3, 4, 4),)),
    "IN2": (lambda: nn.InstanceNorm2d(3), (r(2, 3, 4, 4),)),
    "GN": (lambda: nn.GroupNorm(1, 3), (r(2, 3, 4),)),
    "LN": (lambda: nn.LayerNorm((3, 4)), (r(2, 3, 4),)),
    "RMS": (lambda: nn.RMSNorm(4), (r(2, 3, 4),)),
    "LRN": (lambda: nn.LocalResponseNorm(2), (r(2, 3, 4, 4),)),
    **{
        n: (lambda n=n: getattr(nn, n)(), (r(2, 4),))
        for n in (
            "ReLU ReLU6 ELU SELU CELU LeakyReLU Hardtanh Hardswish Hardsigmoid Hardshrink SiLU Mish GELU Sigmoid Tanh "
            "Softplus Softsign Softshrink Tanhshrink LogSigmoid PReLU GLU Identity Flatten"
        ).split()
    },
    "Threshold": (lambda: nn.Threshold(0.1, 2), (r(2, 4),)),
    "GELUt": (lambda: nn.GELU("tanh"), (r(2, 4),)),
    "Softmax": (lambda: nn.Softmax(1), (r(2, 4),)),
    "Softmin": (lambda: nn.Softmin(1), (r(2, 4),)),
    "Softmax2d": (lambda: nn.Softmax2d(), (r(2, 4, 3, 3),)),
    "LogSoftmax": (lambda: nn.LogSoftmax(-1), (r(2, 4),)),
    "RReLU": (lambda: nn.RReLU(), (r(2, 4),)),
    **{n: (lambda n=n: getattr(nn, n)(0.3), (r(2, 4, 3, 3),)) for n in "Dropout Dropout2d AlphaDropout FeatureAlphaDropout".split()},
    "Dropout1d": (lambda: nn.Dropout1d(), (r(2, 3, 4),)),
    "Dropout3d": (lambda: nn.Dropout3d(), (r(2, 3, 2, 2, 2),)),
    "Embedding": (lambda: nn.Embedding(5, 3, padding_idx=-1), (t([[1, 2], [0, 4]]),)),
    "EmbMaxnorm": (lambda: nn.Embedding(5, 3, max_norm=1.0), (t([[1, 2], [0, 4]]),)),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(5, 3, mode="mean"), (t([[1, 2], [0, 4]]),)),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), (r(3, 4),)),
    "Fold": (lambda: nn.Fold((4, 4), (2, 2), stride=2), (r(1, 12, 4),)),
    "Unfold": (lambda: nn.Unfold((2, 2)), (r(1, 3, 4, 4),)),
    "PixShuf": (lambda: nn.PixelShuffle(2), (r(1, 4, 2, 2),)),
    "PixUn": (lambda: nn.PixelUnshuffle(2), (r(1, 1, 4, 4),)),
    "ChShuf": (lambda: nn.ChannelShuffle(2), (r(1, 4, 2, 2),)),
    "Up": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (r(1, 2, 3, 3),)),
    "UpSize": (lambda: nn.Upsample(size=(5, 6)), (r(1, 2, 3, 3),)),
    "UpN": (lambda: nn.UpsamplingNearest2d(scale_factor=2), (r(1, 2, 3, 3),)),
    "Up1": (lambda: nn.Upsample(scale_factor=2, mode="linear", align_corners=True), (r(1, 2, 3),)),
    "Up3": (lambda: nn.Upsample(scale_factor=2, mode="trilinear"), (r(1, 2, 3, 3, 3),)),
    "UpC": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (r(1, 2, 3, 3),)),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), (r(1, 2, 3, 3),)),
    "ReplicationPad1d": (lambda: nn.ReplicationPad1d(1), (r(1, 2, 3),)),
    "ConstantPad2d": (lambda: nn.ConstantPad2d(1, 2.0), (r(1, 2, 3, 3),)),
    "ZeroPad1d": (lambda: nn.ZeroPad1d(1), (r(1, 2, 3),)),
    "CircularPad2d": (lambda: nn.CircularPad2d(1), (r(1, 2, 3, 3),)),
    "CosSim": (lambda: nn.CosineSimilarity(), (r(2, 3), r(2, 3))),
    "PairDist": (lambda: nn.PairwiseDistance(), (r(2, 3), r(2, 3))),
    "RNN": (lambda: nn.RNN(3, 4, 2, nonlinearity="relu"), (r(5, 2, 3),)),
    "LSTMp": (lambda: nn.LSTM(3, 4, proj_size=2, batch_first=True), (r(2, 5, 3),)),
    "GRUu": (lambda: nn.GRU(3, 4, bidirectional=True), (r(5, 3),)),
    "RNNCell": (lambda: nn.RNNCell(3, 4), (r(2, 3),)),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), (r(2, 3),)),
    "GRUCell": (lambda: nn.GRUCell(3, 4), (r(2, 3),)),
    "MHA": (lambda: nn.MultiheadAttention(8, 2), (r(3, 2, 8), r(3, 2, 8), r(3, 2, 8))),
    "TEL": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (r(2, 3, 8),)),
    "TE": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), (r(3, 2, 8),)),
    "TDL": (lambda: nn.TransformerDecoderLayer(8, 2, 16), (r(3, 2, 8), r(4, 2, 8))),
    "Transf": (lambda: nn.Transformer(8, 2, 1, 1, 16), (r(3, 2, 8), r(4, 2, 8))),
    **{n: (lambda n=n: getattr(nn, n)(), (r(3, 4), r(3, 4))) for n in "MSELoss L1Loss SmoothL1Loss HuberLoss SoftMarginLoss".split()},
    "BCE": (lambda: nn.BCELoss(), (r(3, 4).sigmoid(), r(3, 4).sigmoid())),
    "BCEL": (lambda: nn.BCEWithLogitsLoss(pos_weight=torch.ones(4) * 2), (r(3, 4), r(3, 4).sigmoid())),
    "KL": (lambda: nn.KLDivLoss(reduction="batchmean"), (r(3, 4), r(3, 4).sigmoid())),
    "CE": (lambda: nn.CrossEntropyLoss(weight=torch.ones(4)), (r(3, 4), t([0, 1, 3]))),
    "NLL": (lambda: nn.NLLLoss(), (r(3, 4), t([0, 1, 3]))),
    "GNLL": (lambda: nn.GaussianNLLLoss(), (r(3, 4), r(3, 4), r(3, 4).abs())),
    "PNLL": (lambda: nn.PoissonNLLLoss(), (r(3, 4), r(3, 4).abs())),
    "HE": (lambda: nn.HingeEmbeddingLoss(), (r(3, 4), t([[1.0, -1, 1, -1]] * 3))),
    "MRL": (lambda: nn.MarginRankingLoss(), (r(3), r(3), t([1.0, -1, 1]))),
    "MLSM": (lambda: nn.MultiLabelSoftMarginLoss(), (r(3, 4), t([[1.0, 0, 1, 0]] * 3))),
    "MML": (lambda: nn.MultiMarginLoss(), (r(3, 4), t([0, 1, 3]))),
    "CEL": (lambda: nn.CosineEmbeddingLoss(), (r(3, 4), r(3, 4), t([1.0, -1, 1]))),
    "TML": (lambda: nn.TripletMarginLoss(), (r(3, 4), r(3, 4), r(3, 4))),
    "TMD": (lambda: nn.TripletMarginWithDistanceLoss(), (r(3, 4), r(3, 4), r(3, 4))),
    "CTC": (lambda: nn.CTCLoss(), (r(5, 2, 4).log_softmax(2), t([[1, 2], [1, 3]]), t([5, 5]), t([2, 2]))),
}
# Scripting refuses them: a function among the arguments.
REFUSED = {("TMD", "script")}


def flat(value: Any) -> list[Any]:
    """The arrays of a result."""
    if hasattr(value, "detach"):
        return [value.detach().numpy()]
    return [array for item in value for array in flat(item)] if isinstance(value, (list, tuple)) else []


def compare(name: str, way: str) -> None:
    """Compile a layer, and run it from its archive in both libraries."""
    make, inputs = LAYERS[name]
    torch.manual_seed(0)
    layer = make().eval()
    compiled = torch.jit.script(layer) if way == "script" else torch.jit.trace(layer, inputs, check_trace=False)
    archive = compiled.save_to_buffer()
    expected = flat(layer(*inputs))
    theirs = pytorch().jit.load(io.BytesIO(archive))(*[pytorch().tensor(value.detach().numpy()) for value in inputs])
    for found in (torch.jit.load(io.BytesIO(archive))(*inputs), theirs):
        for one, other in zip(flat(found), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    cases = [(name, way) for name in names or LAYERS for way in ("script", "trace") if (name, way) not in REFUSED]
    wrong = 0
    for name, way in cases:
        try:
            compare(name, way)
        except Exception as error:
            wrong += 1
            print(f"{name}, {way}: {type(error).__name__}: {error!s:.400}")
    print(f"{len(cases)} archives of {len(names or LAYERS)} layers, {wrong} of them wrong")


if __name__ == "__main__":
    main(sys.argv[1:])
