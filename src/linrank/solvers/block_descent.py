"""Kernels that minimise a quadratic model with a penalty over one block of features at a time."""

from __future__ import annotations

import math

from .._jit import njit

BLOCK_STEPS = 30  #: most proximal gradient steps in a block; more steps need fewer sweeps
BLOCK_ACCURACY = 1e-3  #: decrease of the last step in a block, relative to that of the first


@njit
def descend(H, slope, l1, l2, low, high, norm, members, starts, accuracy, sweeps, buffer, v):  # type: ignore[no-untyped-def]
    """Minimise the model by block coordinate descent from v; return whether `accuracy` is reached.

    ``slope`` is the gradient of the quadratic part at v. Block g has the coordinates
    ``members[starts[g]:starts[g + 1]]``. A full sweep over all blocks is followed by sweeps over
    those in use, until these have converged. The descent ends when a full sweep finds no block
    beyond `accuracy`. ``buffer`` has the shape (4, n).
    """
    bends, new, trial, local = buffer[0], buffer[1], buffer[2], buffer[3]
    n_blocks = len(starts) - 1
    for g in range(n_blocks):
        bends[g] = _largest_bend(H, members[starts[g] : starts[g + 1]])
    in_use_only = False
    for _ in range(sweeps):
        worst = 0.0
        for g in range(n_blocks):
            if starts[g + 1] - starts[g] == 1:
                j = members[starts[g]]
                if v[j] != 0.0 or not in_use_only:
                    pull = _shrink(slope[j] - H[j, j] * v[j], l1[j] + norm[j])
                    least = min(max(pull / (H[j, j] + l2[j]), low[j]), high[j])
                    worst = max(worst, _move(H, slope, l2, v, j, least))
                continue
            block = members[starts[g] : starts[g + 1]]
            if in_use_only and not _is_used(v, block):
                continue
            _solve_block(H, slope, l1, l2, low, high, norm, block, bends[g], v, new, trial, local)
            moved = 0.0
            for i in range(len(block)):
                moved += _move(H, slope, l2, v, block[i], new[i])
            worst = max(worst, moved)
        if worst <= accuracy and not in_use_only:
            return True
        in_use_only = worst > accuracy
    return False


@njit(inner=True)
def _move(H, slope, l2, v, j, new):  # type: ignore[no-untyped-def]
    """Move a coordinate and update the slope; return step²·curvature."""
    step = new - v[j]
    if step == 0.0:
        return 0.0
    v[j] = new
    for k in range(len(v)):
        slope[k] += step * H[j, k]
    return step**2 * (H[j, j] + l2[j])


@njit(inner=True)
def _is_used(v, block):  # type: ignore[no-untyped-def]
    """Return whether a coordinate of the block is not 0."""
    used = False
    for j in block:
        used |= v[j] != 0.0
    return used


@njit(inner=True)
def _largest_bend(H, block):  # type: ignore[no-untyped-def]
    """Return the largest row sum of |H| in a block, which no eigenvalue exceeds."""
    most = 0.0
    for j in block:
        total = 0.0
        for k in block:
            total += abs(H[j, k])
        most = max(most, total)
    return most


@njit(inner=True)
def _solve_block(H, slope, l1, l2, low, high, norm, block, bend, v, new, trial, local):  # type: ignore[no-untyped-def]
    """Minimise the model over a block by proximal gradient steps; `new` gets the minimiser.

    The penalty of a group is l1, l2, the bounds and the norm. Its proximal operator shrinks each
    weight by l1, moves it into the bounds, shortens the norm and divides by 1 + l2.
    """
    m = len(block)
    for i in range(m):
        new[i], local[i] = v[block[i]], slope[block[i]]
    first = 0.0
    for step in range(BLOCK_STEPS):
        total = 0.0
        for i in range(m):
            j = block[i]
            z = _shrink(local[i] - bend * new[i], l1[j]) / bend
            trial[i] = min(max(z, low[j]), high[j])
            total += trial[i] ** 2
        size = math.sqrt(total)
        cut = norm[block[0]] / bend
        part = (1.0 - cut / size) / (1.0 + l2[block[0]] / bend) if size > cut else 0.0
        moved = 0.0
        for i in range(m):
            change = part * trial[i] - new[i]
            new[i] = part * trial[i]
            moved += change**2
            if change != 0.0:
                for k in range(m):
                    local[k] += change * H[block[i], block[k]]
        if step == 0:
            first = moved
        if moved <= BLOCK_ACCURACY * first:
            break


@njit(inner=True)
def _shrink(pull, l1):  # type: ignore[no-untyped-def]
    """Return −sign(pull)·(|pull| − l1)₊."""
    if pull > l1:
        return l1 - pull
    return -l1 - pull if pull < -l1 else 0.0
