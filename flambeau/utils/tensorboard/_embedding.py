"""The files that TensorBoard's projector reads: vectors, labels, and one picture with a small image for each vector."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from tensorboard.compat.tensorflow_stub.io import gfile
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo

from ._convert_np import make_np
from ._utils import make_grid


def _join(folder: str, name: str) -> str:
    """A path below a folder, which may lie in a storage of the cloud."""
    return gfile.get_filesystem(folder).join(folder, name)


def _write(folder: str, name: str, content: bytes) -> None:
    with gfile.GFile(_join(folder, name), "wb") as file:
        file.write(content)


def make_tsv(metadata: Sequence[Any], save_path: str, metadata_header: Sequence[Any] | None = None) -> None:
    """Write ``metadata.tsv``: a line for each label, with the columns of ``metadata_header`` above them where it is given.

    Raises:
        AssertionError: a label has another number of columns than the header.
    Source: torch.utils.tensorboard._embedding.make_tsv.
    """
    if metadata_header:
        if len(metadata_header) != len(metadata[0]):
            raise AssertionError(
                f"len of header must be equal to the number of columns in metadata: {len(metadata_header)} != {len(metadata[0])}"
            )
        lines = ["\t".join(map(str, row)) for row in (metadata_header, *metadata)]
    else:
        lines = [str(label) for label in metadata]
    _write(save_path, "metadata.tsv", ("\n".join(lines) + "\n").encode())


def make_sprite(label_img: Any, save_path: str) -> None:
    """Write ``sprite.png``: the images ``(N, C, H, W)`` in [0, 1] on a square grid.

    Source: torch.utils.tensorboard._embedding.make_sprite.
    """
    from PIL import Image

    grid = make_grid(make_np(label_img), ncols=math.ceil(len(label_img) ** 0.5)).transpose(1, 2, 0)
    side = grid.shape[1]
    square = np.zeros((side, side, 3))  # the projector takes as many rows as columns
    square[: grid.shape[0]] = grid
    png = io.BytesIO()
    Image.fromarray((square * 255).clip(0, 255).astype(np.uint8)).save(png, format="PNG")
    _write(save_path, "sprite.png", png.getvalue())


def make_mat(matlist: Iterable[Any], save_path: str) -> None:
    """Write ``tensors.tsv``: a line for each vector. Source: torch.utils.tensorboard._embedding.make_mat."""
    lines = ["\t".join(str(value.item()) for value in row) + "\n" for row in matlist]
    _write(save_path, "tensors.tsv", "".join(lines).encode())


def get_embedding_info(metadata: Any, label_img: Any, subdir: str, global_step: Any, tag: str) -> EmbeddingInfo:
    """The projector's configuration for one embedding. Source: torch.utils.tensorboard._embedding.get_embedding_info."""
    info = EmbeddingInfo(tensor_name=f"{tag}:{str(global_step).zfill(5)}", tensor_path=_join(subdir, "tensors.tsv"))
    if metadata is not None:
        info.metadata_path = _join(subdir, "metadata.tsv")
    if label_img is not None:
        info.sprite.image_path = _join(subdir, "sprite.png")
        info.sprite.single_image_dim.extend([label_img.shape[3], label_img.shape[2]])
    return info


def write_pbtxt(save_path: str, contents: str) -> None:
    """Write ``projector_config.pbtxt``. Source: torch.utils.tensorboard._embedding.write_pbtxt."""
    _write(save_path, "projector_config.pbtxt", contents.encode())
