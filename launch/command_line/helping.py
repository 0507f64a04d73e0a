"""What launchers tell of a run's flags: help by group, and hints for mistakes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from launch.command_line import own_flags
from tf_fedsam import models, text
from tf_fedsam.algorithms import registry as algorithms
from tf_fedsam.checks import in_words
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.hparams import declared
from tf_fedsam.runs import task as tasks
from tf_fedsam.runs.config import GROUPED, SETTINGS, RunConfig
from tf_fedsam.runs.describe import reflowed
from tf_fedsam.runs.describe import value as written
from tf_fedsam.runs.settings import Group, Setting, parsed

SEE_HELP = "See --helpshort for all flags."
AGAIN = "The same command goes on where it stopped; --restart begins again."
SWEEP = "A sweep does that: python -m launch.sweep"
# What people call a flag elsewhere, and what to do here; `{}` is the value.
OTHER_NAMES = {
    "learning_rate|local_lr|client_lr|eta": "--lr={}",
    "global_lr|server_learning_rate": "--server_lr={}",
    "epochs|num_epochs|local_ep": "--local_epochs={} (of a client in a round); or --rounds",
    "num_rounds|comm_rounds|communication_rounds|n_rounds|global_rounds": "--rounds={}",
    "algorithm|method|optimizer": "--algo={}",
    "data|data_set|dataset_name": "--dataset={}",
    "net|network|arch|architecture|backbone": "--model={}",
    "split": "--partition={}",
    "dirichlet|concentration|dir_alpha": "--alpha={}",
    "clients|n_clients|num_users|total_client": "--num_clients={}",
    "frac|fraction|sample_rate|clients_per_round|num_clients_per_round|active_ratio": (
        "--participation, the share of the clients in a round"
    ),
    "bs|batch|batchsize|local_bs": "--batch_size={}",
    "wd|l2|weightdecay": "--weight_decay={}",
    "clip|max_norm|grad_clip|max_grad_norm": "--clip_norm={}",
    "out|out_dir|output|outdir|log_dir|logdir|save_dir|results_dir": "--output_dir={}",
    "random_seed": "--seed={}",
    "gpu|gpus|num_gpus|n_gpus|cuda|use_gpu": "--devices=gpu:1, or gpu:N for N of them",
    "device": "--devices={}, which is auto, cpu:N or gpu:N",
    "cpu|cpus|num_cpus|threads|num_threads": "--devices=cpu:N",
    "resume|resume_from|load|continue|checkpoint|checkpoint_dir|ckpt": AGAIN,
    "overwrite|force|fresh": "--restart",
    "momentum|server_momentum": "--algo=fedavgm, fedcm or fednsam; or --nesterov={} on any",
    "algos|datasets|seeds|grid|jobs": SWEEP,
    "list|list_methods": "--list_algorithms",
}


def helped(args: Sequence[str], about: str | None) -> bool:
    """Whether help was asked for, which is then shown.

    Args:
        args: without the program's name.
        about: what the launcher does.
    """
    if not {"--helpfull", *own_flags.HELP} & set(args):
        return False
    given = {n: v for arg in args for n, v in re.findall(r"--?(dataset|algo)=(.*)", arg)}
    text.say(f"{reflowed((about or '').strip())}\n\n{by_group(RunConfig.from_values(given))}")
    return True


def by_group(config: RunConfig) -> str:
    """All flags with their defaults for a data set and a method."""
    defaults = config.resolve()
    title = f"Defaults are those of --dataset={defaults.dataset} --algo={defaults.algo}."
    parts = [f"{title} Give others to see theirs."]
    for group in Group:
        own = [s for s in SETTINGS.values() if s.group is group]
        parts.append(text.table([_line(s, getattr(defaults, s.name)) for s in own], group.value))
    rest = [flag for flag in _launchers_own() if flag.name not in SETTINGS]
    rows = [own_flags.line(flag) for flag in sorted(rest, key=lambda flag: flag.name)]
    rows.append(("--flagfile", "Flags in a file, one a line."))
    parts.append(text.table(rows, "This command"))
    return "\n\n".join(parts)


def _launchers_own() -> list[flags.Flag]:
    """The flags that are no settings."""
    modules = ["launch.command_line.flags", "launch.partition", "__main__"]
    return [flag for module in modules for flag in flags.FLAGS.get_flags_for_module(module)]


def _line(setting: Setting, default: Any) -> tuple[str, str]:
    if setting.name in GROUPED:
        inner = ", ".join(f"{n}={written(v)}" for n, v in default.items()) or "none"
        return f"--{setting.name}.NAME", f"{setting.help} Here: {inner}."
    names = {"dataset": tasks.all_tasks(), "model": models.names()}.get(setting.name, ())
    there = f" There are: {', '.join(names)}." if names else ""
    if setting.choices:
        there = f" One of: {', '.join(setting.choices)}."
    elif setting.valid:
        there = f" Valid: {in_words(setting.valid)}."
    shown = "" if default is None else f"={written(default)}"
    return f"--{setting.name}{shown}", f"{setting.help}{there}"


def unknown_flag(name: str, received: str, algo: str, model: str) -> InputError:
    """The error for a flag that does not exist, with what was meant."""
    hint = _meant(name, received, algo, model)
    if hint:
        return InputError(f"There is no flag --{name}. {hint}")
    there = {*SETTINGS, *(f.name for f in _launchers_own()), "helpshort", "flagfile"}
    error = unknown("flag", name, there - {*GROUPED})
    told = re.sub(r"'([\w.-]+)'", r"--\1", str(error).partition(" Expected one of")[0])
    return InputError(f"{told} {SEE_HELP}")


def _meant(name: str, received: str, algo: str, model: str) -> str:
    plain = name.lower().replace("-", "_")
    if plain in SETTINGS and plain not in GROUPED:
        return f"Use --{plain}={received}."
    owners = [n for n, a in algorithms.all_algorithms().items() if plain in declared(a.Hparams)]
    if plain in declared(algorithms.find(algo).Hparams):
        return f"Use --hparams.{plain}={received}; --describe={algo} tells of it."
    if plain in models.options(model):
        return f"Use --model_options.{plain}={received}; --describe={model} tells of it."
    for names, instead in OTHER_NAMES.items():
        if plain in names.split("|"):
            use = instead.replace("{}", received or "VALUE")
            return use if instead in (AGAIN, SWEEP) else f"Use {use}."
    if owners:
        return (
            f"{plain} is a hyper-parameter, --hparams.{plain}={received}, of {', '.join(owners)}. "
            f"Received: --algo={algo}."
        )
    return ""


def wrong_value(error: Exception, own: Mapping[str, Mapping[str, Any]]) -> InputError | None:
    """What to tell of a value that its flag cannot have; ``None`` if the error is not of that kind.

    Args:
        error: of absl.
        own: by group, the defaults of the method's and of the model's own flags.
    """
    match = re.match(r"flag --(\S+?)=(.*?): ", str(error), re.DOTALL)
    if match is None:
        return None
    name, received = match.groups()
    group, _, inner = name.partition(".")
    try:
        if name in SETTINGS:
            SETTINGS[name].check(parsed(name, received, SETTINGS[name].kind))
        else:
            parsed(name, received, type(own[group][inner]) if group in own else bool)
    except InputError as told:
        return InputError(f"{told} {SEE_HELP}", *told.settings)
    if name in SETTINGS and SETTINGS[name].kind is int:  # such as 1e3, which absl does not read
        digits = parsed(name, received, int)
        return InputError(f"--{name} must be written in digits: {digits}. Received: {received!r}.")
    return None
