"""Weights on disk: sums of float32 leave the lowest bits of a float64 at zero, and those are not stored."""

import numpy as np

from dask_rac.kernels.jit import kernel

LOW_BITS = 16


@kernel
def low_bits(bits):
    """Return the lowest bits that are set in any weight, given the bit patterns."""
    found = np.uint64(0)
    for x in bits:
        found |= x
    return found & np.uint64((1 << LOW_BITS) - 1)


@kernel
def split_weights(bits, high, middle):
    """Split the bit patterns of weights, without their lowest bits, into 32 and 16 bits."""
    for e in range(len(bits)):
        x = bits[e]
        high[e] = x >> np.uint64(32)
        middle[e] = (x >> np.uint64(LOW_BITS)) & np.uint64(0xFFFF)


@kernel
def join_weights(high, middle, bits):
    """Join the parts of `split_weights` to bit patterns again."""
    for e in range(len(bits)):
        bits[e] = (np.uint64(high[e]) << np.uint64(32)) | (np.uint64(middle[e]) << np.uint64(LOW_BITS))
