"""Writers of event files. Source: torch.utils.tensorboard.writer."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate, repeat, takewhile
from operator import mul
from types import TracebackType
from typing import TYPE_CHECKING, Any

from google.protobuf import text_format
from tensorboard.compat.proto.event_pb2 import Event, SessionLog, TaggedRunMetadata
from tensorboard.compat.tensorflow_stub.io import gfile
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from . import summary as summaries
from ._convert_np import make_np
from ._embedding import get_embedding_info, make_mat, make_sprite, make_tsv, write_pbtxt
from ._onnx_graph import load_onnx_graph
from ._pytorch_graph import graph
from ._utils import figure_to_image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes events to one file of a folder; a thread of its own does the writing.

    Args:
        log_dir: folder of the file; made where it is missing.
        max_queue: how many events wait at most before an ``add_*`` call waits for the file.
        flush_secs: seconds after which what waits is written.
        filename_suffix: end of the file's name.

    Source: torch.utils.tensorboard.FileWriter.
    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     writer = FileWriter(folder)
        ...     writer.add_summary(summaries.scalar("loss", 0.5), 1)
        ...     writer.close()
    """

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = "") -> None:
        self._options = (str(log_dir), max_queue, flush_secs, filename_suffix)
        self._is_closed = False
        self.event_writer = EventFileWriter(*self._options)

    def get_logdir(self) -> str:
        """The folder of the file. Source: torch.utils.tensorboard.FileWriter.get_logdir."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an ``Event`` at a step.

        Args:
            event: the message; its time is set.
            step: anything that ``int`` takes; left as it is when None.
            walltime: seconds since 1970; the present when None.
        Source: torch.utils.tensorboard.FileWriter.add_event.
        """
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Write a ``Summary``. Source: torch.utils.tensorboard.FileWriter.add_summary."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: tuple[Any, Any], walltime: float | None = None) -> None:
        """Write a ``GraphDef`` and the ``RunMetadata`` beside it. Source: torch.utils.tensorboard.FileWriter.add_graph."""
        definition, run = graph_profile
        self.add_onnx_graph(definition, walltime)
        metadata = TaggedRunMetadata(tag="step1", run_metadata=run.SerializeToString())
        self.add_event(Event(tagged_run_metadata=metadata), None, walltime)

    def add_onnx_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Write a ``GraphDef``. Source: torch.utils.tensorboard.FileWriter.add_onnx_graph."""
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Have what waits written. Source: torch.utils.tensorboard.FileWriter.flush."""
        self.event_writer.flush()

    def close(self) -> None:
        """Have what waits written, and end the file. Source: torch.utils.tensorboard.FileWriter.close."""
        self.event_writer.close()
        self._is_closed = True

    def reopen(self) -> None:
        """Begin a new file in the same folder, where the last one was closed. Source: torch.utils.tensorboard.FileWriter.reopen."""
        if self._is_closed:
            self.event_writer = EventFileWriter(*self._options)
            self._is_closed = False


class SummaryWriter:
    """Writes what a training run reports to event files, which TensorBoard shows while they grow.

    Values are tensors, arrays or numbers. ``global_step`` is the place on the horizontal axis, ``walltime`` seconds since 1970 (the present
    when None). A tag with slashes lies in groups.

    Args:
        log_dir: folder of the files; ``runs/<date>_<host><comment>`` when None.
        comment: end of the folder's name where ``log_dir`` is not given.
        purge_step: what an earlier run wrote into the folder from this step on is hidden.
        max_queue: how many events wait at most before a call waits for the file.
        flush_secs: seconds after which what waits is written.
        filename_suffix: end of the files' names.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from flambeau.utils.tensorboard import SummaryWriter
        >>> with TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     for step in range(3):
        ...         writer.add_scalar("loss", torch.tensor(1.0) / (step + 1), step)

    Source: torch.utils.tensorboard.SummaryWriter.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            log_dir = os.path.join("runs", f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step, self.max_queue = log_dir, purge_step, max_queue
        self.flush_secs, self.filename_suffix = flush_secs, filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._projector_config = ProjectorConfig()
        self._get_file_writer()
        upwards = list(takewhile(lambda limit: limit < 1e20, accumulate(repeat(1.1), mul, initial=1e-12)))
        self.default_bins = [*(-limit for limit in reversed(upwards)), 0, *upwards]

    def _get_file_writer(self) -> FileWriter:
        """The writer of ``log_dir``; a new one after ``close``."""
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                self.file_writer.add_event(Event(step=self.purge_step, file_version="brain.Event:2"))
                self.file_writer.add_event(Event(step=self.purge_step, session_log=SessionLog(status=SessionLog.START)))
                self.purge_step = None
        return self.file_writer

    def _add(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def get_logdir(self) -> Any:
        """The folder of the files. Source: torch.utils.tensorboard.SummaryWriter.get_logdir."""
        return self.log_dir

    # -- numbers ------------------------------------------------------------------------------------------------------------
    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number of a curve.

        Args:
            tag: the curve.
            scalar_value: number, or tensor of one element.
            global_step, walltime: see the class.
            new_style: as a tensor, which TensorBoard reads faster.
            double_precision: float64; only with ``new_style``.
        Raises:
            AssertionError: more than one element.
        Source: torch.utils.tensorboard.SummaryWriter.add_scalar.
        """
        self._add(summaries.scalar(tag, scalar_value, None, new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Any = None, walltime: float | None = None) -> None:
        """A number for each of several curves in one plot; each curve has a file in a folder of its own, as TensorBoard wants it.

        Args:
            main_tag: the plot.
            tag_scalar_dict: from curves to numbers.
            global_step, walltime: see the class.
        Source: torch.utils.tensorboard.SummaryWriter.add_scalars.
        """
        walltime = time.time() if walltime is None else walltime
        folder = f"{self._get_file_writer().get_logdir()}/{main_tag.replace('/', '_')}"
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            curve = f"{folder}_{tag}"
            if curve not in self.all_writers:
                self.all_writers[curve] = FileWriter(curve, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[curve].add_summary(summaries.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """A whole tensor. Raises ValueError for dtypes that messages do not know.

        Source: torch.utils.tensorboard.SummaryWriter.add_tensor.
        """
        self._add(summaries.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write a histogram of values.

        Args:
            tag: the histogram.
            values: any shape, not empty.
            global_step, walltime: see the class.
            bins: ``"tensorflow"`` (limits that grow by a tenth, on both sides of 0), or what ``numpy.histogram`` takes.
            max_bins: neighbouring buckets are joined until there are about as many.
        Raises:
            ValueError: no values.
        Source: torch.utils.tensorboard.SummaryWriter.add_histogram.
        """
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        self._add(summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A histogram whose counts are known.

        Args:
            tag: the histogram.
            min, max, num, sum, sum_squares: of the values.
            bucket_limits: upper limit of each bucket, as many as ``bucket_counts``.
            bucket_counts: values in each bucket.
            global_step, walltime: see the class.
        Raises:
            ValueError: not as many limits as counts.
        Source: torch.utils.tensorboard.SummaryWriter.add_histogram_raw.
        """
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        message = summaries.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(message, global_step, walltime)

    # -- pictures -----------------------------------------------------------------------------------------------------------
    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None, dataformats: str = "CHW"
    ) -> None:
        """One image.

        Args:
            tag: the image.
            img_tensor: uint8 in [0, 255], anything else in [0, 1]; what lies outside is clipped.
            global_step, walltime: see the class.
            dataformats: the dimensions' order: ``CHW``, ``HWC``, ``HW``, ``WH``, ``NCHW`` (a grid), ...
        Raises:
            AssertionError: another number of dimensions.
        Source: torch.utils.tensorboard.SummaryWriter.add_image.
        """
        self._add(summaries.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None, dataformats: str = "NCHW"
    ) -> None:
        """A batch of images on a grid, eight in a row; arguments as in :meth:`add_image`.

        Source: torch.utils.tensorboard.SummaryWriter.add_images.
        """
        self._add(summaries.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: str | Sequence[str] | None = None,
    ) -> None:
        """One image with boxes drawn into it.

        Args:
            tag: the image.
            img_tensor: as in :meth:`add_image`.
            box_tensor: ``(N, 4)``: least x, least y, greatest x, greatest y, in pixels.
            global_step, walltime: see the class.
            rescale: factor of the picture's height and width.
            dataformats: the dimensions' order.
            labels: one for each box; left out where there are not as many.
        Source: torch.utils.tensorboard.SummaryWriter.add_image_with_boxes.
        """
        if isinstance(labels, str):
            labels = [labels]
        if labels is not None and len(labels) != box_tensor.shape[0]:
            labels = None
        message = summaries.image_boxes(tag, img_tensor, box_tensor, rescale=rescale, dataformats=dataformats, labels=labels)
        self._add(message, global_step, walltime)

    def add_figure(
        self, tag: str, figure: Figure | list[Figure], global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """A figure of matplotlib, or several of one size on a grid; closed afterwards if ``close``.

        Source: torch.utils.tensorboard.SummaryWriter.add_figure.
        """
        dataformats = "NCHW" if isinstance(figure, list) else "CHW"
        self.add_image(tag, figure_to_image(figure, close), global_step, walltime, dataformats)

    def add_video(self, tag: str, vid_tensor: Any, global_step: Any = None, fps: float = 4, walltime: float | None = None) -> None:
        """Videos ``(N, T, C, H, W)`` side by side as a GIF.

        Args:
            tag: the video.
            vid_tensor: uint8 in [0, 255], or floating point in [0, 1].
            global_step, walltime: see the class.
            fps: frames a second.
        Source: torch.utils.tensorboard.SummaryWriter.add_video, which writes nothing where moviepy is missing.
        """
        self._add(summaries.video(tag, vid_tensor, fps), global_step, walltime)

    # -- sound, text, models ------------------------------------------------------------------------------------------------
    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100, walltime: float | None = None
    ) -> None:
        """Sound of one channel.

        Args:
            tag: the sound.
            snd_tensor: ``(1, L)`` or ``(L,)`` in [-1, 1].
            global_step, walltime: see the class.
            sample_rate: Hz.
        Source: torch.utils.tensorboard.SummaryWriter.add_audio.
        """
        self._add(summaries.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """Text in Markdown. Source: torch.utils.tensorboard.SummaryWriter.add_text."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True) -> None:
        """The graph of a module: what one forward pass computes, by modules.

        Args:
            model: the module; it runs once, in evaluation mode, and is put back into the mode that it had.
            input_to_model: its argument, or a tuple of its arguments.
            verbose: print the graph.
            use_strict_trace: refuse a module that returns a list or a dictionary.
        Raises:
            RuntimeError: a list or a dictionary is returned, with ``use_strict_trace``.
        Source: torch.utils.tensorboard.SummaryWriter.add_graph, which shows the operations that ``torch.jit.trace`` records.
        """
        self._get_file_writer().add_graph(graph(model, input_to_model, verbose, use_strict_trace))

    def add_onnx_graph(self, prototxt: Any) -> None:
        """The graph of an ONNX file, read by the onnx package. Source: torch.utils.tensorboard.SummaryWriter.add_onnx_graph."""
        self._get_file_writer().add_onnx_graph(load_onnx_graph(prototxt))

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Vectors for TensorBoard's projector.

        Args:
            mat: ``(N, D)``: a vector in each row.
            metadata: a label for each vector; with ``metadata_header``, a row of values for each.
            label_img: ``(N, C, H, W)``: a small image for each vector.
            global_step: see the class; 0 when None.
            tag: the set of vectors.
            metadata_header: names of the columns of ``metadata``.
        Raises:
            AssertionError: another number of labels or images than of vectors; ``mat`` has not two dimensions.
            NotADirectoryError: a file lies where the folder should be.
        Source: torch.utils.tensorboard.SummaryWriter.add_embedding.
        """
        mat = make_np(mat)
        step = 0 if global_step is None else global_step
        folder = f"{str(step).zfill(5)}/{self._encode(tag)}"
        log_dir = self._get_file_writer().get_logdir()
        path = os.path.join(log_dir, folder)
        if not gfile.exists(path):
            gfile.makedirs(path)
        elif gfile.isdir(path):
            print("warning: Embedding dir exists, did you set global_step for add_embedding()?")
        else:
            raise NotADirectoryError(f"Path: `{path}` exists, but is a file. Cannot proceed.")
        for name, values in (("labels", metadata), ("images", label_img)):
            if values is not None and len(values) != mat.shape[0]:
                raise AssertionError(f"#{name} should equal with #data points: {len(values)} and {mat.shape[0]}")
        if mat.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        if metadata is not None:
            make_tsv(metadata, path, metadata_header)
        if label_img is not None:
            make_sprite(label_img, path)
        make_mat(mat, path)
        self._projector_config.embeddings.append(get_embedding_info(metadata, label_img, folder, step, tag))
        write_pbtxt(log_dir, text_format.MessageToString(self._projector_config))

    @staticmethod
    def _encode(rawstr: str) -> str:
        """A tag as the name of a folder."""
        return rawstr.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")

    # -- charts -------------------------------------------------------------------------------------------------------------
    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall at evenly spaced thresholds.

        Args:
            tag: the curve.
            labels: 1 or True where the truth is positive.
            predictions: probabilities of that, the same shape.
            global_step, walltime: see the class.
            num_thresholds: 127 at most.
            weights: of each prediction.
        Source: torch.utils.tensorboard.SummaryWriter.add_pr_curve.
        """
        message = summaries.pr_curve(tag, make_np(labels), make_np(predictions), num_thresholds, weights)
        self._add(message, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall that are known: arguments as in :func:`flambeau.utils.tensorboard.summary.pr_curve_raw`.

        Source: torch.utils.tensorboard.SummaryWriter.add_pr_curve_raw.
        """
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts, precision, recall)
        self._add(summaries.pr_curve_raw(tag, *counts, num_thresholds, weights), global_step, walltime)

    def add_custom_scalars_multilinechart(self, tags: list[str], category: str = "default", title: str = "untitled") -> None:
        """Have TensorBoard draw the curves ``tags`` in one chart.

        Source: torch.utils.tensorboard.SummaryWriter.add_custom_scalars_multilinechart.
        """
        self._add(summaries.custom_scalars({category: {title: ["Multiline", tags]}}))

    def add_custom_scalars_marginchart(self, tags: list[str], category: str = "default", title: str = "untitled") -> None:
        """Have TensorBoard draw a curve between two others: ``tags`` is the value, the lower and the upper limit.

        Source: torch.utils.tensorboard.SummaryWriter.add_custom_scalars_marginchart.
        """
        self._add(summaries.custom_scalars({category: {title: ["Margin", tags]}}))

    def add_custom_scalars(self, layout: dict[str, dict[str, list[Any]]]) -> None:
        """Choose the curves that TensorBoard draws together; the last layout counts.

        Args:
            layout: from categories to charts, from a chart to ``["Multiline", tags]`` or ``["Margin", [value, lower, upper]]``.
        Source: torch.utils.tensorboard.SummaryWriter.add_custom_scalars.
        """
        self._add(summaries.custom_scalars(layout))

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: dict[str, Any] | None = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Points and triangles in space: arguments as in :func:`flambeau.utils.tensorboard.summary.mesh`.

        Source: torch.utils.tensorboard.SummaryWriter.add_mesh.
        """
        self._add(summaries.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """A run's hyperparameters and what it reached with them, as a run of its own below ``log_dir``.

        Args:
            hparam_dict: from names to numbers, strings, bools, tensors of one element or None.
            metric_dict: from names to numbers; they are written as scalars.
            hparam_domain_discrete: from names to all values that a parameter may have.
            run_name: folder of the run; the time in seconds when None.
            global_step: see the class.
        Raises:
            TypeError: no dictionaries.
            ValueError: a value of another kind.
        Source: torch.utils.tensorboard.SummaryWriter.add_hparams.
        """
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        messages = summaries.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as run:
            for message in messages:
                run._add(message, global_step)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    # -- files --------------------------------------------------------------------------------------------------------------
    def flush(self) -> None:
        """Have what waits written. Source: torch.utils.tensorboard.SummaryWriter.flush."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Have what waits written, and end the files; what is added later begins new ones.

        Source: torch.utils.tensorboard.SummaryWriter.close.
        """
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
