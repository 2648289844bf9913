"""`KernelModel`: the saved form of a ranker with a kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.metrics.pairwise import KERNEL_PARAMS, pairwise_kernels

from .._checks import choice
from .._threads import blas_threads, resolve_threads, run
from .._typing import Integers, Vector
from ..data.checks import Matrix, check_finite, check_matrix
from ..errors import DataError
from ..model import Content, Model, matrix_parts, numbers, read_matrix
from .base import library_matrix
from .feature_maps import Documents, Kernel, row_chunks


def named_kernel(name: str, params: Mapping[str, Any]) -> Kernel:
    """Return the function of a kernel of scikit-learn: ``(X, Z) ↦ k(x_i, z_j)``."""
    choice("kernel", name, KERNEL_PARAMS, "or a function")
    takes = sorted(KERNEL_PARAMS[name])
    if not set(params) <= set(takes):
        what = ", ".join(takes) or "no parameters"
        raise DataError(
            f"kernel_params has {min(set(params) - set(takes))!r}; kernel {name!r} takes {what}"
        )
    for key, value in params.items():
        if key == "gamma" and value is None:  # scikit-learn's default, 1 / n_features
            continue
        if not isinstance(value, Real) or not math.isfinite(value):
            raise DataError(f"kernel_params[{key!r}] is {value!r}; expected a finite number")
    return lambda X, Z: pairwise_kernels(X, Z, metric=name, **params)


def kernel_rows(X: Matrix) -> Matrix:
    """Return X in the form in which kernels take it."""
    return library_matrix(X).astype(np.float64, copy=False)


def kernel_scores(
    kernel: Kernel, X: Matrix, anchors: Documents, beta: Vector, n_threads: int | None = None
) -> Vector:
    """Return ``f(x) = Σ_i β_i k(x, x_i)`` of the rows of a checked matrix, in blocks of rows."""
    check_finite(X, None)

    def score(first: int, last: int) -> Vector:
        try:
            return kernel(kernel_rows(X[first:last]), anchors) @ beta
        except (TypeError, ValueError) as error:  # chi-squared kernels refuse some documents
            raise DataError(f"the kernel cannot be computed: {error}") from None

    with blas_threads(1):  # each thread of `run` multiplies its own rows
        parts = run(
            score,
            row_chunks(X.shape[0], len(beta)),
            resolve_threads(n_threads),
        )
    return np.concatenate(parts)


class KernelModel(Model):
    """Model with the score ``f(x) = Σ_i β_i k(x, x_i)``.

    Parameters
    ----------
    anchors : array or CSR matrix of shape (n_anchors, n_features)
        The documents x_i.
    beta : array of shape (n_anchors,)
    kernel : str
        A name of scikit-learn's `pairwise_kernels`.
    params : mapping
        The parameters of the kernel, such as gamma.
    feature_names, index_base, settings, training
        As in `linrank.LinearModel`.

    Examples
    --------
    >>> model = KernelModel(np.eye(2), [1.0, -1.0], "polynomial", {"degree": 2, "coef0": 0.0})
    >>> model.predict([[2.0, 1.0]]).tolist()
    [0.75]
    """

    format = "linrank-kernel"

    def __init__(
        self,
        anchors: Matrix,
        beta: Vector,
        kernel: str,
        params: Mapping[str, Any],
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
    ) -> None:
        self.anchors, self.beta = check_matrix(anchors), np.array(beta, dtype=np.float64)
        self.kernel, self.params = kernel, dict(params)
        if self.beta.shape != (self.anchors.shape[0],):
            raise DataError(
                f"beta has shape {self.beta.shape} for {self.anchors.shape[0]} anchors; expected "
                "one number per anchor"
            )
        if not np.isfinite(self.beta).all():
            raise DataError("beta must be a vector of finite numbers")
        self._function = named_kernel(kernel, self.params)
        super().__init__(self.anchors.shape[1], feature_names, index_base, settings, training)

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a matrix with the right number of features."""
        return kernel_scores(self._function, check_matrix(X), kernel_rows(self.anchors), self.beta)

    def facts(self) -> dict[str, object]:
        """Return the kernel and the number of documents that it compares with."""
        params = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return {"kernel": f"{self.kernel}({params})", "anchors": len(self.beta)}

    def _parameters(self) -> Content:
        return {
            "kernel": self.kernel,
            "params": self.params,
            "beta": self.beta.tolist(),
            "anchors": matrix_parts(self.anchors),
        }

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        if not isinstance(content["kernel"], str) or not isinstance(content["params"], dict):
            raise DataError("kernel must be a name, and params an object")
        beta = np.array(numbers(content, "beta"), dtype=np.float64)
        anchors = read_matrix(content["anchors"], (len(beta), content["n_features"]))
        return cls(anchors, beta, content["kernel"], content["params"], **shared)
