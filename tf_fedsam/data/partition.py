"""Cutting one labelled data set into clients.

    name                            sizes      examples          label skew
    iid                             balanced   disjoint          none
    dirichlet                       balanced   disjoint          p_i ~ Dir(alpha) per client
    dirichlet(replacement=True)     balanced   pools recycled    p_i ~ Dir(alpha) per client
    dirichlet_classes               unbalanced disjoint          Dir(alpha) over clients, per class
    pathological                    balanced   pools recycled    few classes per client, uniform
    pathological(replacement=False) balanced   disjoint          few classes per client, uniform
    shards                          balanced   disjoint          few label-sorted shards per client
    by_client_id                    as given   disjoint          as given

"Disjoint" schemes hand every example to exactly one client (unless explicit `sizes` ask for fewer
examples than there are). "Pools recycled" is sampling with replacement: an image can be on several
clients, or twice on one, and some images are never used; `Partition.num_repeated` and
`Partition.num_unused` count them.

Hsu, Qi, Brown. Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification. 2019. https://arxiv.org/abs/1909.06335 (a Dirichlet prior per client)
Acar et al. Federated Learning Based on Dynamic Regularization. ICLR 2021.
https://arxiv.org/abs/2111.04263 (a Dirichlet prior per client, clients take turns)
Yurochkin et al. Bayesian Nonparametric Federated Learning of Neural Networks. ICML 2019.
https://arxiv.org/abs/1905.12022 (a Dirichlet over clients for every class)
McMahan et al. Communication-Efficient Learning of Deep Networks from Decentralized Data. AISTATS
2017. https://arxiv.org/abs/1602.05629 (label-sorted shards)
"""

import bisect
import dataclasses
import hashlib
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_fedsam import rng
from tf_fedsam.errors import InputError

_MAX_CLASSES = 1_000_000
# Priors and class counts are dense [num_clients, num_classes] tables of 8-byte numbers (4 GB here).
_MAX_TABLE_ENTRIES = 500_000_000

Sizes = Sequence[int] | np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Partition:
    """Which examples of a data set each client holds.

    Attributes:
      indices: int64 [total], the examples, client after client; random order within a client.
      offsets: int64 [num_clients + 1]; client i holds indices[offsets[i]:offsets[i + 1]].
      num_examples: size of the data set that was cut.
      scheme: description for people.
      with_replacement: whether an example may appear more than once.
      priors: float [num_clients, num_classes], the class distributions p_i that the clients drew
        their classes from, or None for a scheme that has none.
    """

    indices: np.ndarray
    offsets: np.ndarray
    num_examples: int
    scheme: str
    with_replacement: bool
    priors: np.ndarray | None = None

    def __post_init__(self):
        for array in (self.indices, self.offsets, self.priors):
            if array is not None:
                array.setflags(write=False)

    @property
    def num_clients(self) -> int:
        return len(self.offsets) - 1

    def sizes(self) -> np.ndarray:
        """int64 [num_clients], examples per client, repetitions counted."""
        return np.diff(self.offsets)

    def client(self, i: int) -> np.ndarray:
        """The examples of client i."""
        if not 0 <= i < self.num_clients:
            raise IndexError(f"client {i} of {self.num_clients}")
        return self.indices[self.offsets[i] : self.offsets[i + 1]]

    def class_counts(self, labels: np.ndarray, num_classes: int) -> np.ndarray:
        """int64 [num_clients, num_classes], examples of each class on each client."""
        labels = _labels(labels)
        if len(labels) != self.num_examples or labels.max() >= num_classes:
            raise InputError(
                f"Received {len(labels)} labels up to {labels.max()}. Expected {self.num_examples} "
                f"labels below num_classes={num_classes}. Pass the labels that were partitioned."
            )
        _check_table(self.num_clients, num_classes)
        owner = np.repeat(np.arange(self.num_clients), self.sizes())
        cell = owner * num_classes + labels[self.indices]
        counts = np.bincount(cell, minlength=self.num_clients * num_classes)
        return counts.reshape(self.num_clients, num_classes)

    def class_priors(self, labels: np.ndarray, num_classes: int) -> np.ndarray:
        """float [num_clients, num_classes], what `validation` needs.

        The priors, or for a scheme without priors the class mix that each client ended with.
        """
        if self.priors is None:
            return self.class_counts(labels, num_classes) / self.sizes()[:, None]
        missing = max(0, num_classes - self.priors.shape[1])
        return np.pad(self.priors, ((0, 0), (0, missing)))

    def num_repeated(self) -> int:
        """Entries of `indices` beyond the first occurrence of an example."""
        return len(self.indices) - self._num_used()

    def num_unused(self) -> int:
        """Examples of the data set that no client holds."""
        return self.num_examples - self._num_used()

    def fingerprint(self) -> str:
        """16 hexadecimal digits that tell two partitions apart."""
        digest = hashlib.sha256()
        for array in (self.indices, self.offsets):
            digest.update(np.ascontiguousarray(array, "<i8").tobytes())
        return digest.hexdigest()[:16]

    def _num_used(self) -> int:
        return int(np.count_nonzero(np.bincount(self.indices, minlength=self.num_examples)))


def iid(
    labels_or_n: np.ndarray | Sequence[int] | int,
    num_clients: int,
    seed: int,
    *,
    sizes: Sizes | None = None,
) -> Partition:
    """Shuffles the data and cuts it into consecutive blocks; sizes differ by at most one."""
    if isinstance(labels_or_n, (int, np.integer)):
        n = _count("number of examples", labels_or_n)
    else:
        n = len(_labels(labels_or_n))
    sizes = _sizes(sizes, n, num_clients)
    indices = rng.generator(seed, "partition.iid").permutation(n)[: sizes.sum()]
    return Partition(indices, _offsets(sizes), n, "iid", with_replacement=False)


def dirichlet(
    labels: np.ndarray | Sequence[int],
    num_clients: int,
    alpha: float,
    seed: int,
    *,
    replacement: bool = False,
    sizes: Sizes | None = None,
) -> Partition:
    """Every client i draws a class distribution p_i ~ Dir(alpha, ..., alpha), then its examples.

    Until every client has its size, a client is picked uniformly among those with room left; it
    draws a class y ~ p_i and takes the next example of the shuffled pool of class y.

    replacement=False: an empty class is never drawn: p_i is renormalised over the classes that are
      left, and a client with no mass there takes an example uniformly among all that are left.
      Sizes are balanced, the clients are disjoint and together complete.
    replacement=True: a client that draws an empty class refills its pool (same order) and draws
      its class again. Every client has n // num_clients examples, client 0 also the remainder.

    The same seed gives the same p_i in both. Nothing is approximated: see `_deal` and `_recycle`.
    """
    labels = _labels(labels)
    alpha = _alpha(alpha)
    sizes = _sizes(sizes, len(labels), num_clients, replacement)
    present = np.bincount(labels) > 0
    _check_table(len(sizes), len(present))
    priors = np.zeros((len(sizes), len(present)))
    # A Dirichlet conditioned on a subset of the classes is a Dirichlet on that subset.
    priors[:, present] = _dirichlet(
        rng.generator(seed, "partition.dirichlet.priors"), alpha, len(sizes), int(present.sum())
    )
    scheme = f"dirichlet(alpha={alpha:g}) per client, {_words(replacement)}"
    generator = rng.generator(seed, "partition.dirichlet")
    return _from_priors(labels, priors, sizes, replacement, scheme, generator)


def dirichlet_classes(
    labels: np.ndarray | Sequence[int],
    num_clients: int,
    alpha: float,
    seed: int,
    *,
    min_size: int = 1,
) -> Partition:
    """Every class is divided over the clients by proportions ~ Dir(alpha, ..., alpha).

    Disjoint and complete, with unbalanced sizes (Yurochkin et al., also Flower's
    DirichletPartitioner). Differences from their code: proportions are rounded without bias
    (systematic sampling with a random start; truncated cut points hand the last example of every
    class to the last client), and clients below `min_size` are filled with random examples of the
    largest clients, which are cut down to one common level, instead of redrawing the whole split
    until it fits.
    """
    labels = _labels(labels)
    alpha = _alpha(alpha)
    n, num_clients = len(labels), _num_clients(num_clients)
    min_size = _count("min_size", min_size, minimum=0)
    if num_clients * min_size > n:
        raise InputError(
            f"Received {n} examples for {num_clients} clients with min_size={min_size}, which need "
            f"{num_clients * min_size}. Expected at least as many examples. "
            "Lower num_clients or min_size."
        )
    generator = rng.generator(seed, "partition.dirichlet_classes")
    pools = _pools(labels, generator)
    owner = np.empty(n, np.int64)
    start = 0
    for count in np.bincount(labels):
        if count:
            bounds = np.cumsum(_dirichlet(generator, alpha, 1, num_clients)[0])
            points = (np.arange(count) + generator.random()) * (bounds[-1] / count)
            chosen = np.searchsorted(bounds, points, side="right")
            owner[start : start + count] = np.minimum(chosen, num_clients - 1)
            start += count
    owner = _fill(owner, num_clients, min_size, generator)
    scheme = f"dirichlet(alpha={alpha:g}) per class, without replacement"
    return _assemble(owner, pools, num_clients, n, scheme, generator)


def client_sizes(n: int, num_clients: int, seed: int, sigma: float = 0.0) -> np.ndarray:
    """int64 [num_clients], sizes that sum to n, each at least 1.

    sigma = 0: they differ by at most one. sigma > 0: everyone has one example, the other
    n - num_clients are divided in proportion to exp(sigma * N(0, 1)), rounded by largest remainder.
    """
    n, num_clients = _count("number of examples", n), _num_clients(num_clients)
    sigma = _finite("sigma of the client sizes", sigma)
    if sigma < 0:
        raise InputError(
            f"Received sigma={sigma:g} for the client sizes. Expected 0 (balanced) or more. "
            "Use 0.3 for mild and 1 for strong differences."
        )
    if num_clients > n:
        raise _too_many_clients(n, num_clients)
    if sigma == 0:
        return np.full(num_clients, n // num_clients) + (np.arange(num_clients) < n % num_clients)
    normal = rng.generator(seed, "partition.client_sizes").standard_normal(num_clients)
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp(sigma * (normal - normal.max()))
    exact = (n - num_clients) * (weights / weights.sum())
    sizes = np.floor(exact).astype(np.int64)
    missing = n - num_clients - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:missing]] += 1
    return sizes + 1


def pathological(
    labels: np.ndarray | Sequence[int],
    num_clients: int,
    classes_per_client: int,
    seed: int,
    *,
    replacement: bool = True,
    sizes: Sizes | None = None,
) -> Partition:
    """Every client draws `classes_per_client` distinct classes, uniform and independent of others.

    Its p_i is uniform on them; examples are drawn as in `dirichlet`. With replacement a class that
    nobody drew is unused; without, its examples go to clients whose own classes have run out, so
    that a client may end with more classes than asked for.
    """
    labels = _labels(labels)
    sizes = _sizes(sizes, len(labels), num_clients, replacement)
    present = np.flatnonzero(np.bincount(labels))
    if not 1 <= _integer("classes_per_client", classes_per_client) <= len(present):
        raise InputError(
            f"Received classes_per_client={classes_per_client}. Expected a whole number from 1 to "
            f"{len(present)}, the number of classes in the data. Choose a value in that range."
        )
    _check_table(len(sizes), present[-1] + 1)
    generator = rng.generator(seed, "partition.pathological")
    lottery = generator.random((len(sizes), len(present)))
    chosen = present[np.argsort(lottery, axis=1)[:, :classes_per_client]]
    priors = np.zeros((len(sizes), present[-1] + 1))
    np.put_along_axis(priors, chosen, 1.0 / classes_per_client, axis=1)
    scheme = f"pathological({classes_per_client} classes per client), {_words(replacement)}"
    return _from_priors(labels, priors, sizes, replacement, scheme, generator)


def shards(
    labels: np.ndarray | Sequence[int], num_clients: int, shards_per_client: int, seed: int
) -> Partition:
    """Sorts by label, cuts num_clients * shards_per_client shards, deals them (McMahan et al.).

    Shards differ by at most one example; within a label the order is random.
    """
    labels = _labels(labels)
    n, num_clients = len(labels), _num_clients(num_clients)
    shards_per_client = _count("shards_per_client", shards_per_client)
    num_shards = num_clients * shards_per_client
    if num_shards > n:
        raise InputError(
            f"Received {n} examples for {num_clients} clients x {shards_per_client} shards. "
            f"Expected at least {num_shards} examples, one per shard. "
            "Lower num_clients or shards_per_client."
        )
    generator = rng.generator(seed, "partition.shards")
    pools = _pools(labels, generator)
    shard_sizes = np.full(num_shards, n // num_shards)
    # Longer shards at random places, else the first classes would have all of them.
    shard_sizes[generator.permutation(num_shards)[: n % num_shards]] += 1
    owner = np.repeat(generator.permutation(num_shards) // shards_per_client, shard_sizes)
    scheme = f"{shards_per_client} label-sorted shards per client, without replacement"
    return _assemble(owner, pools, num_clients, n, scheme, generator)


def by_client_id(
    client_id: np.ndarray | Sequence[Any], seed: int = 0
) -> tuple[Partition, np.ndarray]:
    """Groups the examples by the id (integer or string) of the client that owns each of them.

    For a data set that comes with its users, or a split made elsewhere. Returns the partition and
    the sorted ids (bytes as text): client position i is the client called names[i]. The seed only
    sets the order of the examples within a client.
    """
    ids = np.asarray(client_id)
    if ids.dtype == object and len({type(name) for name in ids.flat}) == 1:
        ids = np.asarray(ids.tolist())
    if ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iuSU":
        raise InputError(
            f"Received client ids of shape {ids.shape} and type {ids.dtype}. Expected one integer "
            "or string per example in a non-empty one-dimensional array. Convert the ids first."
        )
    names, owner = np.unique(ids, return_inverse=True)
    if names.dtype.kind == "S":
        names = np.char.decode(names, "utf-8", "backslashreplace")
    generator = rng.generator(seed, "partition.by_client_id")
    partition = _assemble(
        owner, np.arange(len(ids)), len(names), len(ids), "given by client id", generator
    )
    return partition, names


def validation(
    labels_test: np.ndarray | Sequence[int], partition_priors: np.ndarray, seed: int
) -> Partition:
    """Splits the test set over the clients of a training partition, with the same class priors.

    As `dirichlet(replacement=False)`, with the given p_i: balanced, disjoint, complete.

    Args:
      labels_test: the test labels.
      partition_priors: [num_clients, num_classes], `partition.class_priors(labels, num_classes)`
        of the training partition. Rows need not sum to one.
      seed: as for the training partition.
    """
    labels = _labels(labels_test)
    priors = np.asarray(partition_priors, np.float64)
    if priors.ndim != 2 or not len(priors) or not np.all(np.isfinite(priors) & (priors >= 0)):
        raise InputError(
            f"Received class priors of shape {priors.shape} with a negative or non-finite entry, "
            "or not two-dimensional. Expected [num_clients, num_classes] weights, 0 or more. "
            "Use class_priors() of the training partition."
        )
    if labels.max() >= priors.shape[1]:
        raise InputError(
            f"Received a test label {labels.max()}. Expected 0 to {priors.shape[1] - 1}, the "
            "classes of the training data. Use a test set with the same classes."
        )
    sizes = _sizes(None, len(labels), len(priors))
    generator = rng.generator(seed, "partition.validation")
    scheme = "class priors of the training clients, without replacement"
    return _from_priors(labels, priors.copy(), sizes, False, scheme, generator)


def statistics(
    partition: Partition, labels: np.ndarray | Sequence[int], num_classes: int
) -> dict[str, Any]:
    """Numbers that describe a partition.

    num_clients, num_examples, num_repeated, num_unused; size_min, size_median, size_max (examples
    per client); classes_min, classes_median, classes_max (distinct classes per client);
    mean_label_entropy (nats); mean_total_variation (between the class mix of a client and that of
    the whole data set, in [0, 1]); and for each client, as arrays [num_clients], sizes, classes,
    label_entropy and total_variation.
    """
    labels = _labels(labels)
    counts = partition.class_counts(labels, num_classes)
    sizes, classes = partition.sizes(), np.count_nonzero(counts, axis=1)
    mix = counts / sizes[:, None]
    entropy = -(mix * np.log(np.where(mix > 0, mix, 1.0))).sum(axis=1)
    overall = np.bincount(labels, minlength=num_classes) / len(labels)
    distance = 0.5 * np.abs(mix - overall).sum(axis=1)
    return {
        "num_clients": partition.num_clients,
        "num_examples": partition.num_examples,
        "num_repeated": partition.num_repeated(),
        "num_unused": partition.num_unused(),
        "size_min": int(sizes.min()),
        "size_median": float(np.median(sizes)),
        "size_max": int(sizes.max()),
        "classes_min": int(classes.min()),
        "classes_median": float(np.median(classes)),
        "classes_max": int(classes.max()),
        "mean_label_entropy": float(entropy.mean()),
        "mean_total_variation": float(distance.mean()),
        "sizes": sizes,
        "classes": classes,
        "label_entropy": entropy,
        "total_variation": distance,
    }


def _from_priors(
    labels: np.ndarray,
    priors: np.ndarray,
    sizes: np.ndarray,
    replacement: bool,
    scheme: str,
    generator: np.random.Generator,
) -> Partition:
    """Clients with these sizes that draw their classes from `priors`, taking turns."""
    capacity = np.bincount(labels, minlength=priors.shape[1])
    pools = _pools(labels, generator)
    owner = _turns(sizes, generator)
    draw = _recycle if replacement else _deal
    classes = draw(owner, priors, capacity, generator)
    # The j-th turn that got class y takes entry j of the pool of y (modulo its size).
    order = np.argsort(classes, kind="stable")
    counts = np.bincount(classes, minlength=len(capacity))
    turn = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    pool_start = np.cumsum(capacity) - capacity
    entry = np.repeat(pool_start, counts) + turn % np.repeat(capacity, counts)
    return _assemble(
        owner[order], pools[entry], len(sizes), len(labels), scheme, generator, replacement, priors
    )


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


def _deal(
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
    events by `_free_classes`.
    """
    num_turns = len(owner)
    left = capacity.copy()
    alive = left > 0
    classes = np.empty(num_turns, _class_type(len(left)))
    free = np.zeros(num_turns, bool)

    def redraw(turns):
        classes[turns], free[turns] = _draw(owner[turns], priors, alive, generator)

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
            ahead[at] = _free_classes(ahead, at, left, generator)
        first, exhausted = _first_overdraw(ahead, left)
        left -= np.bincount(ahead[:first], minlength=len(left))
        start += first
        if exhausted >= 0:
            alive[exhausted] = False
            later = classes[start:] == exhausted
            redraw(start + np.flatnonzero(later & ~free[start:]))
    return classes


def _free_classes(
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


def _recycle(
    owner: np.ndarray, priors: np.ndarray, capacity: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """The class taken at every turn, with pools that are refilled.

    All turns draw y ~ p_i at once. Then, in the order of time, every draw that meets an empty pool
    refills it and is repeated; the other draws stand. One step per refill.
    """
    num_turns = len(owner)
    classes, _ = _draw(owner, priors, capacity > 0, generator)
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


def _draw(
    owner: np.ndarray, priors: np.ndarray, alive: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A class for each owner, from its prior over the classes alive, and who has no mass there."""
    clients, row = np.unique(owner, return_inverse=True)
    names = np.flatnonzero(alive)
    bounds = np.cumsum(priors[np.ix_(clients, names)], axis=1)
    massless = bounds[:, -1] <= 0
    bounds /= np.where(massless, 1.0, bounds[:, -1])[:, None]
    uniform = generator.random(len(owner))
    # Binary search in all rows at once for the first class with uniform < bound.
    low, high = np.zeros(len(owner), np.int64), np.full(len(owner), len(names) - 1)
    for _ in range((len(names) - 1).bit_length()):
        middle = (low + high) // 2
        above = bounds[row, middle] <= uniform
        low = np.where(above, np.minimum(middle + 1, high), low)
        high = np.where(above, high, middle)
    return names[low].astype(_class_type(len(alive))), massless[row]


def _dirichlet(
    generator: np.random.Generator, alpha: float, num_rows: int, num_columns: int
) -> np.ndarray:
    """[num_rows, num_columns], rows ~ Dir(alpha, ..., alpha).

    Gamma(alpha) = Gamma(alpha + 1) * U^(1 / alpha), in logarithms: small shares keep their
    proportions to each other (down to 1e-300), which decide once the large ones are exhausted.
    """
    _check_table(num_rows, num_columns)
    alpha = min(max(alpha, 1e-290), 1e15)  # beyond: one class, or uniform, to the last bit
    shape = (num_rows, num_columns)
    logs = np.log(generator.standard_gamma(alpha + 1.0, shape))
    logs -= generator.standard_exponential(shape) / alpha
    with np.errstate(under="ignore"):
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
    return shares


def _fill(
    owner: np.ndarray, num_clients: int, min_size: int, generator: np.random.Generator
) -> np.ndarray:
    """Moves random examples from the largest clients to those with fewer than min_size."""
    sizes = np.bincount(owner, minlength=num_clients)
    lacking = np.maximum(min_size - sizes, 0)
    needed = int(lacking.sum())
    if not needed:
        return owner
    low, high = min_size, int(sizes.max())  # the lowest level that cuts off at most what is needed
    while low < high:
        middle = (low + high) // 2
        if np.maximum(sizes - middle, 0).sum() > needed:
            low = middle + 1
        else:
            high = middle
    given = np.maximum(sizes - low, 0)
    donors = generator.permutation(np.flatnonzero(sizes >= low))
    given[donors[: needed - int(given.sum())]] += 1
    shuffled = generator.permutation(len(owner))
    order = shuffled[np.argsort(owner[shuffled], kind="stable")]
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    moved = order[rank < np.repeat(given, sizes)]
    owner = owner.copy()
    owner[generator.permutation(moved)] = np.repeat(np.arange(num_clients), lacking)
    return owner


def _pools(labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """All examples, class after class, shuffled within a class."""
    shuffled = generator.permutation(len(labels))
    keys = labels.astype(_class_type(int(labels.max()) + 1))
    return shuffled[np.argsort(keys[shuffled], kind="stable")]


def _assemble(
    owner: np.ndarray,
    examples: np.ndarray,
    num_clients: int,
    num_examples: int,
    scheme: str,
    generator: np.random.Generator,
    with_replacement: bool = False,
    priors: np.ndarray | None = None,
) -> Partition:
    """Groups `examples` by `owner`, in random order within a client."""
    shuffled = generator.permutation(len(owner))
    order = shuffled[np.argsort(owner[shuffled], kind="stable")]
    sizes = np.bincount(owner, minlength=num_clients)
    return Partition(
        examples[order], _offsets(sizes), num_examples, scheme, with_replacement, priors
    )


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _class_type(num_classes: int) -> type[np.signedinteger]:
    # NumPy sorts 16-bit integers by counting, about ten times faster than wider ones.
    return np.int16 if num_classes <= np.iinfo(np.int16).max else np.int32


def _words(replacement: bool) -> str:
    return "with replacement (pools recycled)" if replacement else "without replacement"


def _labels(labels: Any) -> np.ndarray:
    array = np.asarray(labels)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
        raise InputError(
            f"Received labels of shape {array.shape} and type {array.dtype}. Expected one integer "
            "class per example in a non-empty one-dimensional array. Flatten or convert them first."
        )
    if array.min() < 0 or array.max() >= _MAX_CLASSES:
        raise InputError(
            f"Received labels from {array.min()} to {array.max()}. Expected class numbers from 0 "
            f"to at most {_MAX_CLASSES - 1}. Renumber the classes, for example with "
            "np.unique(labels, return_inverse=True)."
        )
    return array.astype(np.int64, copy=False)


def _sizes(sizes: Any, n: int, num_clients: Any, replacement: bool = False) -> np.ndarray:
    """Checked sizes, or the default ones."""
    num_clients = _num_clients(num_clients)
    if sizes is None:
        if not replacement:
            return client_sizes(n, num_clients, seed=0)
        if num_clients > n:
            return np.ones(num_clients, np.int64)
        result = np.full(num_clients, n // num_clients)
        result[0] += n % num_clients
        return result
    array = np.asarray(sizes)
    if array.shape != (num_clients,) or array.dtype.kind not in "iu" or array.min() < 1:
        raise InputError(
            f"Received client sizes of shape {array.shape} and type {array.dtype}, the smallest "
            f"{array.min() if array.size else 'missing'}. Expected {num_clients} integers, one per "
            "client, each at least 1. Use client_sizes() or correct the list."
        )
    total = int(array.sum(dtype=np.int64))
    if not replacement and total > n:
        raise InputError(
            f"Received client sizes that sum to {total}. Expected at most {n}, the number of "
            "examples, without replacement. Lower the sizes or allow replacement."
        )
    return array.astype(np.int64)


def _num_clients(num_clients: Any) -> int:
    return _count("num_clients", num_clients)


def _count(name: str, value: Any, minimum: int = 1) -> int:
    number = _integer(name, value)
    if number < minimum:
        raise InputError(
            f"Received {name}={number}. Expected a whole number, {minimum} or more. Raise it."
        )
    return number


def _integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(
            f"Received {name}={value!r}. Expected a whole number. Write it without a fraction."
        ) from None


def _finite(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"Received {name} = {value!r}. Expected a finite number. Correct it.")
    return number


def _alpha(alpha: Any) -> float:
    number = _finite("alpha of the Dirichlet distribution", alpha)
    if number <= 0:
        raise InputError(
            f"Received alpha={number:g}. Expected a positive concentration of the Dirichlet "
            "distribution. Use 0.1 for strong, 0.6 for mild label skew, or the iid scheme for none."
        )
    return number


def _check_table(num_clients: int, num_classes: int) -> None:
    if num_clients * num_classes > _MAX_TABLE_ENTRIES:
        raise InputError(
            f"Received {num_clients} clients x {num_classes} classes. Expected a table of at most "
            f"{_MAX_TABLE_ENTRIES} entries. Number the classes from 0 without large gaps, or lower "
            "num_clients."
        )


def _too_many_clients(n: int, num_clients: int) -> InputError:
    return InputError(
        f"Received {num_clients} clients for {n} examples. Expected at least one example per "
        "client. Lower num_clients, use more data, or a scheme with replacement."
    )
