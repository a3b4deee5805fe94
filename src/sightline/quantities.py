"""Numbers that may be arrays, and "2 TB/s" to SI floats and back."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Number: TypeAlias = float | NDArray[np.float64]
"""A float or a float array; every formula accepts both and arrays broadcast."""
Count: TypeAlias = int | NDArray[np.int64] | NDArray[np.float64]
"""A whole number or an array of them."""
