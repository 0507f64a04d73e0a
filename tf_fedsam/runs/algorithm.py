"""The algorithm of a run, made of its settings."""

from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.dp import DP
from tf_fedsam.algorithms.nesterov import Nesterov
from tf_fedsam.algorithms.relaxed_init import RelaxedInit
from tf_fedsam.algorithms.swa import SWA
from tf_fedsam.runs.config import ResolvedConfig


def make_algorithm(config: ResolvedConfig, divisor: float = 1.0) -> Algorithm:
    """The algorithm with its plug-ins, from the inside out.

    Args:
        config: of the run.
        divisor: of the private mean over clients; only training needs the right one.
    """
    algorithm = config.algorithm(server_lr=config.server_lr, **config.hparams)
    if config.relaxed_init is not None:
        algorithm = RelaxedInit(algorithm, config.relaxed_init)
    if config.nesterov is not None:
        algorithm = Nesterov(algorithm, config.nesterov)
    if config.dp_clip_norm is not None:
        algorithm = DP(
            algorithm,
            config.dp_clip_norm,
            config.dp_noise_multiplier,
            divisor=divisor,
            scope=config.dp_clip_scope,
            seed=config.seed if config.dp_seed is None else config.dp_seed,
        )
    if config.swa_cycle is not None:
        algorithm = SWA(
            algorithm,
            config.swa_cycle,
            config.swa_start,
            config.swa_lr or 0.0,
            config.swa_collect,
        )
    return algorithm
