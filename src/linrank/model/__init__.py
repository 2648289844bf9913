"""Models: learnt parameters with all that is needed to apply them, saved as JSON."""

from __future__ import annotations

from ..features.axis import Axis
from .additive import AdditiveModel
from .base import Model
from .curves import Curve, Surface
from .explain import Explanation
from .files import FORMATS, Content, load_model, matrix_parts, numbers, read_matrix
from .linear import LinearModel
from .shown import Column
from .terms import Term

__all__ = [
    "FORMATS", "AdditiveModel", "Axis", "Column", "Content", "Curve", "Explanation", "LinearModel",
    "Model", "Surface", "Term", "load_model", "matrix_parts", "numbers", "read_matrix",
]  # fmt: skip
