"""Float64 NumPy references of the plug-ins server SWA and client-level differential privacy.

Written from their equations, around the methods of `methods`: local steps are theirs, and what the
plug-ins do to the rate, the updates and the server stands here in full.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.reference.methods import METHODS, Problem, Settings, Vector


def run_swa(
    method: str,
    problem: Problem,
    schedule: list[list[int]],
    *,
    cycle: int,
    start: int,
    end_lr: float,
    collect: str = "end",
    lr: float,
    lr_decay: float,
    **hparams: Any,
) -> tuple[list[Vector], list[Vector]]:
    """The models that training and reporting have after every round.

    rate     t >= start and cycle > 1:  tau = ((t - start) mod cycle + 1) / cycle,
             lr_t <- (1 - tau) lr_t + tau end_lr
    collect  the model after round t >= start with (t + 1 - start) mod cycle == 0
    report   the mean of the models that were collected, if there is one

    "official": tau = (t mod cycle + 1) / cycle; after t > start with (t - start) mod cycle == 0.
    """
    algorithm = METHODS[method](problem, Settings(), **hparams)
    model = np.array(problem.initial, float)
    trained, reported, collected = [], [], []
    for t, cohort in enumerate(schedule):
        rate = lr * lr_decay**t
        phase = t - start if collect == "end" else t
        if t >= start and cycle > 1:
            tau = (phase % cycle + 1) / cycle
            rate = (1 - tau) * rate + tau * end_lr
        algorithm.settings = dataclasses.replace(algorithm.settings, lr=rate, lr_decay=1.0)
        model = algorithm.round(t, model, cohort)
        if collect == "end":
            due = t >= start and (t + 1 - start) % cycle == 0
        else:
            due = t > start and (t - start) % cycle == 0
        collected += [model] if due else []
        trained.append(model)
        reported.append(np.mean(collected, axis=0) if collected else model)
    return trained, reported


def clipped(delta: Vector, clip_norm: float, tensors: list[slice]) -> Vector:
    """Each of these parts of the vector shortened to the clip norm, if it is longer."""
    result = delta.copy()
    for part in tensors:
        length = np.linalg.norm(delta[part])
        if length > clip_norm:
            result[part] = delta[part] * clip_norm / length
    return result


def run_dp(
    method: str,
    problem: Problem,
    schedule: list[list[int]],
    *,
    clip_norm: float,
    noise_multiplier: float,
    divisor: float,
    noise: Callable[[int], Vector],
    lr: float,
    lr_decay: float = 1.0,
    tensors: list[slice] | None = None,
    relaxed_init: float | None = None,
    nesterov: float = 0.0,
    local_momentum: float = 0.0,
    **hparams: Any,
) -> list[Vector]:
    """The model after every round of FedAvg, FedSAM, FedCM or FedDyn with private updates.

    client   Delta_i <- Delta_i min(1, C / |Delta_i|), w_i <- start + Delta_i
    server   S = sum_i Delta_i + z C noise(t)
             FedAvg, FedSAM:  w <- w + S / m
             FedCM:           D <- -S / (m R),     w <- w + S / m
                              R = K lr; how far the K steps go along a direction of length 1
             FedDyn:          h <- h + S / N,      w <- w + S / m + h
             Nesterov:        the same from z = w + lam p;  p <- lam p + (z' - z),  w <- w + p
    """
    settings = Settings(
        lr=lr, lr_decay=lr_decay, relaxed_init=relaxed_init, local_momentum=local_momentum
    )
    algorithm = METHODS[method](problem, settings, **hparams)
    tensors = [slice(None)] if tensors is None else tensors
    model = np.array(problem.initial, float)
    momentum, dual, models = np.zeros_like(model), np.zeros_like(model), []
    for t, cohort in enumerate(schedule):
        sent = model + nesterov * momentum
        total = noise_multiplier * clip_norm * noise(t)
        algorithm.set_radius(t)
        for client in cohort:
            visit = algorithm.visit(t, client, sent, problem.batches(t, client))
            delta = clipped(visit.delta, clip_norm, tensors)
            if method == "feddyn":
                algorithm.clients[client]["h"] = algorithm.clients[client]["h"] + delta
            if relaxed_init is not None:
                algorithm.clients[client]["last"] = visit.start + delta
            total = total + delta
        if method == "fedcm":
            reach = velocity = 0.0
            for _ in problem.batches(t, 0):  # the same number on every client
                velocity = local_momentum * velocity + 1
                reach += lr * lr_decay**t * velocity
            algorithm.server["D"] = -total / (divisor * reach)
        if method == "feddyn":
            dual = dual + total / problem.num_clients
        moved = sent + total / divisor + dual
        momentum = nesterov * momentum + moved - sent
        model = model + momentum
        models.append(model)
    return models
