"""Messages that TensorBoard reads, made of values: each function returns a ``Summary``.

Source: torch.utils.tensorboard.summary.
"""

from __future__ import annotations

import io
import json
import logging
import struct
import wave
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from ...core import dtype as dtypes
from ...core.tensor import Tensor
from ...ops.views import view_as_real
from ._convert_np import make_np
from ._utils import _prepare_video, convert_to_HWC

__all__ = [
    "half_to_int", "int_to_half", "hparams", "scalar", "histogram_raw", "histogram", "make_histogram", "image", "image_boxes", "draw_boxes",
    "make_image", "video", "make_video", "audio", "custom_scalars", "text", "tensor_proto", "pr_curve_raw", "pr_curve", "compute_curve",
    "mesh",
]  # fmt: skip

logger = logging.getLogger(__name__)
MOST_THRESHOLDS = 127
LARGEST_MESSAGE = 1 << 31


def _metadata(plugin: str, content: bytes = b"") -> SummaryMetadata:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))


def _shape(sizes: Any) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


# -- numbers ----------------------------------------------------------------------------------------------------------------
def scalar(name: str, tensor: Any, collections: Any = None, new_style: bool = False, double_precision: bool = False) -> Summary:
    """One number.

    Args:
        name: the tag.
        tensor: number, or tensor or array of one element.
        collections: not looked at, as in PyTorch.
        new_style: as a tensor rather than in the field of its own that old readers know.
        double_precision: float64 instead of float32; only with ``new_style``.
    Returns: a ``Summary``.
    Raises:
        AssertionError: more than one element.
    Source: torch.utils.tensorboard.summary.scalar.
    Example:
        >>> scalar("loss", torch.tensor(0.5)).value[0].simple_value
        0.5
    """
    value = make_np(tensor)
    if value.size != 1:
        raise AssertionError(f"Tensor should contain one element (0 dimensions). Was given size: {value.size} and {value.ndim} dimensions.")
    number = float(value.reshape(()))
    if not new_style:
        return Summary(value=[Summary.Value(tag=name, simple_value=number)])
    message = TensorProto(double_val=[number], dtype="DT_DOUBLE") if double_precision else TensorProto(float_val=[number], dtype="DT_FLOAT")
    return Summary(value=[Summary.Value(tag=name, tensor=message, metadata=_metadata("scalars"))])


def half_to_int(f: float) -> int:
    """The bits of a number in float32, as ``half_val`` of a tensor's message has them.

    Args:
        f: the number.
    Returns: an int of 32 bits.
    Source: torch.utils.tensorboard.summary.half_to_int.
    Example:
        >>> half_to_int(1.0) == 0x3F800000
        True
    """
    return struct.unpack("i", struct.pack("f", f))[0]


def int_to_half(i: int) -> float:
    """The number with the bits of :func:`half_to_int`.

    Args:
        i: the bits.
    Returns: a float.
    Source: torch.utils.tensorboard.summary.int_to_half.
    Example:
        >>> int_to_half(0x3F800000)
        1.0
    """
    return struct.unpack("f", struct.pack("i", i))[0]


def _elements(tensor: Tensor) -> list[Any]:
    return tensor.flatten().tolist()


def _half_elements(tensor: Tensor) -> list[int]:
    return [half_to_int(value) for value in tensor.flatten().tolist()]


def _complex_elements(tensor: Tensor) -> list[float]:
    return view_as_real(tensor).flatten().tolist()


TENSOR_FIELDS: dict[Any, tuple[str, str, Callable[[Tensor], list[Any]]]] = {
    dtypes.float16: ("DT_HALF", "half_val", _half_elements),
    dtypes.bfloat16: ("DT_BFLOAT16", "half_val", _half_elements),
    dtypes.float32: ("DT_FLOAT", "float_val", _elements),
    dtypes.float64: ("DT_DOUBLE", "double_val", _elements),
    dtypes.int8: ("DT_INT8", "int_val", _elements),
    dtypes.uint8: ("DT_UINT8", "uint32_val", _elements),
    dtypes.int16: ("DT_INT16", "int_val", _elements),
    dtypes.int32: ("DT_INT32", "int_val", _elements),
    dtypes.int64: ("DT_INT64", "int64_val", _elements),
    dtypes.bool_: ("DT_BOOL", "bool_val", _elements),
    dtypes.complex64: ("DT_COMPLEX64", "scomplex_val", _complex_elements),
    dtypes.complex128: ("DT_COMPLEX128", "dcomplex_val", _complex_elements),
}


def tensor_proto(tag: str, tensor: Tensor) -> Summary:
    """A whole tensor.

    Args:
        tag: the tag.
        tensor: of any shape.
    Returns: a ``Summary``.
    Raises:
        ValueError: 2 GB or more, which no message may have; a dtype that messages do not know.
    Source: torch.utils.tensorboard.summary.tensor_proto.
    Example:
        >>> list(tensor_proto("weights", torch.tensor([1.0, 2.0])).value[0].tensor.float_val)
        [1.0, 2.0]
    """
    if tensor.numel() * tensor.itemsize >= LARGEST_MESSAGE:
        raise ValueError("tensor is bigger than protocol buffer's hard limit of 2GB in size")
    if tensor.dtype not in TENSOR_FIELDS:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    dtype, field, elements = TENSOR_FIELDS[tensor.dtype]
    message = TensorProto(dtype=dtype, tensor_shape=_shape(tensor.shape), **{field: elements(tensor)})
    return Summary(value=[Summary.Value(tag=tag, metadata=_metadata("tensor"), tensor=message)])


# -- distributions ----------------------------------------------------------------------------------------------------------
def histogram_raw(
    name: str, min: float, max: float, num: int, sum: float, sum_squares: float, bucket_limits: Any, bucket_counts: Any
) -> Summary:
    """A histogram whose counts are known.

    Args:
        name: the tag.
        min, max, num, sum, sum_squares: of the values that were counted.
        bucket_limits: the upper limit of each bucket.
        bucket_counts: how many values fell into it.
    Returns: a ``Summary``.
    Source: torch.utils.tensorboard.summary.histogram_raw.
    Example:
        >>> summary = histogram_raw("weights", 0.0, 2.0, 3, 3.0, 5.0, [1.0, 2.0], [1, 2])
        >>> list(summary.value[0].histo.bucket)
        [1.0, 2.0]
    """
    message = HistogramProto(min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits, bucket=bucket_counts)
    return Summary(value=[Summary.Value(tag=name, histo=message)])


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """The histogram of a tensor's values.

    Args:
        name: the tag.
        values: of any shape, not empty.
        bins, max_bins: as in :func:`make_histogram`.
    Returns: a ``Summary``.
    Source: torch.utils.tensorboard.summary.histogram.
    Example:
        >>> histogram("weights", torch.tensor([1.0, 2.0, 2.0]), bins=2).value[0].histo.num
        3.0
    """
    return Summary(value=[Summary.Value(tag=name, histo=make_histogram(make_np(values).astype(float), bins, max_bins))])


def make_histogram(values: np.ndarray, bins: Any, max_bins: int | None = None) -> HistogramProto:
    """Counts of values, cut to the buckets that have any, with an empty one before them.

    Args:
        values: any shape, not empty.
        bins: as in ``numpy.histogram``: limits, a number, or the name of a rule.
        max_bins: neighbouring buckets are joined until there are about as many.
    Returns: a ``HistogramProto``.
    Raises:
        ValueError: no values, or none that lies in a bucket.
    Source: torch.utils.tensorboard.summary.make_histogram.
    Example:
        >>> list(make_histogram(np.array([1.0, 2.0, 2.0]), bins=2).bucket)
        [0.0, 1.0, 2.0]
    """
    if values.size == 0:
        raise ValueError("The input has no element.")
    values = values.reshape(-1)
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        joined = len(counts) // max_bins
        counts = np.add.reduceat(counts, np.arange(0, len(counts), joined))
        limits = np.append(limits[:-1:joined], limits[-1])
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise ValueError("The histogram is empty: no value lies in one of the bins")
    first, last = int(filled[0]), int(filled[-1])
    return HistogramProto(
        min=values.min(),
        max=values.max(),
        num=len(values),
        sum=values.sum(),
        sum_squares=values.dot(values),
        bucket_limit=limits[first : last + 2].tolist(),
        bucket=[0, *counts[first : last + 1].tolist()],  # a message has right limits only: the empty bucket carries the leftmost
    )


# -- images -----------------------------------------------------------------------------------------------------------------
def _calc_scale_factor(tensor: Any) -> int:
    """Factor that brings values to [0, 255]: 1 for uint8, 255 for everything else."""
    return 1 if make_np(tensor).dtype == np.uint8 else 255


def _bytes(pixels: np.ndarray) -> np.ndarray:
    return (pixels.astype(np.float32) * _calc_scale_factor(pixels)).clip(0, 255).astype(np.uint8)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """One image, or a batch on a grid, as PNG.

    Args:
        tag: the tag.
        tensor: uint8 in [0, 255], anything else in [0, 1]; what lies outside is clipped.
        rescale: factor of height and width.
        dataformats: the dimensions' order, such as ``NCHW``, ``HWC``, ``HW``.
    Returns: a ``Summary``.
    Source: torch.utils.tensorboard.summary.image.
    Example:
        >>> image("digits", torch.zeros(4, 1, 28, 28)).value[0].image.width
        112
    """
    pixels = _bytes(convert_to_HWC(make_np(tensor), dataformats))
    return Summary(value=[Summary.Value(tag=tag, image=make_image(pixels, rescale=rescale))])


def image_boxes(
    tag: str, tensor_image: Any, tensor_boxes: Any, rescale: float = 1, dataformats: str = "CHW", labels: Any = None
) -> Summary:
    """One image with boxes drawn into it.

    Args:
        tag: the tag.
        tensor_image: as in :func:`image`.
        tensor_boxes: ``(N, 4)``: x and y of a corner, then of the opposite one.
        rescale, dataformats: as in :func:`image`.
        labels: one for each box, or None.
    Returns: a ``Summary``.
    Source: torch.utils.tensorboard.summary.image_boxes.
    Example:
        >>> image_boxes("cat", torch.zeros(3, 20, 30), torch.tensor([[2, 2, 9, 9]])).value[0].image.height
        20
    """
    pixels = _bytes(convert_to_HWC(make_np(tensor_image), dataformats))
    drawn = make_image(pixels, rescale=rescale, rois=make_np(tensor_boxes), labels=labels)
    return Summary(value=[Summary.Value(tag=tag, image=drawn)])


def draw_boxes(disp_image: Any, boxes: np.ndarray, labels: Any = None) -> Any:
    """Red frames, with a label at the lower left corner of each, drawn into an image of Pillow's.

    Args:
        disp_image: the image.
        boxes: ``(N, 4)``: x and y of a corner, then of the opposite one.
        labels: one for each box, or None.
    Returns: the same image.
    Source: torch.utils.tensorboard.summary.draw_boxes.
    Example:
        >>> from PIL import Image
        >>> draw_boxes(Image.new("RGB", (8, 8)), np.array([[1, 1, 5, 5]])).getpixel((1, 3))
        (255, 0, 0)
    """
    for number, (x1, y1, x2, y2) in enumerate(boxes):
        _draw_single_box(disp_image, x1, y1, x2, y2, None if labels is None else labels[number], color="Red")
    return disp_image


def _draw_single_box(
    image: Any,
    xmin: float,
    ymin: float,
    xmax: float,
    ymax: float,
    display_str: str | None,
    color: str = "black",
    color_text: str = "black",
    thickness: int = 2,
) -> Any:
    """One frame with a label on its own colour, drawn into an image of Pillow's."""
    from PIL import ImageDraw, ImageFont

    pen = ImageDraw.Draw(image)
    pen.line([(xmin, ymin), (xmin, ymax), (xmax, ymax), (xmax, ymin), (xmin, ymin)], width=thickness, fill=color)
    if display_str:
        font = ImageFont.load_default()
        left, top, right, bottom = font.getbbox(display_str)
        width, height = right - left, bottom - top
        margin = np.ceil(0.05 * height)
        pen.rectangle([(xmin, ymax - height - 2 * margin), (xmin + width, ymax)], fill=color)
        pen.text((xmin + margin, ymax - height - margin), display_str, fill=color_text, font=font)
    return image


def make_image(tensor: np.ndarray, rescale: float = 1, rois: np.ndarray | None = None, labels: Any = None) -> Any:
    """Pixels as the message of an image.

    Args:
        tensor: ``(H, W, C)``, uint8.
        rescale: factor of height and width.
        rois, labels: boxes to draw, as in :func:`draw_boxes`; none when None.
    Returns: a ``Summary.Image``.
    Source: torch.utils.tensorboard.summary.make_image.
    Example:
        >>> make_image(np.zeros((4, 6, 3), np.uint8)).width
        6
    """
    from PIL import Image

    height, width, channels = tensor.shape
    picture = Image.fromarray(tensor)
    if rois is not None:
        picture = draw_boxes(picture, rois, labels)
    picture = picture.resize((int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS)
    png = io.BytesIO()
    picture.save(png, format="PNG")
    return Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=png.getvalue())


def video(tag: str, tensor: Any, fps: float = 4) -> Summary:
    """Videos side by side as one moving picture.

    Args:
        tag: the tag.
        tensor: ``(N, T, C, H, W)``: uint8 in [0, 255], or floating point in [0, 1].
        fps: frames a second.
    Returns: a ``Summary``.
    Source: torch.utils.tensorboard.summary.video.
    Example:
        >>> video("film", torch.zeros(1, 2, 3, 8, 8)).value[0].image.width
        8
    """
    return Summary(value=[Summary.Value(tag=tag, image=make_video(_bytes(_prepare_video(make_np(tensor))), fps))])


def make_video(tensor: np.ndarray, fps: float) -> Any:
    """Frames ``(T, H, W, C)`` of uint8 as a GIF, written by Pillow, that starts again at its end.

    Args:
        tensor: the frames; of one or three channels.
        fps: frames a second. GIF counts in hundredths of a second.
    Returns: a ``Summary.Image``.
    Source: torch.utils.tensorboard.summary.make_video, which needs moviepy.
    Example:
        >>> make_video(np.zeros((2, 8, 8, 3), np.uint8), fps=4).encoded_image_string[:6]
        b'GIF89a'
    """
    from PIL import Image

    _, height, width, channels = tensor.shape
    frames = [Image.fromarray(frame[:, :, 0] if channels == 1 else frame) for frame in tensor]
    gif = io.BytesIO()
    frames[0].save(gif, format="GIF", save_all=True, append_images=frames[1:], duration=1000 / fps, loop=0)
    return Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=gif.getvalue())


# -- sound and text ---------------------------------------------------------------------------------------------------------
def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Summary:
    """Sound of one channel as WAV with 16 bits a sample.

    Args:
        tag: the tag.
        tensor: ``(L,)`` or ``(1, L)`` in [-1, 1]; what lies outside is clipped, with a line on standard output.
        sample_rate: Hz.
    Returns: a ``Summary``.
    Raises:
        AssertionError: more than one channel.
    Source: torch.utils.tensorboard.summary.audio.
    Example:
        >>> audio("silence", torch.zeros(1, 100)).value[0].audio.length_frames
        100
    """
    samples = make_np(tensor).squeeze()
    if abs(samples).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        samples = samples.clip(-1, 1)
    if samples.ndim != 1:
        raise AssertionError(f"input tensor should be 1 dimensional, got {samples.ndim} dimensions")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, sample_rate, len(samples), "NONE", "not compressed"))
        writer.writeframes((samples * np.iinfo(np.int16).max).astype("<i2").tobytes())
    message = Summary.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=len(samples), encoded_audio_string=file.getvalue(), content_type="audio/wav"
    )
    return Summary(value=[Summary.Value(tag=tag, audio=message)])


def text(tag: str, text: str) -> Summary:
    """Text, which TensorBoard shows as Markdown.

    Args:
        tag: the tag.
        text: the text.
    Returns: a ``Summary``.
    Source: torch.utils.tensorboard.summary.text.
    Example:
        >>> text("notes", "**bold**").value[0].tag
        'notes/text_summary'
    """
    message = TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=_shape([1]))
    metadata = _metadata("text", TextPluginData(version=0).SerializeToString())
    return Summary(value=[Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=message)])


# -- charts -----------------------------------------------------------------------------------------------------------------
def custom_scalars(layout: dict[str, dict[str, list[Any]]]) -> Summary:
    """Summary of the curves that TensorBoard draws together.

    Args:
        layout: from categories to charts, from a chart to ``["Multiline", tags]`` or ``["Margin", [value, lower, upper]]``.
    Returns: a ``Summary``.
    Raises:
        AssertionError: a margin chart with another number of tags than three.
    Source: torch.utils.tensorboard.summary.custom_scalars.
    Example:
        >>> custom_scalars({"training": {"losses": ["Multiline", ["train", "test"]]}}).value[0].tag
        'custom_scalars__config__'
    """

    def chart(title: str, kind: str, tags: list[str]) -> Any:
        if kind != "Margin":
            return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))
        if len(tags) != 3:
            raise AssertionError(f"a margin chart has a value, a lower and an upper limit: expected 3 tags, got {len(tags)}")
        series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
        return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))

    categories = [
        layout_pb2.Category(title=category, chart=[chart(title, kind, tags) for title, (kind, tags, *_) in charts.items()])
        for category, charts in layout.items()
    ]
    content = layout_pb2.Layout(category=categories).SerializeToString()
    message = TensorProto(dtype="DT_STRING", string_val=[content], tensor_shape=TensorShapeProto())
    return Summary(value=[Summary.Value(tag="custom_scalars__config__", tensor=message, metadata=_metadata("custom_scalars"))])


def pr_curve_raw(
    tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any, num_thresholds: int = MOST_THRESHOLDS, weights: Any = None
) -> Summary:
    """A curve of precision and recall whose values are known for each threshold.

    Args:
        tag: the tag.
        tp, fp, tn, fn: true and false positives and negatives at each threshold.
        precision, recall: at each threshold.
        num_thresholds: how many there are; 127 at most, as TensorBoard reads no more.
        weights: not looked at, as in PyTorch.
    Returns: a ``Summary``.
    Source: torch.utils.tensorboard.summary.pr_curve_raw.
    Example:
        >>> counts = np.ones(3)
        >>> list(pr_curve_raw("cats", *[counts] * 6, num_thresholds=3).value[0].tensor.float_val)[:3]
        [1.0, 1.0, 1.0]
    """
    return _curve_summary(tag, np.stack((tp, fp, tn, fn, precision, recall)), min(num_thresholds, MOST_THRESHOLDS))


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int = MOST_THRESHOLDS, weights: Any = None) -> Summary:
    """The curve of precision and recall of predicted probabilities.

    Args:
        tag: the tag.
        labels, predictions, weights: as in :func:`compute_curve`.
        num_thresholds: how many thresholds; 127 at most.
    Returns: a ``Summary``.
    Source: torch.utils.tensorboard.summary.pr_curve.
    Example:
        >>> pr_curve("cats", np.array([1, 0]), np.array([0.9, 0.2])).value[0].metadata.plugin_data.plugin_name
        'pr_curves'
    """
    num_thresholds = min(num_thresholds, MOST_THRESHOLDS)
    return _curve_summary(tag, compute_curve(labels, predictions, num_thresholds, weights), num_thresholds)


def _curve_summary(tag: str, data: np.ndarray, num_thresholds: int) -> Summary:
    content = PrCurvePluginData(version=0, num_thresholds=num_thresholds).SerializeToString()
    message = TensorProto(dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(data.shape))
    return Summary(value=[Summary.Value(tag=tag, metadata=_metadata("pr_curves", content), tensor=message)])


def compute_curve(labels: np.ndarray, predictions: np.ndarray, num_thresholds: int, weights: Any = None) -> np.ndarray:
    """Counts, precision and recall at evenly spaced thresholds from 0 to 1.

    Args:
        labels: 1 or True where the truth is positive.
        predictions: probabilities of that, the same shape.
        num_thresholds: how many thresholds.
        weights: of each prediction.
    Returns:
        ``(6, num_thresholds)``: true positives, false positives, true negatives, false negatives, precision, recall.
    Source: torch.utils.tensorboard.summary.compute_curve.
    Example:
        >>> compute_curve(np.array([1, 0]), np.array([1.0, 0.0]), num_thresholds=2)[:2].tolist()
        [[1.0, 1.0], [1.0, 0.0]]
    """
    weights = 1.0 if weights is None else weights
    positive = labels.astype(np.float64)
    places = np.floor(predictions * (num_thresholds - 1)).astype(np.int32)

    def at_or_above(share: Any) -> np.ndarray:
        counts, _ = np.histogram(places, bins=num_thresholds, range=(0, num_thresholds - 1), weights=share)
        return np.cumsum(counts[::-1])[::-1]

    tp, fp = at_or_above(positive * weights), at_or_above((1.0 - positive) * weights)
    tn, fn = fp[0] - fp, tp[0] - tp
    smallest = 1e-7  # where nothing is counted, 0 / smallest is 0
    return np.stack((tp, fp, tn, fn, tp / np.maximum(smallest, tp + fp), tp / np.maximum(smallest, tp + fn)))


def hparams(
    hparam_dict: Any = None, metric_dict: Any = None, hparam_domain_discrete: dict[str, list[Any]] | None = None
) -> tuple[Summary, Summary, Summary]:
    """A run's hyperparameters and the names of its measures, for TensorBoard to compare runs by.

    Args:
        hparam_dict: from names to numbers, strings, bools, tensors of one element, or None, which is left out.
        metric_dict: from names to values, whose names alone are taken.
        hparam_domain_discrete: from names to all values that the parameter may have.
    Returns:
        The experiment, the start and the end of the session.
    Raises:
        TypeError: no dictionary, or values of another type than the parameter's.
        ValueError: a value of another kind.
    Source: torch.utils.tensorboard.summary.hparams.
    Example:
        >>> experiment, start, end = hparams({"lr": 0.1}, {"accuracy": 0.9})
        >>> start.value[0].tag
        '_hparams_/session_start_info'
    """
    from google.protobuf.struct_pb2 import ListValue, Value
    from tensorboard.plugins.hparams import api_pb2 as api, metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

    domains = hparam_domain_discrete or {}
    for name, argument in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict), ("hparam_domain_discrete", domains)):
        if not isinstance(argument, dict):
            logger.warning("parameter: %s should be a dictionary, nothing logged.", name)
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    for name, choices in domains.items():
        kind = type(hparam_dict[name]) if name in hparam_dict else None
        if kind is None or not isinstance(choices, list) or not all(isinstance(choice, kind) for choice in choices):
            raise TypeError(f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}].")

    session, infos = SessionStartInfo(), []
    for name, value in hparam_dict.items():
        if value is None:
            continue
        allowed = domains.get(name)
        if isinstance(value, Tensor):
            value, allowed = make_np(value).reshape(-1)[0], None
        elif not isinstance(value, (int, float, str)):
            raise ValueError(f"value should be one of int, float, str, bool, or torch.Tensor: {name} is {type(value).__name__}")
        field, data_type = ("string_value", "DATA_TYPE_STRING") if isinstance(value, str) else ("number_value", "DATA_TYPE_FLOAT64")
        session.hparams[name].CopyFrom(Value(**{field: value}))
        domain = None if allowed is None else ListValue(values=[Value(**{field: choice}) for choice in allowed])
        infos.append(api.HParamInfo(name=name, type=api.DataType.Value(data_type), domain_discrete=domain))

    def part(tag: str, **content: Any) -> Summary:
        message = HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content).SerializeToString()
        return Summary(value=[Summary.Value(tag=tag, metadata=_metadata(metadata.PLUGIN_NAME, message))])

    measures = [api.MetricInfo(name=api.MetricName(tag=name)) for name in metric_dict]
    return (
        part(metadata.EXPERIMENT_TAG, experiment=api.Experiment(hparam_infos=infos, metric_infos=measures)),
        part(metadata.SESSION_START_INFO_TAG, session_start_info=session),
        part(metadata.SESSION_END_INFO_TAG, session_end_info=SessionEndInfo(status=api.Status.Value("STATUS_SUCCESS"))),
    )


# -- meshes -----------------------------------------------------------------------------------------------------------------
def mesh(
    tag: str,
    vertices: Any,
    colors: Any,
    faces: Any,
    config_dict: dict[str, Any] | None,
    display_name: str | None = None,
    description: str | None = None,
) -> Summary:
    """Points and triangles in space.

    Args:
        tag: the tag.
        vertices: ``(B, N, 3)``: coordinates.
        colors: ``(B, N, 3)`` in [0, 255], or None.
        faces: ``(B, M, 3)``: the three vertices of each triangle, or None for a cloud of points.
        config_dict: classes and settings of THREE.js, such as those of the camera.
        display_name: shown instead of ``tag``.
        description: Markdown.
    Returns: a ``Summary``.
    Raises:
        ValueError: another number of dimensions.
    Source: torch.utils.tensorboard.summary.mesh.
    Example:
        >>> mesh("cube", torch.zeros(1, 8, 3), None, None, None).value[0].tag
        'cube_VERTEX'
    """
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    kinds = ((vertices, MeshPluginData.VERTEX), (faces, MeshPluginData.FACE), (colors, MeshPluginData.COLOR))
    parts = [(make_np(value) if isinstance(value, Tensor) else np.asarray(value), kind) for value, kind in kinds if value is not None]
    components = metadata.get_components_bitmask([kind for _, kind in parts])
    config = "{}" if config_dict is None else json.dumps(config_dict, sort_keys=True)

    def values() -> Iterator[Summary.Value]:
        for array, kind in parts:
            if array.ndim != 3:
                raise ValueError(f"add_mesh: expected tensors of shape (B, N, 3), got {array.shape}")
            about = metadata.create_summary_metadata(
                tag, display_name, kind, components, list(array.shape), description, json_config=config
            )
            message = TensorProto(dtype="DT_FLOAT", float_val=array.reshape(-1).tolist(), tensor_shape=_shape(array.shape))
            yield Summary.Value(tag=metadata.get_instance_name(tag, kind), tensor=message, metadata=about)

    return Summary(value=list(values()))
