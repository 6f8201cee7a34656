"""A few extreme eigenvalues of a large symmetric matrix by locally optimal block preconditioned conjugate gradients (LOBPCG).

Every step looks for the best eigenvectors in the space that three blocks of columns span:

    S = [ X | P | W ]    X the present approximation, P the last step's direction, W the preconditioned residual

'basic' forms the Gram matrix of S and needs its Cholesky factor (Knyazev 2001); 'ortho' keeps S orthonormal with respect to B, which costs
more in a step and does not break down where the blocks become dependent (Stathopoulos and Wu 2002; Duersch et al. 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...autograd.function import Function
from ...core import dtype as dtypes
from ...core.calls.annotations import Tensor
from ...core.calls.registry import composite, resolve
from .cholesky_factors import linalg_cholesky
from .decompositions import eigh, qr
from .linear_systems import solve, solve_triangular

_PRECISION = {dtypes.float32: 1.2e-07, dtypes.float64: 2.23e-16}


def _times(matrix: Any, columns: Any) -> Any:
    return columns if matrix is None else matrix @ columns


class LOBPCG:
    """The state of an iteration, as it is shown to ``tracker``.

    Attributes:
        A, B, iK: the matrices; None for the identity.
        iparams, fparams, bparams: the request: sizes, tolerances, choices.
        ivars, fvars, bvars, tvars: ``istep``, ``iterations_left``, ``converged_count``, ``converged_end`` (columns of S in use); norms;
            ``force_stop``, which a tracker may set; ``rerr``, the relative residuals.
        E, X, R, S: eigenvalues ``(n,)``, eigenvectors ``(m, n)``, residuals ``(m, n)``, the basis ``(m, 3 n)``.
    """

    def __init__(self, A: Any, B: Any, X: Any, iK: Any, iparams: Any, fparams: Any, bparams: Any, method: str, tracker: Any):
        self.A, self.B, self.iK, self.method, self.tracker = A, B, iK, method, tracker
        self.iparams, self.fparams, self.bparams = iparams, fparams, bparams
        m, n = X.shape
        self.X, self.E, self.R, self.S = X.clone(), X.new_zeros((n,)), X.new_zeros((m, n)), X.new_zeros((m, 3 * n))
        size = X.norm()
        self.ivars: dict[str, int] = {"istep": 0, "iterations_left": iparams["niter"], "converged_count": 0, "converged_end": 0}
        self.fvars: dict[str, float] = {
            "X_norm": float(size),
            "A_norm": float(_times(A, X).norm() / size),
            "B_norm": float(_times(B, X).norm() / size),
        }
        self.bvars: dict[str, bool] = {}
        self.tvars: dict[str, Any] = {}

    def __str__(self) -> str:
        shown = ("iparams", "fparams", "bparams", "ivars", "fvars", "bvars", "tvars", "E", "X", "S", "R")
        return "\n".join(["LOBPCG:", *[f"  {name}={getattr(self, name)}" for name in shown]])

    def run(self) -> None:
        """Iterate until enough pairs have converged, the steps are used up, or the tracker says so."""
        while True:
            self.update()
            if self.tracker is not None:
                self.tracker(self)
            done = self.ivars["converged_count"] >= self.iparams["k"]
            if done or not self.ivars["iterations_left"] or self.bvars.get("force_stop", False):
                return

    def update(self) -> None:
        """One step."""
        n, first = self.iparams["n"], self.ivars["istep"] == 0
        known, used = (0, n) if first else (self.ivars["converged_count"], self.ivars["converged_end"])
        S = self.X if first else self.S[:, known:used]
        values, vectors, direction = self._best(S, n - known, first)
        self.E[known:], self.X[:, known:] = values, vectors
        self._judge()
        known = self.ivars["converged_count"]
        held = n + direction.shape[1]
        self.S[:, :n], self.S[:, n:held] = self.X, direction
        new = _times(self.iK, self.R[:, known:])
        if self.method == "ortho":
            new = self._orthonormal(new, self.S[:, :held])
        self.ivars["converged_end"] = end = held + new.shape[1]
        self.S[:, held:end] = new
        self.ivars["istep"] += 1
        self.ivars["iterations_left"] -= 1

    def _best(self, S: Any, count: int, first: bool) -> tuple[Any, Any, Any]:
        """The best ``count`` eigenvalues and vectors in the space of S, and a basis of the direction of this step."""
        if self.method == "ortho" and not first:
            values, Z = self._eigenpairs(S.mT @ _times(self.A, S))
            turned = qr(Z[:count, count:].mT)[0]  # what S lets X move along, orthogonal to the new X
            return values[:count], S @ Z[:, :count], S @ (Z[:, count:] @ turned)
        gram = S.mT @ _times(self.B, S)
        scale = gram.diagonal() ** -0.5
        factor = linalg_cholesky(gram * scale * scale.unsqueeze(-1), upper=True)
        unit = solve_triangular(factor, scale.diag_embed(), upper=True, left=False)  # unit^T gram unit = 1
        values, Z = self._eigenpairs(unit.mT @ (S.mT @ _times(self.A, S)) @ unit)
        Z = S @ (unit @ Z)
        return values[:count], Z[:, :count], Z[:, :0] if first else Z[:, self.iparams["n"] :][:, :count]

    def _eigenpairs(self, matrix: Any) -> tuple[Any, Any]:
        values, vectors = eigh(matrix, "U")
        return (values.flip(-1), vectors.flip(-1)) if self.bparams["largest"] else (values, vectors)

    def _judge(self) -> None:
        """Residuals, and how many pairs have converged, those behind the first that has not left out.

        Source: Duersch et al. 2018, section 4.3: ``|r| / (|x| (|A| + |e| |B|))``.
        """
        self.R = _times(self.A, self.X) - _times(self.B, self.X) * self.E
        bound = self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"]
        self.tvars["rerr"] = relative = self.R.norm(dim=0) / (self.X.norm(dim=0) * bound)
        count = int((relative < self.fparams["tol"]).cumprod(0).sum())
        self.ivars["converged_count"] = max(count, self.ivars["converged_count"])

    # -- orthonormal columns ------------------------------------------------------------------------------------------------------------
    def _orthonormal(self, U: Any, V: Any) -> Any:
        """Columns that span what U adds to the space of V, orthonormal and orthogonal to V with respect to B.

        Raises:
            ValueError: more columns than rows.
        Source: Duersch et al. 2018, algorithms 5 and 6.
        """
        ivars, fvars, tolerance = self.ivars, self.fvars, self.fparams["ortho_tol"]
        for name in [name for name in fvars if name.startswith("ortho_")]:
            del fvars[name]
        ivars["ortho_i"] = ivars["ortho_j"] = 0
        size_V = float(_times(self.B, V).norm())
        overlap = V.mT @ _times(self.B, U)
        for i in range(self.iparams["ortho_i_max"]):
            ivars["ortho_i"] = i
            U = self._orthonormal_among_themselves(U - V @ overlap)
            if not U.shape[1]:
                return U
            overlap = V.mT @ _times(self.B, U)
            fvars[f"ortho_VBU_rerr[{i}]"] = error = float(overlap.norm()) / (size_V * float(U.norm()))
            if error < tolerance:
                break
            if U.shape[0] < U.shape[1] + V.shape[1]:
                raise ValueError(
                    f"Overdetermined shape of U: lobpcg needs at least as many rows (={U.shape[0]}) as the basis has columns "
                    f"(={U.shape[1] + V.shape[1]})"
                )
        return U

    def _orthonormal_among_themselves(self, U: Any) -> Any:
        drops = self.bparams["ortho_use_drop"]
        floor = self.fparams["ortho_tol_drop" if drops else "ortho_tol_replace"]
        for j in range(self.iparams["ortho_j_max"]):
            self.ivars["ortho_j"] = j
            U = self._scaled_by_svd(U, drops and j > 0, floor)
            floor = self.fparams["ortho_tol_replace"]
            if not U.shape[1]:
                break
            BU = _times(self.B, U)
            gram = U.mT @ BU
            gram.diagonal().sub_(1)
            error = float(gram.norm()) / (float(BU.norm()) * float(U.norm()))
            self.fvars[f"ortho_UBUmI_rerr[{self.ivars['ortho_i']}, {j}]"] = error
            if error < self.fparams["ortho_tol"]:
                break
        return U

    def _scaled_by_svd(self, U: Any, drop: bool, floor: float) -> Any:
        """U turned and scaled so that its Gram matrix is nearly the identity; directions of next to nothing are dropped, or made longer.

        Source: Stathopoulos and Wu 2002, algorithm SVQB.
        """
        gram = U.mT @ _times(self.B, U)
        kept = gram.diagonal() != 0
        if not bool(kept.all()):
            U, gram = U[:, kept], gram[kept][:, kept]
        if not U.numel():
            return U
        scale = gram.diagonal() ** -0.5
        values, Z = eigh(gram * scale * scale.unsqueeze(-1), "U")
        least = floor * values.abs().max()
        if drop:
            Z, values = Z[:, values > least], values[values > least]
        return (U * scale) @ (Z * values.maximum(least) ** -0.5)


# -- the function -----------------------------------------------------------------------------------------------------------------------
def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)  # as in PyTorch


def _iterate(A: Any, B: Any, X: Any, iK: Any, sizes: tuple[int, int, int], options: Any, method: str, tracker: Any) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of each matrix of a batch."""
    (m, n, k), (integers, numbers, choices), lead = sizes, options, A.shape[:-2]
    randn, kind = resolve("torch", "randn"), A.dtype
    if len(lead):
        A, B, X = [None if part is None else part.reshape(-1, *part.shape[-2:]) for part in (A, B, X)]
    E, U = [], []
    for i in range(math.prod(lead)):
        start = randn((m, n), dtype=kind, device=A.device) if X is None else X[i] if len(lead) else X
        _require(tuple(start.shape) == (m, n), f"X must have the shape {(m, n)}, got {tuple(start.shape)}")
        if len(lead):
            integers["batch_index"] = i
        matrix, metric = [part if part is None or not len(lead) else part[i] for part in (A, B)]
        worker = LOBPCG(matrix, metric, start, iK, integers, numbers, choices, method, tracker)
        worker.run()
        E.append(worker.E[:k])
        U.append(worker.X[:, :k])
    if not len(lead):
        return E[0], U[0]
    stack = resolve("torch", "stack")
    return (
        stack(E).reshape(*lead, k) if E else A.new_empty((*lead, k)),
        stack(U).reshape(*lead, m, k) if U else A.new_empty((*lead, m, k)),
    )


class LOBPCGAutogradFunction(Function):
    """The iteration, whose derivative is that of the eigenvectors that it found: it does not go back through its steps."""

    @staticmethod
    def forward(ctx: Any, A: Any, B: Any, compute: Callable[..., tuple[Any, Any]]) -> tuple[Any, Any]:
        E, U = compute(A, B)
        ctx.save_for_backward(A, E, U)
        ctx.refused = (
            "sparse" if A.is_sparse or (B is not None and B.is_sparse and ctx.needs_input_grad[1]) else "complex" if A.is_complex() else ""
        )
        ctx.general = B is not None
        return E, U

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        if ctx.refused:
            raise ValueError(f"lobpcg.backward does not support {ctx.refused} input yet. Note that lobpcg.forward does though.")
        if ctx.general:
            raise ValueError("lobpcg.backward does not support backward with B != I yet.")
        return _gradient(*ctx.saved_tensors, *grads), None, None


def _gradient(A: Any, E: Any, U: Any, grad_E: Any, grad_U: Any) -> Any:
    """``U (diag(gE) + F * U^T gU) U^T`` with ``F_ij = 1 / (E_j - E_i)``, outside of its space ``x_j u_j^T``, ``(E_j - A) x_j = gU_j``.

    On U's space the shift ``c U U^T`` keeps the equations regular; c is beyond the distance of any two eigenvalues.
    """
    differences = (E.unsqueeze(-2) - E.unsqueeze(-1)).clone()
    diagonal = resolve("torch", "eye")(E.shape[-1], dtype=dtypes.bool_, device=E.device)
    inside = ((U.mT @ grad_U) / differences.masked_fill(diagonal, 1)).masked_fill(diagonal, 0)
    result = U @ (inside + grad_E.diag_embed()) @ U.mT
    m, k = U.shape[-2:]
    if m == k:
        return result
    outside = (grad_U - U @ (U.mT @ grad_U)).mT.unsqueeze(-1)  # (*, k, m, 1)
    shift = 1 + 2 * A.detach().abs().sum(-1).amax(-1)[..., None, None]
    ones = resolve("torch", "eye")(m, dtype=A.dtype, device=A.device)
    systems = E[..., None, None] * ones - (A + shift * (U @ U.mT)).unsqueeze(-3)
    return result + solve(systems, outside).squeeze(-1).mT @ U.mT


@composite(method=False)
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Any = None,
    X: Any = None,
    n: int | None = None,
    iK: Any = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> Any:
    """The largest or smallest eigenvalues of ``A x = e B x`` and their eigenvectors, for symmetric A and positive-definite B, by iteration.

    Args:
        A: ``(*, m, m)``, float32 or float64, dense or sparse.
        k: how many; as many as X has columns, or 1, when None.
        B: ``(*, m, m)``; the identity when None.
        X: ``(*, m, n)``: where to begin; normal random numbers when None.
        n: columns of X where it is None; k when None.
        iK: ``(m, m)``: a preconditioner, nearly the inverse of A; the identity when None.
        niter: steps at most; 1000 when None, -1 for no limit.
        tol: of the relative residual; the root of the dtype's precision when None.
        largest: the largest eigenvalues, falling; the smallest, rising, when False.
        method: 'ortho' or 'basic'; 'ortho' when None.
        tracker: called with the :class:`LOBPCG` after each step; it may set ``bvars["force_stop"]``.
        ortho_iparams: ``ortho_i_max`` and ``ortho_j_max``, rounds of orthogonalisation; 3 each.
        ortho_fparams: ``ortho_tol``, ``ortho_tol_drop`` and ``ortho_tol_replace``; ``tol`` each.
        ortho_bparams: ``ortho_use_drop``: leave out directions that add next to nothing.
    Returns:
        Eigenvalues ``(*, k)`` and eigenvectors ``(*, m, k)``, orthonormal with respect to B.
    Raises:
        AssertionError: matrices that do not fit.
        ValueError: m below 3 n, or another method; in backward, sparse matrices and B.
        LinAlgError: 'basic', where the columns become dependent.
        NotImplementedError: another dtype.
    Gradient: of eigenvectors that have converged, symmetric; see ``LOBPCGAutogradFunction``.
    Source: torch.lobpcg. Knyazev 2001; Stathopoulos and Wu 2002; Duersch, Shao, Yang and Gu 2018.
    Example:
        >>> A = torch.diag(torch.arange(1.0, 10.0))
        >>> values, vectors = torch.lobpcg(A, k=2)
        >>> values.round(decimals=3), vectors.shape
        (tensor([9., 8.]), torch.Size([9, 2]))
    """
    _require(A.shape[-2] == A.shape[-1], f"A must be square, got shape {tuple(A.shape)}")
    if B is not None:
        _require(A.shape == B.shape, f"A and B must have same shape, got {tuple(A.shape)} vs {tuple(B.shape)}")
    if A.dtype not in _PRECISION:
        raise NotImplementedError(f"lobpcg: expected a matrix of float32 or float64, got {A.dtype}")
    method = "ortho" if method is None else method
    if method not in ("basic", "ortho"):
        raise ValueError(f"lobpcg: expected method 'basic' or 'ortho', got {method!r}")
    tol = _PRECISION[A.dtype] ** 0.5 if tol is None else tol
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of requested eigenpairs "
            f"(={n})"
        )
    integers: dict[str, Any] = {"m": m, "n": n, "k": k, "niter": 1000 if niter is None else niter}
    numbers: dict[str, Any] = {"tol": tol}
    choices: dict[str, Any] = {"largest": largest is None or largest}
    if method == "ortho":
        integers |= {"ortho_i_max": 3, "ortho_j_max": 3, **(ortho_iparams or {})}
        numbers |= {"ortho_tol": tol, "ortho_tol_drop": tol, "ortho_tol_replace": tol, **(ortho_fparams or {})}
        choices |= {"ortho_use_drop": False, **(ortho_bparams or {})}

    def compute(A: Any, B: Any) -> tuple[Any, Any]:
        return _iterate(A, B, X, iK, (m, n, k), (integers, numbers, choices), method, tracker)

    if not A.requires_grad and (B is None or not B.requires_grad):
        return compute(A, B)
    return LOBPCGAutogradFunction.apply((A + A.mT) / 2, B if B is None else (B + B.mT) / 2, compute)
