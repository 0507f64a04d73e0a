"""A round of a large cohort in waves, so that only a wave's rows of client state are in memory.

On every replica the clients come one after another in the order they have in one wave of all, and
go on adding to the same sums; only the rows come and go with the wave. So the result is the same
bit for bit.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from tf_fedsam.algorithms.base import Vectors
from tf_fedsam.data import arrays
from tf_fedsam.data.batches import Cohort
from tf_fedsam.engine import cohort as cohorts
from tf_fedsam.engine.placement import Placement
from tf_fedsam.engine.round import CompiledRound, Scalars
from tf_fedsam.engine.sums import ClientTable, Sums

BYTES = 64 * 2**20  # of a wave's rows where waves cost no time
GATHERED = 8  # clients whose rows are copied to a device at a time


class Clients(Protocol):
    """What is kept for clients, by their positions."""

    lengths: dict[str, int]

    def prefetch(self, positions: np.ndarray) -> None: ...

    def gather(self, positions: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]: ...

    def scatter(
        self, positions: np.ndarray, matrices: Mapping[str, np.ndarray], mask: np.ndarray
    ) -> None: ...


def split(members: Sequence[np.ndarray], size: int) -> list[list[np.ndarray]]:
    """For each wave the clients of each replica, by their numbers in the cohort.

    Args:
        members: for each replica all its clients.
        size: most clients of a wave.
    """
    each = max(1, size // len(members))
    return [
        [own[begin : begin + each] for own in members]
        for begin in range(0, max(map(len, members)), each)
    ]


def part(cohort: Cohort, numbers: np.ndarray) -> Cohort:
    """Some clients of a cohort, as a cohort."""
    ends = np.append(cohort.order_start, len(cohort.order))
    orders = [cohort.order[ends[n] : ends[n + 1]] for n in numbers]
    lengths = np.asarray([len(order) for order in orders], np.int64)
    return Cohort(
        positions=cohort.positions[numbers],
        num_examples=cohort.num_examples[numbers],
        num_steps=cohort.num_steps[numbers],
        order=np.concatenate([np.zeros(0, np.int64), *orders]),
        order_start=np.cumsum(lengths) - lengths,
        seeds=cohort.seeds[numbers],
    )


def gathered(clients: Clients, positions: np.ndarray) -> tuple[dict[str, tf.Tensor], np.ndarray]:
    """The clients' vectors as one matrix a name, and which clients have any; no second copy."""
    matrices: dict[str, np.ndarray] = {}
    seen = np.zeros(len(positions), bool)
    for begin in range(0, len(positions), GATHERED):
        some = slice(begin, begin + GATHERED)
        rows, seen[some] = clients.gather(positions[some])
        for name, part in rows.items():
            if name not in matrices:
                shape = (len(positions), part.shape[1])
                matrices[name] = arrays.shareable(shape, part.dtype)
            matrices[name][some] = part
    for matrix in matrices.values():
        matrix.flags.writeable = False
    return {name: arrays.as_tensor(matrix) for name, matrix in matrices.items()}, seen


class Waves:
    """Rounds in waves.

    Args:
        compiled: the round in one wave, whose parts are used.
        placement: the devices.
        weighting: of the mean over clients.
    """

    def __init__(self, compiled: CompiledRound, placement: Placement, weighting: str):
        self._compiled = compiled
        self._placement = placement
        self._weighting = weighting
        self._functions: tuple[Any, Any, Any] | None = None

    def __call__(
        self,
        server: Vectors,
        cohort: Cohort,
        round_num: int,
        lr: float,
        clients: Clients,
        waves: Sequence[Sequence[np.ndarray]],
        upcoming: np.ndarray,
    ) -> tuple[Vectors, np.ndarray, Scalars]:
        """The server after the round, the clients' table, and numbers to log.

        The new rows of the clients that reported are kept wave by wave.

        Args:
            server: before the round.
            cohort: the clients and their batches.
            round_num: the round, from 0.
            lr: learning rate of the round.
            clients: what is kept for them.
            waves: who trains when and where, as ``split`` gives it.
            upcoming: positions of the next round's clients, whose files are read during the last
                wave.
        """
        table = np.zeros((len(cohort.positions), len(ClientTable._fields)), np.float32)
        numbers = self._compiled.numbers(round_num, lr)
        totals: Any = None
        each = [np.sort(np.concatenate(members)) for members in waves]
        for number, (members, mine) in enumerate(zip(waves, each, strict=True)):
            wave = part(cohort, mine)
            rows, seen = gathered(clients, wave.positions)
            for following in each[number + 1 : number + 2]:
                clients.prefetch(cohort.positions[following])
            order, streamed = self._compiled.examples.of_cohort(wave.order)
            if members is waves[-1]:
                self._compiled.examples.prefetch(upcoming)
            places = [np.searchsorted(mine, own) for own in members]
            wave = dataclasses.replace(wave, order=order)
            inputs = cohorts.make(wave, seen, self._weighting, places)
            with self._placement.rewrites():
                if self._functions is None:
                    self._functions = self._compile(server, rows)
                nobody, train, finish = self._functions
                totals = nobody(server) if totals is None else totals
                totals, told, new_rows = train(server, inputs, rows, *numbers, streamed, totals)
            table[mine] = told.numpy()
            self._keep(clients, wave.positions, places, new_rows, table[mine, 0] > 0)
            del rows, new_rows  # before the next ones are gathered
        with self._placement.rewrites():
            new_server, scalars = finish(server, *numbers, totals, table)
        return new_server, table, scalars

    def _keep(
        self,
        clients: Clients,
        positions: np.ndarray,
        places: Sequence[np.ndarray],
        rows: Mapping[str, Sequence[tf.Tensor]],
        reported: np.ndarray,
    ) -> None:
        """Keeps what each replica gives; where rows are gathered, what they all give."""
        pieces = len(next(iter(rows.values())))
        orders = places if pieces == len(places) else [np.concatenate(places)]
        for number, entries in enumerate(orders):
            # Views of the tensors: the store makes the only copy.
            views = {name: np.asarray(memoryview(each[number])) for name, each in rows.items()}
            clients.scatter(positions[entries], views, reported[entries])

    def _compile(self, server: Vectors, rows: Mapping[str, np.ndarray]) -> tuple[Any, Any, Any]:
        """The sums over nobody on every replica, a wave, and the end of the round."""
        compiled, placement = self._compiled, self._placement

        @tf.function(autograph=False)
        def nobody(server):
            return placement.run(compiled.nobody, server)

        sums = tf.nest.map_structure(tf.type_spec_from_value, nobody(server))
        before, inputs, matrices, round_num, rates, streamed = compiled.signature(server, rows)

        @tf.function(
            input_signature=(before, inputs, matrices, round_num, rates, streamed, sums),
            autograph=False,
        )
        def train(server, inputs, rows, round_num, rates, streamed, totals):
            old, round_ = compiled.parts(server, round_num, rates)

            def share(x, y, totals):
                empty = tf.zeros([inputs.size, len(ClientTable._fields)])
                start = totals._replace(table=empty)
                added, new_rows = compiled.train_share(old, round_, inputs, rows, x, y, start)
                return added._replace(table=empty[:0]), added.table, new_rows

            x, y = compiled.examples.of_round(streamed)
            added, table, new_rows = placement.run(share, x, y, totals)
            each = {name: placement.each(r) for name, r in new_rows.items()}
            return added, placement.total(table), each

        @tf.function(
            input_signature=(before, round_num, rates, sums, tf.TensorSpec([None, None])),
            autograph=False,
        )
        def finish(server, round_num, rates, totals, table):
            old, round_ = compiled.parts(server, round_num, rates)
            whole: Sums = placement.total(totals)._replace(
                table=tf.ensure_shape(table, [None, len(ClientTable._fields)])
            )
            return compiled.finish(old, round_, whole)

        return nobody, train, finish
