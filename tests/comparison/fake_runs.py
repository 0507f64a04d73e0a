"""Run folders without training: plausible logs, made in no time.

Accuracy goes to a ceiling that depends on the method, plus noise of the seed that all methods share
and noise of the run. Nothing here is a result.
"""

import json
import pathlib
from typing import Any

import numpy as np

from tf_fedsam.analysis import results

CEILINGS = {"fedavg": 0.62, "fedsam": 0.66, "mofedsam": 0.73, "fednsam": 0.75, "scaffold": 0.68}
GRADIENTS = {"fedsam": 2, "mofedsam": 2}
MODEL_BYTES = 800_000
CLASSES = [*"0123456789"]


def make_run(
    folder: pathlib.Path,
    *,
    algo: str = "fedavg",
    seed: int = 0,
    rounds: int = 20,
    done: int | None = None,
    stopped: str = "",
    probe_every: int = 0,
    ceiling: float | None = None,
    data: str = "d0",
    num_clients: int = 30,
    plain: bool = False,
    **settings: Any,
) -> pathlib.Path:
    """Writes a run folder and returns it.

    Args:
        folder: to be made.
        algo, seed, rounds: settings.
        done: rounds in the log; fewer than ``rounds`` is a run that is not complete.
        stopped: why a callback ended the run after so many rounds, which makes it complete.
        probe_every: as the setting.
        ceiling: the accuracy training goes to.
        data: fingerprint of the data.
        num_clients: of the split.
        plain: only what every log has, no diagnostics and no probes.
        settings: others; ``hparams`` is a dict.
    """
    folder.mkdir(parents=True)
    done = rounds if done is None else done
    (folder / "config.json").write_text(
        json.dumps(make_config(algo, seed, rounds, data, num_clients, settings, plain), indent=2)
    )
    records = make_records(algo, seed, rounds, done, probe_every, ceiling, num_clients, plain)
    lines = [json.dumps(record) + "\n" for record in records]
    (folder / "rounds.jsonl").write_text("".join(lines))
    summary = results.summarise(records) if records else {}
    if stopped:
        wanted = {"rounds": rounds, "stop_at": settings.get("stop_at")}
        summary["stopped"] = {"reason": stopped, "wanted": wanted}
    if stopped or done == rounds:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def make_config(algo, seed, rounds, data, num_clients, settings, plain) -> dict[str, Any]:
    split = np.random.default_rng([9, seed])
    mix = split.dirichlet([0.3] * len(CLASSES), num_clients)
    counts = np.stack([split.multinomial(200, p) for p in mix])
    common = {
        "algo": algo,
        "dataset": "mnist",
        "model": "mlp",
        "seed": seed,
        "rounds": rounds,
        "num_clients": num_clients,
        "participation": 0.1,
        "partition": "dirichlet",
        "alpha": 0.3,
        "lr": 0.1,
        "local_epochs": 5,
        "batch_size": 50,
        "devices": "cpu:2",
        "model_options": {},
        "hparams": {"rho": 0.1} if "sam" in algo else {},
        "relaxed_init": None,
        "subset": None,
    }
    return {
        "command": f"python -m launch.main --algo={algo} --dataset=mnist --seed={seed}",
        "settings": common | settings,
        "algorithm": {"server_lr": 1.0},
        "data": {
            "source": "made up",
            "train_examples": 60000,
            "test_examples": 10000,
            "input_shape": [28, 28, 1],
            "num_classes": 10,
            "class_names": CLASSES,
        },
        "partition": {
            "scheme": "Dirichlet 0.3 per client",
            "num_clients": num_clients,
            "with_replacement": False,
            "fingerprint": f"split{seed}",
        },
        **({} if plain else {"split": {"class_counts": counts.tolist()}}),
        "num_parameters": 199210,
        "devices": ["/device:CPU:0", "/device:CPU:1"],
        "inputs": {"data": data, "split": f"split{seed}"},
        "versions": {"python": "3.11.2", "tensorflow": "2.20.0", "tf_fedsam": "0.1.0"},
        "source": {"revision": "0123abcd" * 5, "dirty": False, "fingerprint": "feed"},
    }


def make_records(algo, seed, rounds, done, probe_every, ceiling, num_clients, plain):
    top = CEILINGS.get(algo, 0.6) if ceiling is None else ceiling
    shared = np.random.default_rng([1, seed])
    own = np.random.default_rng([2, seed, *map(ord, algo)])
    shift = 0.02 * shared.normal() + 0.004 * own.normal()
    records: list[dict[str, Any]] = []
    for index in range(1, done + 1):
        progress = 1 - np.exp(-4 * index / rounds)
        accuracy = float(np.clip((top + shift) * progress + 0.006 * own.normal(), 0, 1))
        loss = 2.4 * (1 - progress) + 0.4
        record = {
            "round": index,
            "client_ids": [1, 2, 3],
            "num_steps": [20, 20, 20],
            "lr": 0.1 * 0.998 ** (index - 1),
            "train_loss": loss + 0.05 * own.normal(),
            "num_reported": 3,
            "failed_client_ids": [],
            "skipped": False,
            "bytes_down": 3 * MODEL_BYTES,
            "bytes_up": 3 * MODEL_BYTES,
            "gradient_evaluations": 60 * GRADIENTS.get(algo, 1),
            "update_norm": 2 * (1 - 0.7 * progress),
            "seconds": 0.4 * GRADIENTS.get(algo, 1) * (1 + 0.1 * own.random()),
            "test_loss": loss + 0.2,
            "test_accuracy": accuracy,
            "eval_seconds": 0.1,
        }
        if not plain:
            record |= diagnostics(algo, progress, own)
            if index == rounds or (probe_every and index % probe_every == 0):
                record |= probes(accuracy, progress, own, num_clients)
            record = results.with_totals(record, records)
        records.append(record)
    return records


def diagnostics(algo, progress, own) -> dict[str, Any]:
    flat = 0.4 if "sam" in algo else 1.0
    return {
        "vectors_down": 3,
        "vectors_up": 3,
        "flatness_distance": flat * (1.2 - progress) * (1 + 0.1 * own.random()),
        "dispersion": 0.8 * flat * (1.2 - progress) * (1 + 0.1 * own.random()),
        "update_cosine": 0.1 + 0.3 * progress + 0.02 * own.normal(),
        "momentum_cosine": None if algo == "fedavg" else 0.2 + 0.3 * progress,
        "perturbation_norm": 0.1 if "sam" in algo else None,
    }


def probes(accuracy, progress, own, num_clients) -> dict[str, Any]:
    found: dict[str, Any] = {
        "global_train_loss": 2.2 - 1.7 * progress,
        "global_train_accuracy": min(1.0, accuracy + 0.03),
        "sharpness": 0.4 - 0.2 * progress,
        "hessian_eigenvalue": 40 - 20 * progress + own.normal(),
    }
    for part in ("train", "test"):
        each = np.clip(accuracy + 0.12 * own.normal(size=num_clients), 0, 1)
        name = f"client_{part}_accuracy"
        found |= {
            f"{name}_mean": float(each.mean()),
            f"{name}_std": float(each.std()),
            f"{name}_worst": float(each.min()),
            f"{name}_worst_decile": float(np.sort(each)[: max(1, num_clients // 10)].mean()),
            f"{name}_histogram": np.histogram(each, 20, (0, 1))[0].tolist(),
        }
    classes = len(CLASSES)
    right = np.round(1000 * accuracy)
    wrong = own.multinomial(int(1000 - right), [1 / classes] * classes, size=classes)
    found["confusion"] = (wrong + np.eye(classes, dtype=int) * int(right)).tolist()
    return found


def make_sweep(folder: pathlib.Path, algos=("fedavg", "fedsam", "fednsam"), seeds=3, **more):
    """A folder of run folders, a run each of these algorithms and seeds."""
    for algo in algos:
        for seed in range(seeds):
            make_run(folder / f"{algo}-{seed}", algo=algo, seed=seed, **more)
    return folder
