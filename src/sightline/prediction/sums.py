"""Sums whose terms lie on few axes of a mesh each: added up block by block, so that few passes touch every plan.

A block is so small that its arrays stay in a core's cache; results are written into the array that is returned.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from sightline.quantities import Number

Terms = tuple[Number, ...]
"""Summands, as few as `merged` leaves."""
Shape = tuple[int, ...]
Index = tuple[slice, ...]

PLANS_PER_BLOCK = 1 << 14
"""128 KiB per array."""


def merged(terms: Iterable[Number]) -> Terms:
    """Add up terms as far as no sum lies on more axes than one of its terms, the smallest first."""
    groups: list[Number] = []
    for term in sorted(terms, key=np.size):
        for i, group in enumerate(groups):
            if np.broadcast_shapes(np.shape(group), np.shape(term)) in (np.shape(group), np.shape(term)):
                groups[i] = group + term
                break
        else:
            groups.append(term)
    return tuple(groups)


def blocks(shape: Shape, plans: int = PLANS_PER_BLOCK) -> Iterator[Index]:
    """Yield the indices of blocks of about so many plans that cover a mesh: whole last axes, a part of one, one of the first."""
    whole = next((axis for axis in range(len(shape)) if prod(shape[axis:]) <= plans), len(shape))
    if whole == 0:
        yield tuple(slice(None) for _ in shape)
        return
    cut, step = whole - 1, max(1, plans // prod(shape[whole:]))
    for place in np.ndindex(shape[:cut]):
        for start in range(0, shape[cut], step):
            fixed = (slice(i, i + 1) for i in place)
            yield (*fixed, slice(start, start + step), *(slice(None) for _ in shape[whole:]))


def at(number: Number, index: Index) -> Number:
    """Return a number's part in a block; axes along which it is constant stay as they are."""
    if not isinstance(number, np.ndarray) or number.ndim == 0:
        return number
    own = index[len(index) - number.ndim :]
    return number[tuple(i if size > 1 else slice(None) for i, size in zip(own, number.shape, strict=True))]


def summed(terms: Terms, shape: Shape) -> NDArray[np.float64]:
    """Return the sum of ``terms`` for every plan of a mesh of that shape."""
    out = np.empty(shape)
    for index in blocks(shape):
        _add([at(term, index) for term in terms], out[index])
    return out


def largest_sum(sums: Sequence[Terms], shape: Shape) -> NDArray[np.float64]:
    """Return the largest of several sums for every plan of a mesh of that shape."""
    alone = _merged_largest([terms[0] for terms in sums if len(terms) == 1])
    several = [terms for terms in sums if len(terms) > 1]
    out = np.empty(shape)
    scratch = np.empty(min(out.size, 2 * PLANS_PER_BLOCK))
    for index in blocks(shape):
        block = out[index]
        other = scratch[: block.size].reshape(block.shape)
        for i, terms in enumerate([*several, *((number,) for number in alone)]):
            here = [at(term, index) for term in terms]
            if i == 0:
                _add(here, block)
            elif len(here) == 1:
                np.maximum(block, here[0], out=block)
            else:
                np.maximum(block, _add(here, other), out=block)
    return out


def _merged_largest(numbers: Iterable[Number]) -> list[Number]:
    """Take the largest of numbers as far as no result lies on more axes than one of them, the smallest first."""
    groups: list[Number] = []
    for number in sorted(numbers, key=np.size):
        for i, group in enumerate(groups):
            if np.broadcast_shapes(np.shape(group), np.shape(number)) in (np.shape(group), np.shape(number)):
                groups[i] = np.maximum(group, number)
                break
        else:
            groups.append(number)
    return groups


def _add(terms: Sequence[Number], out: NDArray[np.float64]) -> NDArray[np.float64]:
    """Write the sum of ``terms`` into ``out`` and return it."""
    np.add(terms[0], terms[1] if len(terms) > 1 else 0.0, out=out)
    for term in terms[2:]:
        np.add(out, term, out=out)
    return out
