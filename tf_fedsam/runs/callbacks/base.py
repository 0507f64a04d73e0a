"""What a callback of a run is, in Keras' manner.

    class Bell(tf_fedsam.Callback):
        def on_round_end(self, round, record, state):
            if record["train_loss"] is not None and record["train_loss"] < 0.1:
                self.training.stop("the training loss is below 0.1")

A user's callbacks come first, before the round is written down: what they put into the record is
logged, drawn and saved like everything else, and a round in which one of them stops the run is
tested like a last one.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tf_fedsam.process import State
    from tf_fedsam.runs.training import Training


class Callback:
    """Base class; all methods do nothing.

    Attributes:
        training: the run under way: its ``config``, ``experiment``, ``folder`` and ``records``, and
            ``stop(reason)``, which ends it after this round.
    """

    training: "Training"

    def set_training(self, training: "Training") -> None:
        self.training = training

    def on_run_begin(self) -> None:
        """Before the first round, also of a run that goes on; ``training.records`` says how far."""

    def on_round_begin(self, round: int) -> None:
        """Before a round; ``round`` counts from 1."""

    def on_round_end(self, round: int, record: dict[str, Any], state: "State") -> None:
        """After a round.

        Args:
            round: counts from 1.
            record: what is logged of it.
            state: of training, to look at only.
        """

    def on_run_end(self) -> None:
        """After the last round, also of a run that fails."""
