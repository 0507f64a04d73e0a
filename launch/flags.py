"""The flags of a run, and how the ones a user leaves out are filled in.

A value comes from the first that has one: the command line, the data set for this algorithm, the
data set, ``DEFAULTS``.
"""

import dataclasses
import functools
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
from absl import flags
from ml_collections import config_flags

from launch import repeat
from tasks import registry as tasks_registry
from tasks.base import Task
from tf_fedsam import models
from tf_fedsam.algorithms import registry as algorithms_registry
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.analysis import probes
from tf_fedsam.errors import InputError, unknown

DEFAULTS: dict[str, Any] = {
    "algo": "fedavg",
    "dataset": "glyphs",
    "model": "mlp",
    "seed": 0,
    "rounds": 100,
    "num_clients": 100,
    "participation": 0.1,
    "sampling": "fixed",
    "partition": "dirichlet",
    "alpha": 0.3,
    "replacement": False,
    "stream": "auto",
    "size_sigma": 0.0,
    "classes_per_client": 2,
    "shards_per_client": 2,
    "client_noise": 0.0,
    "category_noise": 0.0,
    "dropout_rate": 0.0,
    "step_fraction_min": 1.0,
    "local_epochs": 5,
    "batch_size": 50,
    "lr": 0.1,
    "lr_decay": 0.998,
    "weight_decay": 1e-3,
    "clip_norm": 10.0,
    "clip_scope": "full",
    "weighting": "uniform",
    "norm_state": "average",
    "precision": "float32",
    "trainable": "all",
    "eval_every": 1,
    "diagnostics": True,
    "probe_every": 0,
    "probes": "auto",
    "probe_examples": 2000,
    "sharpness_rho": 0.1,
    "validation": "auto",
    "validation_clients": 50,
    "keep_local_models": False,
    "targets": "",
    "checkpoint_every": 1,
    "keep_checkpoints": 2,
    "max_failed_rounds": 10,
    "deterministic": False,
    "devices": "auto",
}
PARTITIONS = (
    "dirichlet",
    "dirichlet_classes",
    "iid",
    "pathological",
    "shards",
    "natural",
    "given",
)
# What a resumed run may do differently: more rounds, other devices, other logging.
FREE_ON_RESUME = (
    *("rounds", "devices", "eval_every", "checkpoint_every", "keep_checkpoints"),
    *("max_failed_rounds", "diagnostics", "probe_every", "probes", "probe_examples"),
    *("sharpness_rho", "validation", "validation_clients", "targets"),
)
_GROUPS = ("hparams", "model_options")


@functools.cache
def define() -> None:
    """Defines the flags, once for all launchers of a process.

    A flag without a default here is filled in by :func:`resolve`.
    """
    text, whole, number = flags.DEFINE_string, flags.DEFINE_integer, flags.DEFINE_float
    choice = flags.DEFINE_enum

    text("algo", None, "Algorithm (see --list_algorithms), or path/to/file.py:ClassName.")
    flags.DEFINE_bool("list_algorithms", False, "Print the table of algorithms and stop.")
    number("relaxed_init", None, "Relaxed initialisation with this beta on top of the algorithm.")
    number("nesterov", None, "Nesterov extrapolation with this momentum on top of the algorithm.")

    text("dataset", None, f"Data set: {', '.join(tasks_registry.all_tasks())}, or tfds:NAME.")
    text("data_file", None, "File of arrays, for --dataset=npz.")
    text("data_dir", None, "Folder with prepared or publisher's files.")
    whole("subset", None, "Use so many examples, training and test together; all by default.")
    whole("image_size", None, "Resize images to this height and width.")
    choice(
        "stream",
        None,
        ("auto", "always", "never"),
        "Leave images in their files until a round needs them; auto: if over 4 GiB in memory.",
    )
    choice("partition", None, PARTITIONS, "How examples are divided over clients.")
    whole("num_clients", None, "Number of clients.")
    number("alpha", None, "Dirichlet concentration; small is very non-IID.")
    flags.DEFINE_bool("replacement", None, "Dirichlet and pathological: refill used-up classes.")
    number("size_sigma", None, "Log-normal spread of the client sizes; 0 is balanced.")
    whole("classes_per_client", None, "For --partition=pathological.")
    whole("shards_per_client", None, "For --partition=shards.")
    number("client_noise", None, "Spread of the clients' gains on the image channels; 0 is off.")
    number("category_noise", None, "Spread of the classes' changes of brightness; 0 is off.")

    text("model", None, f"Model: {', '.join(models.names())}, or path/to/file.py:function.")
    flags.DEFINE_list("hidden_units", None, "Hidden layers of --model=mlp, such as 200,200.")
    text("pretrained", None, "Weights to start a transformer from: a preset, a file or a folder.")
    text("trainable", None, "What trains: all, head, or a regular expression of variable paths.")
    choice("precision", None, ("float32", "bfloat16", "float16"), "What the network computes in.")
    whole("microbatch", None, "Add a batch's gradient up over parts of so many examples.")
    choice(
        "norm_state",
        None,
        ("average", "keep_server", "local"),
        "BatchNorm statistics: averaged, kept as they start, or each client's own.",
    )
    text("init_weights", None, "Initial weights: .npz with w0, w1, ... in the model's order.")

    whole("rounds", None, "Communication rounds.")
    number("participation", None, "Share of the clients in a round, in (0, 1].")
    choice(
        "sampling", None, ("fixed", "bernoulli", "schedule"), "How a round's clients are chosen."
    )
    text("client_schedule", None, "JSON list of lists of client ids, for --sampling=schedule.")
    number("dropout_rate", None, "Probability that a sampled client does not report.")
    number("step_fraction_min", None, "Slow clients do at least this share of their steps.")
    whole("local_epochs", None, "Local epochs a round.")
    whole("local_steps", None, "Local steps a round, instead of --local_epochs.")
    whole("batch_size", None, "Examples a local step.")
    number("lr", None, "Local learning rate.")
    number("lr_decay", None, "Factor of the local learning rate a round.")
    number("server_lr", None, "Server learning rate; the algorithm's own by default.")
    number("weight_decay", None, "Weight decay of the local steps.")
    number("clip_norm", None, "Global norm the local gradient is clipped to; 0 is off.")
    choice("clip_scope", None, ("full", "official"), "Whether proximal terms are clipped in full.")
    choice("weighting", None, ("uniform", "samples"), "Weights of the mean over clients.")

    text("output_dir", None, "Run folder; by default a name made from the settings, in runs/.")
    whole("seed", None, "Of everything random.")
    text("devices", None, "auto, cpu:N or gpu:N.")
    whole("eval_every", None, "Rounds between tests of the global model.")
    text("targets", None, "Test accuracies, such as 0.7,0.8: tell what it takes to reach them.")
    flags.DEFINE_bool("diagnostics", None, "Log how far apart and how agreed the clients are.")
    whole("probe_every", None, "Rounds between probes; 0: only after the last round.")
    text("probes", None, f"Which: {', '.join(probes.NAMES)}; auto or none.")
    whole("probe_examples", None, "Training examples that sharpness is measured on.")
    number("sharpness_rho", None, "Length of the step uphill that sharpness is measured with.")
    choice(
        "validation",
        None,
        ("auto", "same", "fresh", "none"),
        "Clients' validation examples: test examples in the mix of their training examples, or of "
        "clients never trained on; auto: same, if there are enough test examples.",
    )
    whole("validation_clients", None, "Clients for --validation=fresh.")
    flags.DEFINE_bool("keep_local_models", None, "Keep last local models, for probe divergence.")
    whole("checkpoint_every", None, "Rounds between checkpoints.")
    whole("keep_checkpoints", None, "Checkpoints kept.")
    whole("max_failed_rounds", None, "Stop when nobody reported in so many rounds in a row.")
    flags.DEFINE_bool("deterministic", None, "Only ops that give the same bits every time.")
    text("from_config", None, "Repeat the run of this config.json, or of a run folder.")


@dataclasses.dataclass(frozen=True)
class Settings:
    """A run with everything filled in.

    Attributes:
        values: every flag by name; ``None`` where it does not apply.
        hparams: the algorithm's hyper-parameters.
        model_options: the model's options.
        task: the data set's declaration.
        algorithm: the algorithm's class.
    """

    values: Mapping[str, Any]
    hparams: Mapping[str, Any]
    model_options: Mapping[str, Any]
    task: Task
    algorithm: type[Algorithm]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def target_accuracies(self) -> tuple[float, ...]:
        return read_targets(self.values["targets"])

    @property
    def probe_names(self) -> tuple[str, ...]:
        """The probes of the run, ``auto`` written out."""
        return _probe_names(self.values)

    def as_dict(self) -> dict[str, Any]:
        """Everything that decides the run, for ``config.json``."""
        return {
            **{name: self.values[name] for name in sorted(self.values) if name != "output_dir"},
            "hparams": dict(self.hparams),
            "model_options": dict(self.model_options),
        }


def parse(args: Sequence[str]) -> list[str]:
    """Parses a command line; the algorithm's and the model's own flags are typed by their defaults.

    Raises:
        InputError: for unknown flags and values of the wrong type.
    """
    values, args = flags.FLAGS, repeat.expand(list(args), _own_flags(flags.FLAGS), FREE_ON_RESUME)
    task = tasks_registry.find(_peek(args, "dataset") or DEFAULTS["dataset"])
    algorithm = algorithms_registry.find(_peek(args, "algo") or DEFAULTS["algo"])
    model = _peek(args, "model") or task.settings.get("model", DEFAULTS["model"])
    groups = {
        "hparams": (f"hyper-parameter of {algorithm.name}", _hparam_defaults(algorithm, task)),
        "model_options": (f"option of the model {model}", dict(models.options(model))),
    }
    for group, (kind, defaults) in groups.items():
        _check_names(args, group, kind, defaults)
        for name in [n for n in values if n == group or n.startswith(f"{group}.")]:
            delattr(values, name)
        config_flags.DEFINE_config_dict(
            group,
            ml_collections.ConfigDict(defaults),
            f"Typed: --{group}.NAME=VALUE.",
            sys_argv=args,
        )
    try:
        rest = values(args, known_only=False)
    except (flags.Error, AttributeError, TypeError, ValueError, KeyError) as error:
        raise InputError(f"{_first_line(error)} See --helpshort for all flags.") from None
    if len(rest) > 1:
        raise InputError(
            f"Every argument is a flag, --name=value. Received: {' '.join(rest[1:])!r}."
        )
    return rest


def resolve(values: flags.FlagValues) -> Settings:
    """Fills in what the user did not give."""
    given = {
        name: values[name].value
        for name in values
        if name in _own_flags(values) and values[name].value is not None
    }
    task = tasks_registry.find(given.get("dataset", DEFAULTS["dataset"]))
    algorithm = algorithms_registry.find(given.get("algo", DEFAULTS["algo"]))
    filled: dict[str, Any] = dict.fromkeys(_own_flags(values))
    filled |= DEFAULTS | dict(task.settings)
    filled |= dict(task.algorithm_settings.get(algorithm.name, {})) | given
    model_options = dict(values.model_options)
    hidden = filled.pop("hidden_units")
    if hidden is not None:
        if filled["model"] != "mlp":
            raise InputError(
                f"--hidden_units is for --model=mlp. Received: --model={filled['model']}. "
                f"Remove it."
            )
        model_options["hidden_units"] = _whole_numbers("hidden_units", hidden)
    pretrained = filled.pop("pretrained")
    if pretrained is not None:
        if "pretrained" not in model_options:
            raise InputError(
                f"--pretrained is for transformers. Received: --model={filled['model']}. Remove "
                f"it; --init_weights=F.npz starts any model from saved weights."
            )
        model_options["pretrained"] = pretrained
    _check_consistent(filled, given)
    for name, value in {**filled, **dict(values.hparams), **model_options}.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"--{name} must be a finite number. Received: {value}.")
    return Settings(filled, dict(values.hparams), model_options, task, algorithm)


def _check_consistent(values: dict[str, Any], given: dict[str, Any]) -> None:
    for name in (
        *("rounds", "eval_every", "checkpoint_every", "keep_checkpoints", "num_clients"),
        "max_failed_rounds",
    ):
        if values[name] < 1:
            raise InputError(f"--{name} must be at least 1. Received: {values[name]}.")
    for name in ("probe_examples", "validation_clients"):
        if values[name] < 1:
            raise InputError(f"--{name} must be at least 1. Received: {values[name]}.")
    if values["probe_every"] < 0:
        raise InputError(
            f"--probe_every must be 0 (after the last round) or more. Received: "
            f"{values['probe_every']}. Use --probes=none for no probes at all."
        )
    if values["sharpness_rho"] <= 0:
        raise InputError(f"--sharpness_rho must be > 0. Received: {values['sharpness_rho']}.")
    if values["validation"] != "fresh":
        if "validation_clients" in given:
            raise InputError(
                f"--validation_clients is for --validation=fresh. Received: --validation="
                f"{values['validation']}. Remove it."
            )
        values["validation_clients"] = None
    read_targets(values["targets"])
    _probe_names(values)
    if values["subset"] is not None and values["subset"] < 2:
        raise InputError(f"--subset must be at least 2. Received: {values['subset']}.")
    if values["image_size"] is not None and not 1 <= values["image_size"] <= 2048:
        raise InputError(f"--image_size must be 1 to 2048. Received: {values['image_size']}.")
    for name in ("client_noise", "category_noise"):
        if not 0 <= values[name] < math.inf:
            raise InputError(
                f"--{name} must be 0 (off) or more. Received: {values[name]}. 0.1 is usual."
            )
    if values["seed"] < 0:
        raise InputError(f"--seed must be 0 or more. Received: {values['seed']}.")
    if not 0 < values["participation"] <= 1:
        raise InputError(
            f"--participation must be in (0, 1]. Received: {values['participation']}. "
            f"0.1 lets one client in ten take part in a round."
        )
    if (values["sampling"] == "schedule") != (values["client_schedule"] is not None):
        raise InputError(
            f"--sampling=schedule and --client_schedule=F.json go together. Received: "
            f"--sampling={values['sampling']}, --client_schedule={values['client_schedule']}."
        )
    if "local_steps" in given and "local_epochs" in given:
        raise InputError("Give --local_steps or --local_epochs, not both.")
    only = {
        "num_clients": tuple(p for p in PARTITIONS if p not in ("natural", "given")),
        "alpha": ("dirichlet", "dirichlet_classes"),
        "replacement": ("dirichlet", "pathological"),
        "size_sigma": ("dirichlet", "pathological", "iid"),
        "classes_per_client": ("pathological",),
        "shards_per_client": ("shards",),
    }
    for name, partitions in only.items():
        if values["partition"] in partitions:
            continue
        if name in given:
            raise InputError(
                f"--{name} has no effect with --partition={values['partition']}; it is for "
                f"{', '.join(partitions)}. Received: {given[name]}. Remove it."
            )
        values[name] = None


def read_targets(text_: str) -> tuple[float, ...]:
    """Accuracies with commas between, in order."""
    try:
        found = tuple(float(item) for item in text_.split(",") if item.strip())
    except ValueError:
        found = (math.nan,)
    if not all(0 < target <= 1 for target in found):
        raise InputError(
            f"--targets must be test accuracies in (0, 1] with commas between, such as 0.7,0.8. "
            f"Received: {text_!r}."
        )
    return tuple(sorted(set(found)))


def _probe_names(values: Mapping[str, Any]) -> tuple[str, ...]:
    kept, given = values["keep_local_models"], values["probes"]
    if given == "auto":
        return (*probes.DEFAULT, "divergence") if kept else probes.DEFAULT
    names = () if given == "none" else tuple(item.strip() for item in given.split(","))
    for name in names:
        if name not in probes.NAMES:
            raise unknown("probe", name, (*probes.NAMES, "auto", "none"))
    if "divergence" in names and not kept:
        raise InputError(
            "--probes=divergence needs the last local model of every client. Add "
            "--keep_local_models; it takes room for as many models as there are clients."
        )
    return names


def _own_flags(values: flags.FlagValues) -> set[str]:
    mine = {flag.name for flag in values.flags_by_module_dict().get(__name__, ())}
    return mine - {"list_algorithms", "from_config"} - set(_GROUPS)


def _peek(args: Sequence[str], name: str) -> str | None:
    """The last value of a flag, before flags are parsed."""
    value = None
    for position, arg in enumerate(args):
        if match := re.fullmatch(rf"--?{name}=(.*)", arg):
            value = match[1]
        elif re.fullmatch(rf"--?{name}", arg) and position + 1 < len(args):
            value = args[position + 1]
    return value


def _hparam_defaults(algorithm: type[Algorithm], task: Task) -> dict[str, Any]:
    own = {field.name: field.default for field in dataclasses.fields(algorithm.Hparams)}
    return own | dict(task.hparams.get(algorithm.name, {}))


def _check_names(args: Sequence[str], group: str, kind: str, valid: Mapping[str, Any]) -> None:
    for arg in args:
        if match := re.match(rf"--?{group}\.([^=]*)", arg):
            if not valid:
                raise InputError(f"There is no {kind}. Received: {arg}. Remove it.")
            if match[1] not in valid:
                raise unknown(kind, match[1], valid)


def _whole_numbers(name: str, received: Sequence[str]) -> tuple[int, ...]:
    try:
        return tuple(int(item) for item in received)
    except ValueError:
        raise InputError(
            f"--{name} must be whole numbers with commas between. Received: {','.join(received)!r}."
        ) from None


def _first_line(error: Exception) -> str:
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return line if line.endswith((".", "?")) else line + "."


def command(args: Sequence[str] | None = None) -> str:
    """The command line as it can be typed again."""
    args = sys.argv[1:] if args is None else args
    return " ".join(["python -m launch.main", *map(_quoted, args)])


def _quoted(arg: str) -> str:
    return arg if re.fullmatch(r"[\w@%+=:,./-]+", arg) else "'" + arg.replace("'", "'\\''") + "'"
