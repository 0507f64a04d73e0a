"""What happens around the rounds of a run; a user's own callback is one more of them."""

from tf_fedsam.runs.callbacks.base import Callback
from tf_fedsam.runs.callbacks.csv_logger import CSVLogger
from tf_fedsam.runs.callbacks.mlflow import MLflow
from tf_fedsam.runs.callbacks.patience import Patience
from tf_fedsam.runs.callbacks.stop_at import StopAt
from tf_fedsam.runs.callbacks.wandb import WandB

__all__ = ["CSVLogger", "Callback", "MLflow", "Patience", "StopAt", "WandB"]
