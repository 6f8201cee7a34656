"""Files of MATLAB's, by SciPy."""

from __future__ import annotations

import os
import zlib
from typing import Any


def read_mat(path: str | os.PathLike[str], squeeze_me: bool = False) -> Any:
    """The variables of a file, by name.

    Args:
        path: of the file.
        squeeze_me: leave out dimensions of size 1.
    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it is damaged.
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        return loadmat(path, squeeze_me=squeeze_me)
    except FileNotFoundError:
        raise
    except (MatReadError, OSError, zlib.error, ValueError, TypeError, NotImplementedError) as error:
        raise RuntimeError(f"{os.fspath(path)} is damaged, or no file of MATLAB's: {error}") from error
