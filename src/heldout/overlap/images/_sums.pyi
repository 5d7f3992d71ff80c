import numpy as np
from numpy.typing import NDArray

def row_sums(
    grey: NDArray[np.uint8],
    width: int,
    height: int,
    outputs: int,
    taps: int,
    starts: NDArray[np.int32],
    weights: NDArray[np.int32],
    /,
) -> bytes: ...
