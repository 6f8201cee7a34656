"""Tensors in a notebook: a table for small ones of one or two dimensions, the printed text for the rest."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from ..tensor import Parameter, Tensor
from .printing import _array_of, _as_doubles, _formatter_of, _zero_of, tensor_repr

MOST_ROWS, MOST_COLUMNS = 20, 12
CELL = "text-align:right;font-family:monospace"


def tensor_html(tensor: Any) -> str | None:
    """HTML of a tensor: a line with shape, dtype and what is out of the ordinary, and the elements.

    Args:
        tensor: the tensor.
    Returns:
        None for subclasses, which a notebook then shows as it shows anything else.
    """
    if type(tensor) not in (Tensor, Parameter):
        return None
    is_strided = str(tensor.layout) == "torch.strided" and tensor.device.type != "meta"
    if not is_strided or tensor.ndim not in (1, 2) or not tensor.numel() or tensor.is_quantized:
        return f"{_about(tensor)}<pre>{html.escape(tensor_repr(tensor))}</pre>"
    array = _array_of(tensor)
    return _about(tensor) + _table(array if array.ndim == 2 else array[None], is_row=array.ndim == 1)


def _about(tensor: Any) -> str:
    words = [type(tensor).__name__, " × ".join(map(str, tensor.shape)) or "scalar", str(tensor.dtype)]
    if tensor.device.type != "cpu":
        words.append(str(tensor.device))
    if tensor.requires_grad:
        words.append("requires_grad")
    return f"<div><b>{words[0]}</b> {html.escape(', '.join(words[1:]))}</div>"


def _shown(size: int, most: int) -> list[int | None]:
    """Rows or columns that are shown; None stands for those left out."""
    if size <= most:
        return list(range(size))
    return [*range(most // 2), None, *range(size - most // 2, size)]


def _table(array: np.ndarray, is_row: bool) -> str:
    rows, columns = _shown(array.shape[0], MOST_ROWS), _shown(array.shape[1], MOST_COLUMNS)
    kept = array[np.ix_([row for row in rows if row is not None], [column for column in columns if column is not None])]
    values = _as_doubles(kept)
    formatter = _formatter_of(values, _zero_of(array.dtype))
    texts = iter([[formatter.text(value) for value in row] for row in values.tolist()])
    head = "".join(f"<th>{'…' if column is None else column}</th>" for column in columns)
    lines = ["" if is_row else f"<tr><th></th>{head}</tr>"]
    for row in rows:
        cells = [""] * len(columns) if row is None else _cells(next(texts), columns)
        name = "" if is_row else f"<th>{'…' if row is None else row}</th>"
        lines.append(f"<tr>{name}" + "".join(f"<td style='{CELL}'>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def _cells(texts: list[str], columns: list[int | None]) -> list[str]:
    numbers = iter(texts)
    return ["…" if column is None else next(numbers).strip() for column in columns]
