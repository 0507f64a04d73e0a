"""The schemes: from labels to a partition."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_fedsam import rng
from tf_fedsam.data.partition import checks
from tf_fedsam.data.partition.base import Partition, assemble, class_pools, offsets_of, row_parts
from tf_fedsam.data.partition.dealing import from_priors, share_classes
from tf_fedsam.data.partition.proportions import dirichlet_shares, fill_small_clients
from tf_fedsam.data.partition.sizes import Sizes, checked_sizes
from tf_fedsam.errors import InputError


def iid(
    labels_or_n: np.ndarray | Sequence[int] | int,
    num_clients: int,
    seed: int,
    *,
    sizes: Sizes | None = None,
) -> Partition:
    """Shuffles the data and cuts it into consecutive blocks; sizes differ by at most one."""
    if isinstance(labels_or_n, (int, np.integer)):
        n = checks.count("number of examples", labels_or_n)
    else:
        n = len(checks.labels(labels_or_n))
    sizes = checked_sizes(sizes, n, num_clients)
    indices = rng.generator(seed, "partition.iid").permutation(n)[: sizes.sum()]
    return Partition(indices, offsets_of(sizes), n, "iid", with_replacement=False)


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

    The same seed gives the same p_i in both. Nothing is approximated: see
    `dealing.deal` and `dealing.recycle`.
    """
    labels = checks.labels(labels)
    alpha = checks.alpha(alpha)
    sizes = checked_sizes(sizes, len(labels), num_clients, replacement)
    present = np.bincount(labels) > 0
    checks.table(len(sizes), len(present))
    # A Dirichlet conditioned on a subset of the classes is a Dirichlet on that subset.
    priors = dirichlet_shares(
        rng.generator(seed, "partition.dirichlet.priors"), alpha, len(sizes), int(present.sum())
    )
    if not present.all():
        shares, priors = priors, np.zeros((len(sizes), len(present)))
        priors[:, present] = shares
    scheme = f"dirichlet(alpha={alpha:g}) per client, {_words(replacement)}"
    generator = rng.generator(seed, "partition.dirichlet")
    return from_priors(labels, priors, sizes, replacement, scheme, generator)


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
    labels = checks.labels(labels)
    alpha = checks.alpha(alpha)
    n, num_clients = len(labels), checks.num_clients(num_clients)
    min_size = checks.count("min_size", min_size, minimum=0)
    if num_clients * min_size > n:
        raise InputError(
            f"Received {n} examples for {num_clients} clients with min_size={min_size}, which need "
            f"{num_clients * min_size}. Expected at least as many examples. "
            "Lower num_clients or min_size."
        )
    generator = rng.generator(seed, "partition.dirichlet_classes")
    pools = class_pools(labels, generator)
    owner = np.empty(n, np.int64)
    start = 0
    for count in np.bincount(labels):
        if count:
            bounds = np.cumsum(dirichlet_shares(generator, alpha, 1, num_clients)[0])
            points = (np.arange(count) + generator.random()) * (bounds[-1] / count)
            chosen = np.searchsorted(bounds, points, side="right")
            owner[start : start + count] = np.minimum(chosen, num_clients - 1)
            start += count
    owner = fill_small_clients(owner, num_clients, min_size, generator)
    scheme = f"dirichlet(alpha={alpha:g}) per class, without replacement"
    return assemble(owner, pools, num_clients, n, scheme, generator)


def pathological(
    labels: np.ndarray | Sequence[int],
    num_clients: int,
    classes_per_client: int,
    seed: int,
    *,
    replacement: bool = False,
    sizes: Sizes | None = None,
) -> Partition:
    """Every client draws `classes_per_client` distinct classes, uniform and independent of others.

    Every client has examples of exactly these classes, unless it has fewer examples than classes;
    a class that nobody drew is unused.

    replacement=True: p_i is uniform on the classes, and examples are drawn as in `dirichlet`:
      used-up classes are refilled, so that sizes are kept. A client whose draws missed a class
      gets one example of it in place of one of its most frequent class.
    replacement=False: a client divides its size evenly over its classes. A class of which more is
      wanted than there is, is shared as evenly as possible, so that some clients have fewer
      examples, but no others.
    """
    labels = checks.labels(labels)
    sizes = checked_sizes(sizes, len(labels), num_clients, replacement)
    present = np.flatnonzero(np.bincount(labels))
    if not 1 <= checks.integer("classes_per_client", classes_per_client) <= len(present):
        raise InputError(
            f"Received classes_per_client={classes_per_client}. Expected a whole number from 1 to "
            f"{len(present)}, the number of classes in the data. Choose a value in that range."
        )
    checks.table(len(sizes), present[-1] + 1)
    generator = rng.generator(seed, "partition.pathological")
    chosen = np.empty((len(sizes), classes_per_client), present.dtype)
    for rows in row_parts(len(sizes), len(present)):
        lottery = generator.random((rows.stop - rows.start, len(present)))
        chosen[rows] = present[np.argsort(lottery, axis=1)[:, :classes_per_client]]
    priors = np.zeros((len(sizes), present[-1] + 1))
    np.put_along_axis(priors, chosen, 1.0 / classes_per_client, axis=1)
    scheme = f"pathological({classes_per_client} classes per client), {_words(replacement)}"
    if replacement:
        drawn = from_priors(labels, priors, sizes, replacement, scheme, generator)
        return _with_every_class(drawn, labels, seed)
    wanted = np.zeros(priors.shape, np.int64)
    even, more = np.divmod(sizes, classes_per_client)
    places = even[:, None] + (np.arange(classes_per_client) < more[:, None])
    np.put_along_axis(wanted, chosen, places, axis=1)
    return share_classes(labels, wanted, scheme, generator, priors)


def shards(
    labels: np.ndarray | Sequence[int], num_clients: int, shards_per_client: int, seed: int
) -> Partition:
    """Sorts by label, cuts num_clients * shards_per_client shards, deals them (McMahan et al.).

    Shards differ by at most one example; within a label the order is random.
    """
    labels = checks.labels(labels)
    n, num_clients = len(labels), checks.num_clients(num_clients)
    shards_per_client = checks.count("shards_per_client", shards_per_client)
    num_shards = num_clients * shards_per_client
    if num_shards > n:
        raise InputError(
            f"Received {n} examples for {num_clients} clients x {shards_per_client} shards. "
            f"Expected at least {num_shards} examples, one per shard. "
            "Lower num_clients or shards_per_client."
        )
    generator = rng.generator(seed, "partition.shards")
    pools = class_pools(labels, generator)
    shard_sizes = np.full(num_shards, n // num_shards)
    # Longer shards at random places, else the first classes would have all of them.
    shard_sizes[generator.permutation(num_shards)[: n % num_shards]] += 1
    owner = np.repeat(generator.permutation(num_shards) // shards_per_client, shard_sizes)
    scheme = f"{shards_per_client} label-sorted shards per client, without replacement"
    return assemble(owner, pools, num_clients, n, scheme, generator)


def by_client_id(client_id: np.ndarray | Sequence[Any], seed: int = 0) -> Partition:
    """Groups the examples by the id (integer or string) of the client that owns each of them.

    For a data set that comes with its users, or a split made elsewhere. The partition's
    `client_ids` are the sorted ids (bytes as text). The seed only sets the order of the examples
    within a client.
    """
    ids = np.asarray(client_id)
    if ids.dtype == object and len({type(name) for name in ids.flat}) == 1:
        ids = np.asarray(ids.tolist())
    if ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iuSU":
        raise InputError(
            f"Received client ids of shape {ids.shape} and type {ids.dtype}. Expected one integer "
            "or string per example in a non-empty one-dimensional array. Convert the ids first."
        )
    names, owner = _distinct(ids)
    if names.dtype.kind == "S":
        names = np.char.decode(names, "utf-8", "backslashreplace")
    generator = rng.generator(seed, "partition.by_client_id")
    partition = assemble(
        owner, np.arange(len(ids)), len(names), len(ids), "given by client id", generator
    )
    return dataclasses.replace(partition, client_ids=tuple(names.tolist()))


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
    labels = checks.labels(labels_test)
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
    sizes = checked_sizes(None, len(labels), len(priors))
    generator = rng.generator(seed, "partition.validation")
    scheme = "class priors of the training clients, without replacement"
    return from_priors(labels, priors.copy(), sizes, False, scheme, generator)


def _with_every_class(partition: Partition, labels: np.ndarray, seed: int) -> Partition:
    """The partition in which every client has all classes of its prior, if it has room for them."""
    priors = partition.priors
    assert priors is not None
    counts = partition.class_counts(labels, priors.shape[1])
    lacking = np.argwhere((priors > 0) & (counts == 0))
    generator = rng.generator(seed, "partition.pathological.lacking")
    indices = partition.indices.copy()
    for client, y in lacking.tolist():
        most = int(counts[client].argmax())
        if counts[client, most] < 2:
            continue  # fewer examples than classes
        mine = np.arange(partition.offsets[client], partition.offsets[client + 1])
        entry = mine[labels[indices[mine]] == most][0]
        indices[entry] = generator.choice(np.flatnonzero(labels == y))
        counts[client, most] -= 1
        counts[client, y] += 1
    return dataclasses.replace(partition, indices=indices) if len(lacking) else partition


def _distinct(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ids, ascending, and the place of each id among them."""
    if ids.dtype.kind in "SU":
        return np.unique(ids, return_inverse=True)
    low, high = int(ids.min()), int(ids.max())
    if high - low >= 4 * len(ids) or high > np.iinfo(np.int64).max:
        return np.unique(ids, return_inverse=True)
    number = ids.astype(np.int64) - low  # few enough to be counted, which is faster than to sort
    there = np.bincount(number) > 0
    return (np.flatnonzero(there) + low).astype(ids.dtype), (np.cumsum(there) - 1)[number]


def _words(replacement: bool) -> str:
    return "with replacement (pools recycled)" if replacement else "without replacement"
