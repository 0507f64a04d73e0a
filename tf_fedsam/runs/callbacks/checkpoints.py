"""Saves the state of a run, so that it can go on."""

from tf_fedsam.runs.callbacks.base import Callback
from tf_fedsam.state.checkpoint import CheckpointWriter
from tf_fedsam.state.files import LogChecksum

UNSAVED_BYTES = 1 << 28


class Checkpoints(Callback):
    """Saves after every ``checkpoint_every`` rounds and after the last one.

    If client state is on the disk, rows that are not saved are in memory: once they take more than
    ``UNSAVED_BYTES`` the state is saved sooner, and a round waits for the save before.
    """

    def on_run_begin(self):
        training = self.training
        self._state = None
        self._marked = False
        self._log = LogChecksum(training.folder.rounds_file)
        self._writer = CheckpointWriter(
            training.folder.checkpoints,
            training.config.keep_checkpoints,
            logs=[training.folder.rounds_file],
            release=training.on_disk,
        )

    def on_round_end(self, round, record, state):
        self._state = state
        self._mark()
        due = round % self.training.config.checkpoint_every == 0
        if due or (self.training.on_disk and state.clients.bytes_in_memory > UNSAVED_BYTES):
            self.save()

    def save(self) -> None:
        """Saves the newest state, if it is not saved yet."""
        state, training = self._state, self.training
        if state is not None and state.round_num > training.saved_round:
            if training.on_disk:
                self._writer.flush()
            num_bytes, sha256 = self._log()
            self._writer.save(state, {"log_bytes": num_bytes, "log_sha256": sha256})
            training.saved_round = state.round_num

    def on_run_end(self):
        self._writer.close()
        self._mark()

    def _mark(self) -> None:
        folder = self.training.folder
        if not self._marked and folder.has_checkpoints():
            folder.mark_saved()
            self._marked = True
