"""Hands out examples to clients that draw their classes from priors of their own."""

import bisect
import itertools

import numpy as np

from tf_fedsam.data.partition.base import (
    Partition,
    assemble,
    class_pools,
    class_type,
    row_parts,
    stable_order,
)
from tf_fedsam.errors import InputError


def from_priors(
    labels: np.ndarray,
    priors: np.ndarray,
    sizes: np.ndarray,
    replacement: bool,
    scheme: str,
    generator: np.random.Generator,
) -> Partition:
    """Clients with these sizes that draw their classes from `priors`, taking turns."""
    capacity = np.bincount(labels, minlength=priors.shape[1])
    pools = class_pools(labels, generator)
    owner = _turns(sizes, generator)
    draw = recycle if replacement else deal
    classes = draw(owner, priors, capacity, generator)
    # The j-th turn that got class y takes entry j of the pool of y (modulo its size).
    order = np.argsort(classes, kind="stable")
    counts = np.bincount(classes, minlength=len(capacity))
    turn = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    pool_start = np.cumsum(capacity) - capacity
    entry = np.repeat(pool_start, counts) + turn % np.repeat(capacity, counts)
    return assemble(
        owner[order], pools[entry], len(sizes), len(labels), scheme, generator, replacement, priors
    )


def share_classes(
    labels: np.ndarray,
    wanted: np.ndarray,
    scheme: str,
    generator: np.random.Generator,
    priors: np.ndarray,
) -> Partition:
    """Disjoint clients with so many examples of each class, or an even share where they run out.

    Args:
        labels: the class of every example.
        wanted: [num_clients, num_classes], how many examples of each class a client is to have.
        scheme: description for people.
        generator: of random numbers.
        priors: of the clients.
    """
    capacity = np.bincount(labels, minlength=wanted.shape[1])
    pools, start = class_pools(labels, generator), np.cumsum(capacity) - capacity
    owners, examples = [], []
    for y in np.flatnonzero(wanted.any(axis=0)):
        claimants = np.flatnonzero(wanted[:, y])
        if len(claimants) > capacity[y]:
            raise InputError(
                f"Received {capacity[y]} examples of class {y} for {len(claimants)} clients that "
                f"drew it. Expected at least one for each. Use fewer clients (num_clients), "
                f"another seed, or replacement=true, which refills used-up classes.",
                *("num_clients", "seed", "replacement"),
            )
        counts = even_shares(wanted[claimants, y], int(capacity[y]), generator)
        owners.append(np.repeat(claimants, counts))
        examples.append(pools[start[y] : start[y] + counts.sum()])
    return assemble(
        np.concatenate(owners),
        np.concatenate(examples),
        len(wanted),
        len(labels),
        scheme,
        generator,
        priors=priors,
    )


def even_shares(wanted: np.ndarray, there: int, generator: np.random.Generator) -> np.ndarray:
    """What each gets: all that is wanted, or the same level for all who want more than that.

    What is left below the next level goes to some of them at random.
    """
    if wanted.sum() <= there:
        return wanted
    levels = np.arange(wanted.max() + 1)
    used = np.minimum(wanted[None, :], levels[:, None]).sum(axis=1)
    level = int(np.searchsorted(used, there, side="right")) - 1
    shares = np.minimum(wanted, level)
    more = np.flatnonzero(wanted > level)
    shares[generator.permutation(more)[: there - shares.sum()]] += 1
    return shares


def _turns(sizes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The clients in the order of their turns: each uniform among those with room left.

    Every client is a Poisson process of rate 1 that stops after sizes[i] events: by its lack of
    memory the next event is uniform among the running processes.
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    times = np.cumsum(generator.standard_exponential(len(owner)))
    ends = np.cumsum(sizes)
    before = np.concatenate([[0.0], times[ends[:-1] - 1]])
    return owner[np.argsort(times - np.repeat(before, sizes), kind="stable")]


def deal(
    owner: np.ndarray, priors: np.ndarray, capacity: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """The class taken at every turn, without replacement.

    Turn after turn, client i = owner[t] draws y ~ p_i renormalised over the classes that are not
    empty at that moment, or, if it has no mass there, an example uniformly among all that are left.

    The same distribution without a loop over turns: all turns draw at once from p_i over the
    classes that are left. The draws are right up to the first turn that meets an empty class k.
    From there on only the draws of k are wrong: the others, given that they are not k, follow p_i
    renormalised without k already. So the draws of k from that turn on are repeated without k, and
    so on: one pass per exhausted class. Turns without mass ("free") are solved between two such
    events by `free_classes`.
    """
    num_turns = len(owner)
    left = capacity.copy()
    alive = left > 0
    classes = np.empty(num_turns, class_type(len(left)))
    free = np.zeros(num_turns, bool)

    def redraw(turns):
        classes[turns], free[turns] = draw_classes(owner[turns], priors, alive, generator)

    redraw(np.arange(num_turns))
    start = 0
    while start < num_turns:
        num_alive = int(np.count_nonzero(alive))
        # Short looks ahead: what lies behind the next exhausted class is looked at again.
        stop = min(num_turns, start + max(1024, 4 * (num_turns - start) // num_alive))
        if np.any(free[start:stop]):
            # So that what is left hardly changes within one look.
            stop = min(stop, start + max(16, int(left.sum()) // 4))
        at = np.flatnonzero(free[start:stop])
        ahead = classes[start:stop]
        if len(at):
            ahead[at] = free_classes(ahead, at, left, generator)
        first, exhausted = _first_overdraw(ahead, left)
        left -= np.bincount(ahead[:first], minlength=len(left))
        start += first
        if exhausted >= 0:
            alive[exhausted] = False
            later = classes[start:] == exhausted
            redraw(start + np.flatnonzero(later & ~free[start:]))
    return classes


def free_classes(
    ahead: np.ndarray, at: np.ndarray, left: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Classes of the free turns `at` among the turns `ahead`, in proportion to what is then left.

    A free turn proposes examples uniformly among the `left` ones until one is not taken yet; of a
    class, the examples with the highest numbers are taken first.

    What is taken depends on the free turns before. For fixed proposals the answer of the sequential
    procedure is the only fixed point of "all of them, given all of them": a turn is right as soon
    as those before it are, so the iteration ends, and because one example more or less rarely
    changes an answer it ends after a few steps.
    """
    length = len(ahead) + 1
    drawn = np.ones(len(ahead), bool)
    drawn[at] = False
    turns = np.flatnonzero(drawn)
    taken_by_others = ahead[turns].astype(np.int64) * length + turns
    bounds = np.cumsum(left)
    proposals: list[tuple[np.ndarray, np.ndarray]] = []  # class and number of the example
    classes = np.empty(0, np.int64)
    while True:
        taken_by_free = classes * length + at[: len(classes)]
        taken = np.sort(np.concatenate([taken_by_others, taken_by_free]))
        answer = np.empty(len(at), np.int64)
        pending = np.arange(len(at))
        for attempt in itertools.count():
            if attempt == len(proposals):
                example = generator.integers(bounds[-1], size=len(at))
                y = np.searchsorted(bounds, example, side="right")
                proposals.append((y, example - bounds[y] + left[y]))
            y, number = (column[pending] for column in proposals[attempt])
            before = np.searchsorted(taken, y * length + at[pending])
            before -= np.searchsorted(taken, y * length)
            accepted = number < left[y] - before
            answer[pending[accepted]] = y[accepted]
            pending = pending[~accepted]
            if not len(pending):
                break
        if np.array_equal(answer, classes):
            return classes
        classes = answer


def recycle(
    owner: np.ndarray, priors: np.ndarray, capacity: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """The class taken at every turn, with pools that are refilled.

    All turns draw y ~ p_i at once. Then, in the order of time, every draw that meets an empty pool
    refills it and is repeated; the other draws stand. One step per refill.
    """
    num_turns = len(owner)
    classes, _ = draw_classes(owner, priors, capacity > 0, generator)
    order = np.argsort(classes, kind="stable")
    ends = np.cumsum(np.bincount(classes, minlength=len(capacity)))
    turns = [part.tolist() for part in np.split(order, ends[:-1])]  # of each class, ascending
    filled = [0] * len(capacity)  # the first of them that is served by the present filling
    sizes = capacity.tolist()

    def next_refill(y: int) -> int:
        at = filled[y] + sizes[y]
        return turns[y][at] if at < len(turns[y]) else num_turns

    due = np.array([next_refill(y) for y in range(len(capacity))])
    while True:
        empty = int(due.argmin())
        turn = int(due[empty])
        if turn == num_turns:
            return classes
        filled[empty] += sizes[empty]
        del turns[empty][filled[empty]]
        bounds = np.cumsum(priors[owner[turn]])
        y = int(np.searchsorted(bounds / bounds[-1], generator.random(), side="right"))
        classes[turn] = y
        bisect.insort(turns[y], turn, lo=filled[y])
        due[empty], due[y] = next_refill(empty), next_refill(y)


def _first_overdraw(classes: np.ndarray, left: np.ndarray) -> tuple[int, int]:
    """The first position whose class is used up, and that class; (len(classes), -1) if none is."""
    counts = np.bincount(classes, minlength=len(left))
    over = np.flatnonzero(counts > left)
    if not len(over):
        return len(classes), -1
    order = np.argsort(classes, kind="stable")
    first = order[(np.cumsum(counts) - counts + left)[over]].min()
    return int(first), int(classes[first])


def draw_classes(
    owner: np.ndarray, priors: np.ndarray, alive: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A class for each owner, from its prior over the classes alive, and who has no mass there."""
    names = np.flatnonzero(alive)
    uniform = generator.random(len(owner))
    classes, massless = np.empty(len(owner), class_type(len(alive))), np.empty(len(owner), bool)
    by_owner = stable_order(owner)
    ordered = owner[by_owner]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))  # of each owner's turns in this order
    bounds = np.append(starts, len(owner))
    for part in row_parts(len(starts), len(names)):
        begin, end = bounds[part.start], bounds[part.stop]
        turns, counts = by_owner[begin:end], np.diff(bounds[part.start : part.stop + 1])
        shares = priors[np.ix_(ordered[starts[part]], names)]
        row = np.repeat(np.arange(len(counts)), counts)
        number, massless[turns] = _first_above(shares, row, uniform[turns])
        classes[turns] = names[number]
    return classes, massless


def _first_above(
    shares: np.ndarray, row: np.ndarray, uniform: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each turn the first column up to which its row has more than a uniform number."""
    bounds = np.cumsum(shares, axis=1)
    massless = bounds[:, -1] <= 0
    bounds /= np.where(massless, 1.0, bounds[:, -1])[:, None]
    # Binary search in all rows at once for the first class with uniform < bound.
    last = bounds.shape[1] - 1
    low, high = np.zeros(len(row), np.int64), np.full(len(row), last)
    for _ in range(last.bit_length()):
        middle = (low + high) // 2
        above = bounds[row, middle] <= uniform
        low = np.where(above, np.minimum(middle + 1, high), low)
        high = np.where(above, high, middle)
    return low, massless[row]
