"""Models: learnt parameters with all that is needed to apply them, saved as JSON."""

from __future__ import annotations

from ..features.basis import Axis
from .additive import AdditiveModel
from .curves import Curve, Surface
from .linear import LinearModel, Term, given_terms
from .model import (
    FORMATS,
    Content,
    Explanation,
    Model,
    load_model,
    matrix_parts,
    numbers,
    read_matrix,
)
from .model import FeatureColumn as Column

__all__ = [
    "FORMATS", "AdditiveModel", "Axis", "Column", "Content", "Curve", "Explanation", "LinearModel",
    "Model", "Surface", "Term", "given_terms", "load_model", "matrix_parts", "numbers",
    "read_matrix",
]  # fmt: skip
