"""Which values of settings go together, and what follows from the others.

What a single value may be stands in its declaration, see :mod:`tf_fedsam.runs.config`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tf_fedsam import privacy, schedules
from tf_fedsam.analysis import probe_list
from tf_fedsam.data import augment as augmentation
from tf_fedsam.data import normalise as normalisation
from tf_fedsam.data.partition import SCHEMES
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.options import TrainingOptions
from tf_fedsam.runs import forms
from tf_fedsam.runs.settings import Setting

Settings = Mapping[str, Setting]

_SPLIT_OPTIONS = tuple(dict.fromkeys(o for scheme in SCHEMES.values() for o in scheme.options))
# The schemes that a setting of the split is for.
ONLY_FOR = {
    "num_clients": tuple(s.name for s in SCHEMES.values() if not s.needs_client_ids),
    **{
        option: tuple(s.name for s in SCHEMES.values() if option in s.options)
        for option in _SPLIT_OPTIONS
    },
}
# The schedules that a setting of the learning rate's or the radius's schedule is for.
OF_SCHEDULE = {
    "decay": ("exponential",),
    "step_rounds": ("step",),
    "step_factor": ("step",),
    "final_factor": schedules.WITH_AN_END,
}


def complete(
    values: dict[str, Any],
    options: dict[str, Any],
    given: Mapping[str, Any],
    settings: Settings,
) -> None:
    """Fills in what follows from other settings; ``None`` where a setting does not apply.

    Args:
        values: of all settings; changed.
        options: of the model; changed.
        given: the values that the user gave.
        settings: the declarations.

    Raises:
        InputError: for values that do not fit together.
    """
    _short_forms(values, options)
    _check_together(values, given, settings)
    _resolve_swa(values, given, settings)
    _resolve_privacy(values, given, settings)


def read_targets(text: str) -> tuple[float, ...]:
    """Accuracies with commas between, in order."""
    try:
        found = tuple(float(item) for item in text.split(",") if item.strip())
    except ValueError:
        found = (math.nan,)
    if not all(0 < target <= 1 for target in found):
        raise InputError(
            f"targets must be test accuracies in (0, 1] with commas between, such as 0.7,0.8. "
            f"Received: {text!r}.",
            "targets",
        )
    return tuple(sorted(set(found)))


def _short_forms(filled: dict[str, Any], options: dict[str, Any]) -> None:
    """Puts ``hidden_units`` and ``pretrained`` where they belong."""
    hidden, filled["hidden_units"] = filled["hidden_units"], None
    if hidden is not None:
        if filled["model"] != "mlp":
            raise InputError(
                f"hidden_units is for model=mlp. Received: model={filled['model']}. Remove it.",
                *("hidden_units", "model"),
            )
        options["hidden_units"] = hidden
    pretrained, filled["pretrained"] = filled["pretrained"], None
    if pretrained is not None:
        if "pretrained" not in options:
            raise InputError(
                f"pretrained is for transformers. Received: model={filled['model']}. Remove it; "
                f"init_weights=F.npz starts any model from saved weights.",
                *("pretrained", "model", "init_weights"),
            )
        options["pretrained"] = pretrained


def _check_together(values: dict[str, Any], given: Mapping[str, Any], settings: Settings) -> None:
    """Refuses what does not fit together; puts ``None`` where a setting does not apply."""
    if values["validation"] != "fresh":
        if "validation_clients" in given:
            raise InputError(
                f"validation_clients is for validation=fresh. Received: validation="
                f"{values['validation']}. Remove it.",
                *("validation_clients", "validation"),
            )
        values["validation_clients"] = None
    read_targets(values["targets"])
    forms.read_forms(values["export"])
    normalisation.read(values["normalise"])
    augmentation.read(values["augment"])
    names = probe_names(values["probes"], values["keep_local_models"])
    _check_for_probes(names, values, given)
    if (values["sampling"] == "schedule") != (values["client_schedule"] is not None):
        raise InputError(
            f"sampling=schedule and client_schedule=F.json go together. Received: "
            f"sampling={values['sampling']}, client_schedule={values['client_schedule']}.",
            *("sampling", "client_schedule"),
        )
    if values["client_state"] == "disk" and values["strategy"] == "multi_worker":
        raise InputError(
            "client_state=disk is for one machine: of several workers only one has the files. "
            "Received: strategy=multi_worker. Use client_state=memory.",
            *("client_state=", "strategy="),
        )
    if "local_steps" in given and "local_epochs" in given:
        raise InputError(
            "Give local_steps or local_epochs, not both.", "local_steps", "local_epochs"
        )
    if "participation" in given and "min_cohort" not in given:
        values["min_cohort"] = settings["min_cohort"].default  # not more than was asked for
    _check_holdout(values)
    _check_schedules(values, given)
    for name, schemes in ONLY_FOR.items():
        if values["partition"] in schemes:
            continue
        if name in given:
            raise InputError(
                f"{name} has no effect with partition={values['partition']}; it is for "
                f"{', '.join(schemes)}. Received: {given[name]}. Remove it.",
                *(name, "partition"),
            )
        values[name] = None


def _check_holdout(values: Mapping[str, Any]) -> None:
    if values["holdout"]:
        return
    if values["patience"] is not None:
        raise InputError(
            f"patience counts tests on held-out training examples. Received: patience="
            f"{values['patience']} with holdout=0. Add holdout=0.1, or use stop_at.",
            *("patience", "holdout", "stop_at"),
        )
    if values["holdout_from"] != "clients":
        raise InputError(
            f"holdout_from={values['holdout_from']} has no effect with holdout=0. Add "
            f"holdout=0.1, or remove it.",
            *("holdout_from", "holdout="),
        )


def _check_schedules(values: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Fills in what the schedules take, and ``None`` for what they do not."""
    kinds = {number: values[f"{number}_schedule"] for number in ("lr", "rho")}
    for number, kind in kinds.items():
        for word, takers in OF_SCHEDULE.items():
            name = f"{number}_{word}"
            if kind in takers:
                values[name] = _first(values[name], getattr(TrainingOptions, name))
                continue
            if name in given:
                raise InputError(
                    f"{name} has no effect with {number}_schedule={kind}; it is for "
                    f"{' and '.join(takers)}. Received: {given[name]}. Remove it.",
                    *(name, f"{number}_schedule"),
                )
            values[name] = None
    if not any(kind in schedules.WITH_AN_END for kind in kinds.values()):
        if values["schedule_rounds"] is not None:
            raise InputError(
                f"schedule_rounds is for schedules that end, {' and '.join(schedules.WITH_AN_END)}."
                f" Received: {values['schedule_rounds']}. Remove it.",
                "schedule_rounds",
            )
        return
    values["schedule_rounds"] = _first(values["schedule_rounds"], values["rounds"])
    if values["schedule_rounds"] < values["rounds"] and values["lr_final_factor"] == 0:
        raise InputError(
            f"The learning rate would be 0 after round {values['schedule_rounds']}. Received: "
            f"rounds={values['rounds']}, schedule_rounds={values['schedule_rounds']}. Give "
            f"lr_final_factor, such as 0.01, or raise schedule_rounds.",
            *("rounds=", "schedule_rounds", "lr_final_factor"),
        )


def _first(value: Any, default: Any) -> Any:
    return default if value is None else value


def _resolve_swa(values: dict[str, Any], given: Mapping[str, Any], settings: Settings) -> None:
    """Fills in what server SWA needs, which then does not change with other settings."""
    cycle = values["swa_cycle"]
    if cycle is None:
        _refuse_alone("swa_", "swa_cycle", given, settings)
        return
    if cycle == 1 and "swa_lr" in given:
        raise InputError(
            f"swa_lr is what the rate falls to in a cycle of several rounds. Received: swa_lr="
            f"{given['swa_lr']:g} with swa_cycle=1. Remove it, or use a longer cycle.",
            *("swa_lr", "swa_cycle="),
        )
    if values["swa_start"] is None:
        values["swa_start"] = values["rounds"] * 3 // 4
    if values["swa_lr"] is None and cycle > 1:
        values["swa_lr"] = 0.01 * values["lr"]


def _resolve_privacy(values: dict[str, Any], given: Mapping[str, Any], settings: Settings) -> None:
    """Refuses what makes an update's part in the mean unlimited; chooses the noise."""
    if values["dp_clip_norm"] is None:
        _refuse_alone("dp_", "dp_clip_norm", given, settings)
        return
    if values["dropout_rate"]:
        raise InputError(
            f"dp_clip_norm needs dropout_rate=0: if all clients of a round fail, one of them is "
            f"taken back, so that one client decides on another's part. Received: dropout_rate="
            f"{values['dropout_rate']:g}. Lower participation instead.",
            *("dp_clip_norm", "dropout_rate=", "participation"),
        )
    target, noise = values["dp_target_epsilon"], values["dp_noise_multiplier"]
    if target is not None:
        found = _noise_for(values)
        if noise is not None and not math.isclose(noise, found, rel_tol=1e-6):
            raise InputError(
                f"dp_target_epsilon={target:g} needs dp_noise_multiplier={found:.6g}. Received: "
                f"dp_noise_multiplier={noise:g}, too. Give one of them.",
                *("dp_target_epsilon=", "dp_noise_multiplier="),
            )
        noise = found
    values["dp_noise_multiplier"] = 0.95 if noise is None else noise


def _noise_for(values: Mapping[str, Any]) -> float:
    """The noise that the target asks for."""
    if values["sampling"] != "bernoulli":
        raise InputError(
            f"dp_target_epsilon is for sampling=bernoulli, the only one whose epsilon is known. "
            f"Received: sampling={values['sampling']}. Use sampling=bernoulli, or give "
            f"dp_noise_multiplier.",
            *("dp_target_epsilon", "sampling=", "dp_noise_multiplier"),
        )
    if values["dp_clip_scope"] != "global":
        raise InputError(
            f"dp_target_epsilon is for dp_clip_scope=global. Received: dp_clip_scope="
            f"{values['dp_clip_scope']}. Remove one of them.",
            *("dp_target_epsilon", "dp_clip_scope="),
        )
    delta, clients = values["dp_delta"], values["num_clients"]
    if delta is None and (clients is None or clients < 2):
        raise InputError(
            "dp_target_epsilon needs dp_delta, since it is not known beforehand how many clients "
            "there are. Received: none. Give one below 1 / number of clients.",
            *("dp_target_epsilon", "dp_delta"),
        )
    delta = 1 / clients if delta is None else delta
    target, rate = values["dp_target_epsilon"], values["participation"]
    return privacy.noise_for(target, rate, values["rounds"], delta)


def _refuse_alone(prefix: str, switch: str, given: Mapping[str, Any], settings: Settings) -> None:
    """Refuses settings of a plug-in that is not switched on."""
    for name, value in given.items():
        if name.startswith(prefix) and name != switch and value != settings[name].default:
            raise InputError(
                f"{name} has no effect without {switch}. Received: {value}. Add {switch}, or "
                f"remove it.",
                *(name, switch),
            )


def probe_names(given: str, local_models_kept: bool) -> tuple[str, ...]:
    """The probes that a text asks for, ``auto`` written out."""
    usual = (*probe_list.DEFAULT, *(["divergence"] if local_models_kept else []))
    asked = [] if given == "none" else [item.strip() for item in given.split(",")]
    names = tuple(dict.fromkeys(n for a in asked for n in (usual if a == "auto" else (a,))))
    for name in names:
        if name not in probe_list.NAMES:
            raise unknown("probe", name, (*probe_list.NAMES, "auto", "none"), _looks_at(name))
    if "divergence" in names and not local_models_kept:
        raise InputError(
            "probes=divergence needs the last local model of every client. Add "
            "keep_local_models; it takes room for as many models as there are clients.",
            *("probes", "keep_local_models"),
        )
    return names


def _check_for_probes(
    names: Sequence[str], values: dict[str, Any], given: Mapping[str, Any]
) -> None:
    """Refuses settings of probes that are not there."""
    for setting_name, probes in probe_list.ONLY_FOR.items():
        if set(probes) & set(names):
            continue
        if setting_name in given:
            more = ",".join([*([values["probes"]] if names else []), probes[0]])
            raise InputError(
                f"{setting_name} is for probes={' or '.join(probes)}. Received: "
                f"probes={values['probes']}. Use probes={more}, or remove {setting_name}.",
                *(setting_name, "probes"),
            )
        values[setting_name] = None


def _looks_at(word: str) -> str:
    """Which probes measure something of this name."""
    helps = {name: probe.help.lower() for name, probe in probe_list.PROBES.items()}
    told = [name for name, words in helps.items() if len(word) > 3 and word.lower() in words]
    return f"About {word}: {' and '.join(told)}." if told else ""
