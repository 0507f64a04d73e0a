"""Checkpoints: the state of training on disk, written in the background."""

from tf_fedsam.state.checkpoint.format import CheckpointError
from tf_fedsam.state.checkpoint.reader import load_latest
from tf_fedsam.state.checkpoint.writer import CheckpointWriter

__all__ = ["CheckpointError", "CheckpointWriter", "load_latest"]
