"""Every layer of ``torch.nn`` that computes, with arguments and inputs to draw from."""

from __future__ import annotations

# Name | arguments, in turn | inputs, in turn. ``r(2, 3)`` are normal numbers, ``u`` numbers from 0 to 1, ``i(n, 2, 3)`` integers below n.
TABLE = """
Identity | ; 3, a=1 | r(2, 3) ; 3
ReLU | ; True | r(3, 4)
ReLU6 | ; True | 4 * r(3, 4)
ELU | ; 0.5 ; 2.0, True | r(3, 4)
SELU | ; True | r(3, 4)
CELU | ; 0.5 | r(3, 4)
GELU | ; 'tanh' ; approximate='none' | r(3, 4) ; r()
SiLU | ; True | r(3, 4)
Mish | ; True | r(3, 4)
Hardswish | ; True | 4 * r(3, 4)
Hardsigmoid | ; True | 4 * r(3, 4)
Hardtanh | ; -2, 0.5 ; -1.0, 1.0, True | 2 * r(3, 4)
Hardshrink | ; 0.1 | r(3, 4)
Softshrink | ; 0.1 ; -1.0 | r(3, 4)
Tanhshrink | | r(3, 4)
Softplus | ; 2, 3 ; beta=0.5, threshold=1 | 4 * r(3, 4)
Softsign | | r(3, 4)
Tanh | | r(3, 4)
Sigmoid | | r(3, 4)
LogSigmoid | | r(3, 4)
LeakyReLU | ; 0.2 ; 0.2, True | r(3, 4)
RReLU | ; 0.2, 0.4 ; 0.3, 0.3 ; 0.5, 0.1 | r(3, 4)
Threshold | 0.1, 20 ; -1, 0, True | r(3, 4)
PReLU | ; 3 ; 3, 0.1 ; 2 | r(2, 3) ; r(2, 3, 4) ; r(3)
Softmin | ; 1 ; dim=-1 | r(2, 3) ; r(3)
Softmax | ; 1 ; dim=-1 ; 5 | r(2, 3) ; r(2, 3, 4)
Softmax2d | | r(2, 3, 2, 2) ; r(3, 2, 2) ; r(2, 2)
LogSoftmax | ; 1 ; dim=-1 | r(2, 3) ; r()
GLU | ; 0 ; dim=1 | r(2, 4) ; r(4, 2, 6) ; r(3)
Flatten | ; 0 ; 1, 2 ; 0, -2 | r(2, 3, 4) ; r(3)
Unflatten | 1, (2, 2) ; 0, (1, 2) ; 1, (-1, 2) ; 1, (3, 2) | r(2, 4)
Fold | (3, 4), 2 ; (3, 4), (1, 2), stride=1 ; (4, 4), 2, 1, 1, 2 | r(2, 8, 6) ; r(8, 6) ; r(2, 4, 9)
Unfold | 2 ; (1, 2), stride=2 ; 2, 2, 1, 1 | r(2, 3, 4, 4) ; r(3, 4, 4)
ChannelShuffle | 2 ; 3 | r(2, 6, 2, 2) ; r(2, 6, 3)
PixelShuffle | 2 ; 1 ; 3 | r(2, 4, 3, 2) ; r(8, 2, 2)
PixelUnshuffle | 2 ; 1 | r(2, 3, 4, 2) ; r(1, 3, 3)
CosineSimilarity | ; 0 ; dim=-1, eps=1e-3 | r(2, 3), r(2, 3) ; r(2, 3, 2), r(3, 2)
PairwiseDistance | ; 1 ; 3.0, 0.1, True ; float('inf') | r(2, 3), r(2, 3) ; r(2, 3), r(3)
Linear | 4, 3 ; 4, 3, False ; 4, 0 ; 3, 2 | r(2, 4) ; r(4) ; r(2, 3, 4) ; r(0, 4)
LazyLinear | 3 ; 3, bias=False | r(2, 4) ; r(2, 3, 4) ; r(4)
Bilinear | 3, 4, 2 ; 3, 4, 2, False | r(2, 3), r(2, 4) ; r(3), r(4)
Dropout | ; 0.0 ; 1.0 ; 0.3 ; 2.0 | r(3, 4)
Dropout1d | ; 0.3 | r(2, 3, 4) ; r(3, 4)
Dropout2d | ; 0.3 | r(2, 3, 2, 2) ; r(3, 2, 2)
Dropout3d | ; 0.3 | r(2, 3, 2, 2, 2) ; r(3, 2, 2, 2)
AlphaDropout | ; 0.3 | r(3, 4)
FeatureAlphaDropout | ; 0.3 | r(2, 3, 2, 2)
Embedding | 5, 3 ; 5, 3, padding_idx=1 ; 5, 3, max_norm=1.0 ; 5, 3, scale_grad_by_freq=True ; 5, 3, norm_type=1.0, max_norm=0.5 \
  | i(5, 2, 3) ; i(5) ; i(6, 3)
EmbeddingBag | 5, 3 ; 5, 3, mode='sum' ; 5, 3, mode='max' ; 5, 3, padding_idx=1 ; 5, 3, include_last_offset=True | i(5, 2, 3) \
  ; i(5, 6), torch.tensor([0, 2, 6])
EmbeddingBag | 5, 3, mode='sum' | i(5, 2, 3), None, u(2, 3)
RNN | 3, 2 ; 3, 2, 2, 'relu' ; 3, 2, batch_first=True, bidirectional=True ; 3, 2, bias=False | r(4, 2, 3) ; r(4, 3) ; r(2, 1, 3), r(1, 1, 2)
LSTM | 3, 2 ; 3, 2, 2, dropout=0.5 ; 3, 2, batch_first=True, bidirectional=True ; 3, 2, proj_size=1 ; 3, 2, bias=False | r(4, 2, 3) \
  ; r(4, 3) ; r(2, 1, 3), (r(1, 1, 2), r(1, 1, 2))
GRU | 3, 2 ; 3, 2, 2 ; 3, 2, batch_first=True, bidirectional=True ; 3, 2, bias=False | r(4, 2, 3) ; r(4, 3) ; r(2, 1, 3), r(1, 1, 2)
RNNCell | 3, 2 ; 3, 2, False ; 3, 2, nonlinearity='relu' ; 3, 2, nonlinearity='x' | r(4, 3) ; r(3) ; r(4, 3), r(4, 2)
LSTMCell | 3, 2 ; 3, 2, False | r(4, 3) ; r(3) ; r(4, 3), (r(4, 2), r(4, 2))
GRUCell | 3, 2 ; 3, 2, False | r(4, 3) ; r(3) ; r(4, 3), r(4, 2)
MultiheadAttention | 4, 2 ; 4, 1, bias=False ; 4, 2, batch_first=True ; 4, 2, add_bias_kv=True, add_zero_attn=True ; 4, 3 \
  | r(3, 2, 4), r(5, 2, 4), r(5, 2, 4) ; r(3, 4), r(3, 4), r(3, 4)
MultiheadAttention | 4, 2, kdim=3, vdim=2 ; 4, 2, kdim=3, vdim=2, bias=False | r(3, 2, 4), r(5, 2, 3), r(5, 2, 2)
Transformer | 4, 2, 1, 1, 8, 0.0 ; 4, 2, 1, 2, 8, 0.0, 'gelu', batch_first=True, norm_first=True | r(3, 2, 4), r(3, 2, 4) ; r(3, 4), r(2, 4)
TransformerEncoderLayer | 4, 2, 8 ; 4, 2, 8, 0.0, 'gelu', norm_first=True ; 4, 1, 3, 0.0, batch_first=True, bias=False | r(3, 2, 4) \
  ; r(3, 4)
TransformerDecoderLayer | 4, 2, 8 ; 4, 2, 8, 0.0, 'gelu', norm_first=True ; 4, 1, 3, 0.0, batch_first=True, bias=False \
  | r(3, 2, 4), r(3, 2, 4) ; r(3, 4), r(2, 4)
TransformerEncoder | torch.nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2 \
  ; torch.nn.TransformerEncoderLayer(4, 2, 8, 0.0), 1, torch.nn.LayerNorm(4) | r(3, 2, 4) ; r(3, 4)
TransformerDecoder | torch.nn.TransformerDecoderLayer(4, 2, 8, 0.0), 2 \
  ; torch.nn.TransformerDecoderLayer(4, 2, 8), 1, torch.nn.LayerNorm(4) | r(3, 2, 4), r(3, 2, 4)
LayerNorm | 4 ; (3, 4) ; 4, elementwise_affine=False ; 4, bias=False ; [4], 0.1 ; 3 | r(2, 3, 4) ; r(4)
RMSNorm | 4 ; (3, 4) ; 4, elementwise_affine=False ; [4], 0.1 | r(2, 3, 4) ; r(4)
GroupNorm | 2, 4 ; 4, 4, 0.1 ; 1, 4, affine=False ; 3, 4 | r(2, 4, 3) ; r(2, 4, 2, 2) ; r(2, 4)
LocalResponseNorm | 2 ; 3, 0.1, 0.5, 2.0 ; 1 | r(2, 4, 3) ; r(2, 4, 2, 2) ; r(3)
CrossMapLRN2d | 3 ; 2, 0.1, 0.5, 2 | r(2, 4, 3, 3)
MSELoss | {loss} | r(3, 4), r(3, 4) ; r(3), r(3)
L1Loss | {loss} | r(3, 4), r(3, 4)
SmoothL1Loss | {loss} ; beta=0.5 ; beta=0.0 | r(3, 4), r(3, 4)
HuberLoss | {loss} ; delta=0.5 | r(3, 4), r(3, 4)
BCELoss | {loss} ; u(4) | u(3, 4), u(3, 4)
BCEWithLogitsLoss | {loss} ; pos_weight=u(4) ; u(4) | r(3, 4), u(3, 4)
CrossEntropyLoss | {loss} ; u(4) ; ignore_index=1 ; label_smoothing=0.2 ; u(4), label_smoothing=0.1, reduction='sum' \
  | r(3, 4), i(4, 3) ; r(3, 4), u(3, 4) ; r(4), i(4) ; r(2, 4, 3), i(4, 2, 3)
NLLLoss | {loss} ; u(4) ; ignore_index=1 | r(3, 4), i(4, 3) ; r(2, 4, 3), i(4, 2, 3) ; r(4), i(4)
NLLLoss2d | ; u(4) | r(2, 4, 3, 2), i(4, 2, 3, 2)
PoissonNLLLoss | {loss} ; False ; full=True ; eps=0.1, log_input=False | u(3, 4), 3 * u(3, 4)
GaussianNLLLoss | {loss} ; full=True ; eps=0.1 | r(3, 4), r(3, 4), u(3, 4) ; r(3, 4), r(3, 4), u(3, 1)
KLDivLoss | {loss} ; reduction='batchmean' ; log_target=True | r(3, 4), u(3, 4)
HingeEmbeddingLoss | {loss} ; 2.0 | r(3, 4), 2.0 * i(2, 3, 4) - 1
MarginRankingLoss | {loss} ; 0.5 | r(4), r(4), 2.0 * i(2, 4) - 1
MultiMarginLoss | {loss} ; 2, 0.5 ; weight=u(4) ; 3 | r(3, 4), i(4, 3) ; r(4), i(4)
MultiLabelMarginLoss | {loss} | r(2, 3), torch.tensor([[0, -1, 1], [2, 1, -1]]) ; r(3), torch.tensor([1, -1, 0])
MultiLabelSoftMarginLoss | {loss} ; u(4) | r(3, 4), i(2, 3, 4).double() ; r(3, 4), u(3, 4)
SoftMarginLoss | {loss} | r(3, 4), 2.0 * i(2, 3, 4) - 1
CosineEmbeddingLoss | {loss} ; 0.5 | r(3, 4), r(3, 4), 2 * i(2, 3) - 1 ; r(4), r(4), torch.tensor(1)
TripletMarginLoss | {loss} ; 2.0, 1 ; swap=True ; eps=0.1 | r(3, 4), r(3, 4), r(3, 4) ; r(4), r(4), r(4)
TripletMarginWithDistanceLoss | {loss} ; swap=True ; margin=0.5 ; distance_function=torch.nn.PairwiseDistance(1) | r(3, 4), r(3, 4), r(3, 4)
CTCLoss | ; reduction='sum' ; reduction='none' ; 1 ; zero_infinity=True \
  | r(6, 2, 4).log_softmax(2), torch.tensor([[1, 2], [3, 1]]), torch.tensor([6, 5]), torch.tensor([2, 1])
AdaptiveLogSoftmaxWithLoss | 4, 6, [2, 4] ; 4, 6, [3], 2.0, True ; 4, 6, [4, 2] | r(3, 4), i(6, 3) ; r(4), i(6)
LinearCrossEntropyLoss | 4, 3 ; 4, 3, bias=False ; 4, 3, reduction='sum' | r(2, 4), i(3, 2)
Upsample | 5 ; scale_factor=2 ; scale_factor=1.5, mode='linear' ; 5, mode='linear', align_corners=True ; | r(2, 3, 4)
Upsample | (3, 5) ; scale_factor=2, mode='bilinear' ; scale_factor=(2, 1.5), mode='bicubic' ; 4, mode='nearest-exact' \
  ; 3, mode='area' | r(2, 3, 4, 3)
UpsamplingNearest2d | 5 ; scale_factor=2 | r(2, 3, 4, 3)
UpsamplingBilinear2d | 5 ; scale_factor=2 | r(2, 3, 4, 3)
FractionalMaxPool2d | 2, 3 ; 2, output_ratio=0.5 ; 2, 2, return_indices=True | r(2, 3, 6, 6) ; r(3, 6, 6)
FractionalMaxPool3d | 2, 2 ; 2, output_ratio=0.5 | r(1, 2, 4, 4, 4)
MaxUnpool1d | 2 ; 2, 2, 0 | r(2, 3, 4), 2 * i(1, 2, 3, 4) + torch.arange(4) * 2
MaxUnpool2d | 2 ; 2, 2 | r(2, 3, 2, 2), 0 * i(9, 2, 3, 2, 2) + torch.tensor([[0, 3], [8, 11]])
MaxUnpool3d | 2 | r(1, 2, 1, 1, 2), 0 * i(9, 1, 2, 1, 1, 2) + torch.tensor([1, 7])
"""
LOSSES = "; reduction='sum' ; reduction='none' ; reduction='mean' ; reduction='x' ; size_average=False"

# The same for one, two and three dimensions: {d} is the number, {s} and {e} sizes of an input, {p} as many twos as dimensions.
BY_DIMENSION = """
Conv{d}d | 4, 2, 2 ; 4, 2, 3, 2, 1 ; 4, 4, 2, groups=2 ; 4, 2, 1, bias=False ; 4, 3, 2, dilation=2 \
  ; 4, 2, 3, padding='same', padding_mode='circular' | r(2, 4, {s}) ; r(4, {s})
LazyConv{d}d | 2, 2 ; 4, 3, 2, 1 ; 2, 1, bias=False ; 2, 2, padding_mode='reflect', padding=1 | r(2, 4, {s}) ; r(4, {s})
ConvTranspose{d}d | 4, 2, 2 ; 4, 2, 3, 2, 1, 1 ; 4, 4, 2, groups=2 ; 4, 2, 1, bias=False ; 4, 3, 2, dilation=2 | r(2, 4, {e}) ; r(4, {e})
LazyConvTranspose{d}d | 2, 2 ; 4, 3, 2, 1 ; 2, 1, bias=False | r(2, 4, {e}) ; r(4, {e})
BatchNorm{d}d | 3 ; 3, 0.1, None ; 3, affine=False ; 3, track_running_stats=False ; 2 | r(2, 3, {e}) ; r(4, 3) ; r(1, 3, {e})
LazyBatchNorm{d}d | ; 0.1, None ; affine=False ; track_running_stats=False | r(2, 3, {e}) ; r(4, 3)
InstanceNorm{d}d | 3 ; 3, affine=True ; 3, track_running_stats=True ; 3, 0.1, 0.3, True, True ; 2 | r(2, 3, {s}) ; r(3, {s})
LazyInstanceNorm{d}d | ; affine=True ; track_running_stats=True ; 0.1, 0.3, True, True | r(2, 3, {s}) ; r(3, {s})
MaxPool{d}d | 2 ; 3, 1, 1 ; 2, ceil_mode=True ; 2, return_indices=True ; 2, 1, dilation=2 ; 2, padding=2 | r(2, 3, {s}) ; r(3, {s})
AvgPool{d}d | 2 ; 3, 1, 1 ; 2, ceil_mode=True ; 3, 2, 1, True, False ; 2, padding=2 | r(2, 3, {s}) ; r(3, {s})
LPPool{d}d | 2, 2 ; 1.5, 2, 1 ; 3, 2, ceil_mode=True | u(2, 3, {s}) ; u(3, {s})
AdaptiveAvgPool{d}d | 2 ; 1 ; 3 | r(2, 3, {s}) ; r(3, {s})
AdaptiveMaxPool{d}d | 2 ; 1 ; 3, return_indices=True | r(2, 3, {s}) ; r(3, {s})
ConstantPad{d}d | 1, 0.5 ; -1, 2 ; {q}, 1 | r(2, 3, {s})
ZeroPad{d}d | 1 ; -1 ; {q} | r(2, 3, {s})
ReflectionPad{d}d | 1 ; {q} ; 7 | r(2, 3, {s}) ; r(3, {s})
ReplicationPad{d}d | 1 ; {q} ; 5 | r(2, 3, {s}) ; r(3, {s})
CircularPad{d}d | 1 ; {q} ; 9 | r(2, 3, {s}) ; r(3, {s})
"""


def _choices(text: str) -> list[str]:
    return [part.strip() for part in text.split(" ; ")] if not text.startswith(";") else ["", *_choices(text[1:].strip())]


def _layers() -> dict[str, list[tuple[list[str], list[str]]]]:
    lines = TABLE.replace("{loss}", LOSSES).strip().split("\n")
    for d in (1, 2, 3):
        sizes = {
            "d": str(d),
            "s": ", ".join(["5", "4", "4"][:d]),
            "e": ", ".join(["3", "2", "2"][:d]),
            "q": str((1, 2, 0, 1, 1, 0)[: 2 * d]),
        }
        for line in BY_DIMENSION.strip().split("\n"):
            for name, value in sizes.items():
                line = line.replace("{" + name + "}", value)
            lines.append(line)
    layers: dict[str, list[tuple[list[str], list[str]]]] = {}
    for line in lines:
        name, arguments, inputs = (part.strip() for part in line.split("|"))
        layers.setdefault(name, []).append((_choices(arguments), _choices(inputs)))
    return layers


LAYERS = _layers()
NO_LAYERS = frozenset(
    "Container DataParallel Module ModuleDict ModuleList ParameterDict ParameterList RNNBase RNNCellBase Sequential SyncBatchNorm".split()
)
