"""Types of arrays that are used throughout the package."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]  #: numbers of double precision: scores, weights, matrices
Integers: TypeAlias = NDArray[np.int64]  #: row numbers, pointers, feature numbers
Mask: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]  #: an array of any dtype, such as query ids or features
