"""``python -m torch.distributed.launch``: the old form of ``torchrun``, which passes ``--local-rank`` to the program.

Source: torch.distributed.launch.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence

from .run import get_args_parser, run

__all__ = ["launch", "main", "parse_args"]


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Read a command line.

    Args:
        args: its words; this process's when None.
    Returns: a ``Namespace``.
    Source: torch.distributed.launch.parse_args.
    Example:
        >>> parse_args(["--use-env", "train.py"]).use_env
        True
    """
    parser = get_args_parser()
    parser.add_argument("--use-env", "--use_env", action="store_true", help="do not pass --local-rank: LOCAL_RANK has it")
    return parser.parse_args(args)


def launch(args: argparse.Namespace) -> None:
    """Run what a command line asks for.

    Args:
        args: from ``parse_args``.
    Raises:
        ValueError: ``--no-python`` without ``--use-env``.
    Source: torch.distributed.launch.launch.
    Example:
        >>> launch(parse_args(["--use-env", "--rdzv-backend", "c10d", "--no-python", "/bin/true"]))
    """
    if args.no_python and not args.use_env:
        raise ValueError("When using the '--no-python' flag, you must also set the '--use-env' flag.")
    run(args)


def main(args: Sequence[str] | None = None) -> None:
    """The old launcher, with a warning that it is old.

    Args:
        args: the command line; this process's when None.
    Source: torch.distributed.launch.main.
    Example:
        >>> main(["--use-env", "--rdzv-backend", "c10d", "--no-python", "/bin/true"])
    """
    warnings.warn(
        "The module torch.distributed.launch is deprecated\nand will be removed in future. Use torchrun.\n"
        "Note that --use-env is set by default in torchrun.\nIf your script expects `--local-rank` argument to be set, please\n"
        "change it to read from `os.environ['LOCAL_RANK']` instead.",
        FutureWarning,
        stacklevel=2,
    )
    launch(parse_args(args))


if __name__ == "__main__":
    main()
