"""The schemes by name, with the options that each takes."""

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tf_fedsam.data.partition import checks, schemes
from tf_fedsam.data.partition.base import Partition
from tf_fedsam.data.partition.sizes import client_sizes
from tf_fedsam.errors import InputError, unknown


@dataclasses.dataclass(frozen=True)
class Scheme:
    """A way of cutting a data set into clients.

    Attributes:
      name: what `make` calls it.
      cut: the function behind it.
      required: options that must be given.
      optional: options that have a default.
      needs_client_ids: whether the data say who owns each example; then nobody chooses how many
        clients there are.
    """

    name: str
    cut: Callable[..., Partition]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    needs_client_ids: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        return self.required + self.optional


_ALL = (
    Scheme("dirichlet", schemes.dirichlet, ("alpha",), ("replacement", "size_sigma")),
    Scheme("dirichlet_classes", schemes.dirichlet_classes, ("alpha",)),
    Scheme("iid", schemes.iid, (), ("size_sigma",)),
    Scheme(
        "pathological",
        schemes.pathological,
        ("classes_per_client",),
        ("replacement", "size_sigma"),
    ),
    Scheme("shards", schemes.shards, ("shards_per_client",)),
    Scheme("natural", schemes.by_client_id, needs_client_ids=True),
    Scheme("given", schemes.by_client_id, needs_client_ids=True),
)
SCHEMES: Mapping[str, Scheme] = types.MappingProxyType({scheme.name: scheme for scheme in _ALL})


def make(
    scheme: str,
    labels: np.ndarray | Sequence[int],
    num_clients: int | None = None,
    seed: int = 0,
    *,
    client_id: np.ndarray | Sequence[Any] | None = None,
    **options: Any,
) -> Partition:
    """Cuts examples with these labels into clients.

    Args:
      scheme: one of `SCHEMES`.
      labels: the class of every example.
      num_clients: how many clients; None for a scheme that needs client ids.
      seed: the run's seed.
      client_id: who owns each example, for "natural" and "given"; the other schemes do not look.
      **options: those of the scheme. alpha: concentration of the Dirichlet distribution;
        replacement: whether used-up classes are refilled; size_sigma: log-normal spread of the
        client sizes, 0 is balanced; classes_per_client; shards_per_client.
    """
    if scheme not in SCHEMES:
        raise unknown("partition", scheme, SCHEMES)
    found = SCHEMES[scheme]
    labels = checks.labels(labels)
    _check_options(found, options)
    if found.needs_client_ids:
        _check_owners(found, len(labels), num_clients, client_id)
        return found.cut(client_id, seed)
    if num_clients is None:
        raise InputError(
            f"Received no num_clients for partition={scheme!r}. Expected how many clients there "
            "are. Set num_clients, for example to 100."
        )
    sigma = options.pop("size_sigma", 0.0)
    if sigma:
        options["sizes"] = client_sizes(len(labels), num_clients, seed, sigma)
    return found.cut(labels, num_clients, seed=seed, **options)


def _check_options(scheme: Scheme, options: Mapping[str, Any]) -> None:
    takes = ", ".join(scheme.options) or "no options"
    for name, value in options.items():
        if name not in scheme.options:
            users = [other.name for other in SCHEMES.values() if name in other.options]
            where = f"; {name} is for {', '.join(users)}" if users else ""
            raise InputError(
                f"Received {name}={value!r} for partition={scheme.name!r}. Expected {takes}{where}."
                f" Remove {name}."
            )
    for name in scheme.required:
        if options.get(name) is None:
            raise InputError(
                f"Received no {name} for partition={scheme.name!r}. Expected {takes}. Set {name}."
            )


def _check_owners(scheme: Scheme, n: int, num_clients: Any, client_id: Any) -> None:
    if num_clients is not None:
        raise InputError(
            f"Received num_clients={num_clients} for partition={scheme.name!r}. Expected none: the "
            "data say who the clients are. Remove num_clients."
        )
    if client_id is None:
        raise InputError(
            f"Received no client_id for partition={scheme.name!r}. Expected the client of every "
            "example. Give client_id, or use a scheme that draws the clients, such as dirichlet."
        )
    if len(client_id) != n:
        raise InputError(
            f"Received {len(client_id)} client ids for {n} examples. Expected one per example. "
            "Make them equally long."
        )
