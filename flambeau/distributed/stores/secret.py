"""The secret by which the processes of a job know each other, and the exchange that proves it.

Which secret: the variable ``FLAMBEAU_STORE_SECRET``, which the launcher sets anew for each job and processes hand on to what they start.
Where it is not set (processes started by hand, by ``mp.spawn`` or another launcher), the secret is the content of a file that only this
user can read, made when it is first needed: so a user's own processes meet, on one machine or with a shared home, and nobody else's join
them. Processes on machines that share no home need the variable.

Neither side sends the secret. Each sends a random challenge and proves by an HMAC over both challenges that it knows it:

    client                                    server
    HELLO, challenge                  -->
                                      <--     WELCOME, challenge, proof("server")
    proof("client")                   -->
                                      <--     one byte: yes or no
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile
from pathlib import Path

__all__ = ["CHALLENGE", "HELLO", "NO", "PROOF", "VARIABLE", "WELCOME", "YES", "derive", "job_secret", "of_text", "proof", "proves"]

VARIABLE = "FLAMBEAU_STORE_SECRET"
HELLO, WELCOME = b"flambeau-store-1", b"flambeau-stored1"
CHALLENGE = PROOF = 32  # bytes
YES, NO = b"\x01", b"\x00"


def job_secret() -> bytes:
    """This job's secret: the environment's, or this user's."""
    told = os.environ.get(VARIABLE)
    return of_text(told) if told else _users_secret()


def of_text(text: str) -> bytes:
    """The secret that a variable's value stands for."""
    return hashlib.sha256(text.encode()).digest()


def derive(secret: bytes, purpose: str) -> str:
    """A variable's value for another secret: who knows this one can compute it, and it does not tell this one."""
    return hmac.digest(secret, purpose.encode(), "sha256").hex()


def proof(secret: bytes, side: bytes, first: bytes, second: bytes) -> bytes:
    """The bytes that a side sends to show that it knows the secret. The side's name keeps one from sending the other's proof back."""
    return hmac.digest(secret, side + first + second, "sha256")


def proves(given: bytes, secret: bytes, side: bytes, first: bytes, second: bytes) -> bool:
    return hmac.compare_digest(given, proof(secret, side, first, second))


def _folders() -> list[Path]:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    uid = os.getuid() if hasattr(os, "getuid") else "user"
    return [Path(home) / "flambeau", Path(tempfile.gettempdir()) / f"flambeau-{uid}"]


def _users_secret() -> bytes:
    """The content of this user's file, which is made where there is none."""
    problems = []
    for folder in _folders():
        try:
            return _read_or_make(folder)
        except OSError as error:
            problems.append(str(error))
    raise RuntimeError(
        f"no place for this user's secret ({'; '.join(problems)}); set {VARIABLE} to the same long random string in all processes"
    )


def _read_or_make(folder: Path) -> bytes:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "store-secret"
    if not path.exists():
        # Written whole under another name first: of processes that start together one wins, and all read that one's.
        draft = folder / f"store-secret-{secrets.token_hex(8)}"
        draft.touch(mode=0o600)
        draft.write_bytes(secrets.token_bytes(32))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    state = path.stat()
    if hasattr(os, "getuid") and (state.st_uid != os.getuid() or state.st_mode & 0o077):
        raise PermissionError(f"{path} can be read or written by others: remove it")
    return path.read_bytes()
