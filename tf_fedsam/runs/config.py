"""The description of a run: every setting, declared once.

    config = RunConfig(dataset="glyphs", algo="fedsam", hparams={"rho": 0.05}, rounds=50)

A setting that is ``None`` was not given. :meth:`RunConfig.resolve` fills it in from the first that
has a value: the data set for this algorithm, the data set, the declared default.
"""

import dataclasses
import functools
import hashlib
import json
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import yaml

from tf_fedsam import devices, models, schedules
from tf_fedsam.algorithms import registry as algorithms
from tf_fedsam.algorithms.base import Algorithm, make_hparams
from tf_fedsam.analysis import probe_list
from tf_fedsam.data import augment as augmentation
from tf_fedsam.data import normalise as normalisation
from tf_fedsam.data import sampling
from tf_fedsam.data.partition import SCHEMES
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.options import TrainingOptions
from tf_fedsam.own_code import is_reference
from tf_fedsam.runs import consistency, forms
from tf_fedsam.runs import task as tasks
from tf_fedsam.runs.config_files import read_mapping
from tf_fedsam.runs.settings import File, Group, Role, Setting, declared, parsed, setting, typed
from tf_fedsam.runs.task import Task

_data = functools.partial(setting, Group.DATA)
_model = functools.partial(setting, Group.MODEL)
_method = functools.partial(setting, Group.METHOD)
_training = functools.partial(setting, Group.TRAINING)
_measuring = functools.partial(setting, Group.MEASURING)
_execution = functools.partial(setting, Group.EXECUTION)

GROUPED = ("hparams", "model_options")  # mappings of settings that others declare


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that makes a run.

    Each setting is a field; ``SETTINGS`` holds their declarations. Wrong values are refused when
    the config is made, what does not fit together when it is resolved.
    """

    dataset: str = _data("glyphs", "Data set by name, or tfds:NAME.")
    data_file: str = _data(
        None, "File of arrays, for the data set npz.", kind=str, role=Role.SOURCE, file=File.DATA
    )
    data_dir: str = _data(
        None,
        "Folder with prepared or publisher's files.",
        kind=str,
        role=Role.SOURCE,
        file=File.DATA,
    )
    subset: int = _data(
        None,
        "Use so many examples, training and test together; all by default.",
        kind=int,
        valid="[2, inf)",
    )
    image_size: int = _data(
        None, "Resize images to this height and width.", kind=int, valid="[1, 2048]"
    )
    stream: str = _data(
        "auto",
        "Leave images in their files until a round needs them; auto: if over 4 GiB in memory.",
        choices=("auto", "always", "never"),
        role=Role.EXECUTION,
    )
    normalise: str = _data(
        normalisation.OWN,
        "Normalisation: own of the data set; unit: pixels in [0, 1]; or MEAN/STD, such as 0.5/0.5.",
        since="0.2",
    )
    augment: str = _data(
        augmentation.OWN,
        "Random changes of training images: own of the data set; none; or such as "
        "flip,crop:4 or crop:4:black,flip.",
        since="0.3",
    )
    partition: str = _data(
        "dirichlet", "How examples are divided over clients.", choices=tuple(SCHEMES)
    )
    num_clients: int = _data(100, "Number of clients.", valid="[1, inf)")
    alpha: float = _data(
        0.3,
        "Dirichlet concentration; small is very non-IID.",
        valid="(0, inf)",
        hint="0.3 is usual.",
    )
    replacement: bool = _data(False, "Dirichlet and pathological: refill used-up classes.")
    size_sigma: float = _data(
        0.0, "Log-normal spread of the client sizes; 0 is balanced.", valid="[0, inf)"
    )
    classes_per_client: int = _data(
        2, "Classes a client has, for pathological splits.", valid="[1, inf)"
    )
    shards_per_client: int = _data(
        2, "Shards a client gets, for splits into shards.", valid="[1, inf)"
    )
    holdout: float = _data(
        0.0,
        "Share of the training examples that nobody trains on, to choose settings by.",
        valid="[0, 1)",
        hint="0 is none, 0.1 is usual.",
        since="0.2",
    )
    holdout_from: str = _data(
        "clients",
        "Whether they are taken from each client's share, or before there are clients.",
        choices=("clients", "pool"),
        since="0.2",
    )
    client_noise: float = _data(
        0.0,
        "Spread of the clients' gains on the image channels; 0 is off.",
        valid="[0, inf)",
        hint="0 is off, 0.1 is usual.",
    )
    category_noise: float = _data(
        0.0,
        "Spread of the classes' changes of brightness; 0 is off.",
        valid="[0, inf)",
        hint="0 is off, 0.1 is usual.",
    )

    model: str = _model("mlp", "Model by name, or path/to/file.py:function.", file=File.CODE)
    model_options: Mapping[str, Any] = _model({}, "Options of the model.")
    hidden_units: Sequence[int] = _model(
        None,
        "Hidden layers of the model mlp, such as 200,200.",
        kind=tuple,
        goes_into="model_options",
    )
    pretrained: str = _model(
        None,
        "Weights to start a transformer from: a preset, a file or a folder.",
        kind=str,
        goes_into="model_options",
    )
    trainable: str = _model(
        "all", "What trains: all, head, or a regular expression of variable paths."
    )
    precision: str = _model(
        TrainingOptions.precision,
        "What the network computes in.",
        choices=("float32", "bfloat16", "float16"),
        role=Role.METHOD,
    )
    norm_state: str = _model(
        TrainingOptions.norm_state,
        "BatchNorm statistics: averaged, kept as they start, or each client's own.",
        choices=("average", "keep_server", "local"),
        role=Role.METHOD,
    )
    init_weights: str = _model(
        None,
        "Initial weights: .npz with w0, w1, ... in the model's order.",
        kind=str,
        role=Role.METHOD,
        file=File.INPUT,
    )

    algo: str = _method(
        "fedavg", "Algorithm by name, or path/to/file.py:ClassName.", file=File.CODE
    )
    hparams: Mapping[str, Any] = _method({}, "The algorithm's own values.", role=Role.TUNING)
    relaxed_init: float = _method(
        None,
        "Relaxed initialisation with this beta on top of the algorithm.",
        kind=float,
        valid="[0, inf)",
    )
    nesterov: float = _method(
        None,
        "Nesterov extrapolation with this momentum on top of the algorithm.",
        kind=float,
        valid="[0, 1)",
    )
    swa_cycle: int = _method(
        None,
        "Server SWA with cycles of so many rounds on top of the algorithm: the mean of global "
        "models is tested and exported.",
        kind=int,
        valid="[1, inf)",
        hint="1 collects after every round, 10 is the paper's.",
        since="0.2",
    )
    swa_start: int = _method(
        None,
        "Round, from 0, of the first cycle of SWA; three quarters of rounds by default.",
        kind=int,
        valid="[0, inf)",
        follows="rounds",
        since="0.2",
    )
    swa_lr: float = _method(
        None,
        "Learning rate that a cycle of SWA ends with; a hundredth of lr by default.",
        kind=float,
        valid="[0, inf)",
        since="0.2",
    )
    swa_collect: str = _method(
        "end",
        "When SWA collects a model: at the end of a cycle, or as the authors' code does.",
        choices=("end", "official"),
        since="0.2",
    )
    dp_clip_norm: float = _method(
        None,
        "Client-level differential privacy on top of the algorithm: length that updates are "
        "clipped to.",
        kind=float,
        valid="(0, inf)",
        hint="0.2 is usual.",
        since="0.2",
    )
    dp_noise_multiplier: float = _method(
        None,
        "Standard deviation of the noise on the sum of updates, over dp_clip_norm; 0.95 by "
        "default, 0 only clips.",
        kind=float,
        valid="[0, inf)",
        follows="rounds",
        since="0.2",
    )
    dp_target_epsilon: float = _method(
        None,
        "Chooses dp_noise_multiplier so that all rounds together have this epsilon.",
        kind=float,
        valid="(0, inf)",
        role=Role.MEASURING,  # the noise that it chooses decides
        free=True,
        since="0.2",
    )
    dp_delta: float = _method(
        None,
        "Probability that epsilon leaves out; 1 / number of clients by default.",
        kind=float,
        valid="(0, 1)",
        role=Role.MEASURING,
        free=True,
        since="0.2",
    )
    dp_clip_scope: str = _method(
        "global",
        "Whether the update as a whole is clipped, or every tensor as the authors' code does.",
        choices=("global", "tensor"),
        since="0.2",
    )
    dp_seed: int = _method(
        None,
        "Of the noise of differential privacy; seed by default.",
        kind=int,
        valid="[0, inf)",
        since="0.2",
    )

    rho_schedule: str = _method(
        TrainingOptions.rho_schedule,
        "How the radius rho changes from round to round, for methods that have one.",
        choices=schedules.KINDS,
        role=Role.TUNING,
        since="0.2",
    )
    rho_warmup_rounds: int = _method(
        TrainingOptions.rho_warmup_rounds,
        "Rounds in which the radius rises, before its schedule begins.",
        valid="[0, inf)",
        role=Role.TUNING,
        since="0.2",
    )
    rho_decay: float = _method(
        None,
        f"Factor of the radius a round, if exponential; {TrainingOptions.rho_decay:g} by default.",
        kind=float,
        valid="(0, 1]",
        role=Role.TUNING,
        since="0.2",
    )
    rho_step_rounds: int = _method(
        None,
        f"Rounds between steps of the radius; {TrainingOptions.rho_step_rounds} by default.",
        kind=int,
        valid="[1, inf)",
        role=Role.TUNING,
        since="0.2",
    )
    rho_step_factor: float = _method(
        None,
        f"Factor of a step; {TrainingOptions.rho_step_factor:g} by default.",
        kind=float,
        valid="(0, inf)",
        role=Role.TUNING,
        since="0.2",
    )
    rho_final_factor: float = _method(
        None,
        "Share of rho that cosine and linear schedules end at, also above 1; 0 by default.",
        kind=float,
        valid="[0, inf)",
        role=Role.TUNING,
        since="0.2",
    )

    rounds: int = _training(
        100, "Communication rounds.", valid="[1, inf)", role=Role.PROBLEM, free=True
    )
    participation: float = _training(
        0.1,
        "Share of the clients in a round.",
        valid="(0, 1]",
        hint="0.1 lets one client in ten take part in a round.",
        role=Role.PROBLEM,
    )
    min_cohort: int = _training(
        1,
        "Clients in a round at least, if there are as many, with sampling=fixed.",
        valid="[1, inf)",
        role=Role.PROBLEM,
        since="0.2",
    )
    sampling: str = _training(
        "fixed",
        "How a round's clients are chosen.",
        choices=("fixed", "bernoulli", "schedule"),
        role=Role.PROBLEM,
    )
    client_schedule: str = _training(
        None,
        "JSON list of lists of client ids, for sampling by schedule.",
        kind=str,
        role=Role.PROBLEM,
        file=File.INPUT,
    )
    dropout_rate: float = _training(
        0.0,
        "Probability that a sampled client does not report.",
        valid="[0, 1)",
        hint="0 lets nobody fail, 0.1 one in ten.",
        role=Role.PROBLEM,
    )
    step_fraction_min: float = _training(
        1.0,
        "Slow clients do at least this share of their steps.",
        valid="(0, 1]",
        hint="1 lets everybody do all steps.",
        role=Role.PROBLEM,
    )
    local_epochs: int = _training(
        TrainingOptions.local_epochs, "Local epochs a round.", valid="[1, inf)"
    )
    local_steps: int = _training(
        None, "Local steps a round, instead of local epochs.", kind=int, valid="[1, inf)"
    )
    batch_size: int = _training(
        TrainingOptions.batch_size, "Examples a local step.", valid="[1, inf)"
    )
    microbatch: int = _training(
        None,
        "Add a batch's gradient up over parts of so many examples.",
        kind=int,
        valid="[1, inf)",
    )
    lr: float = _training(TrainingOptions.lr, "Local learning rate.", valid="[0, inf)")
    lr_decay: float = _training(
        TrainingOptions.lr_decay,
        "Factor of the local learning rate a round, if exponential.",
        valid="(0, 1]",
    )
    lr_schedule: str = _training(
        TrainingOptions.lr_schedule,
        "How the local learning rate changes from round to round.",
        choices=schedules.KINDS,
        since="0.2",
    )
    lr_warmup_rounds: int = _training(
        TrainingOptions.lr_warmup_rounds,
        "Rounds in which the learning rate rises, before its schedule begins.",
        valid="[0, inf)",
        since="0.2",
    )
    lr_step_rounds: int = _training(
        None,
        f"Rounds between steps of the learning rate; {TrainingOptions.lr_step_rounds} by default.",
        kind=int,
        valid="[1, inf)",
        since="0.2",
    )
    lr_step_factor: float = _training(
        None,
        f"Factor of a step; {TrainingOptions.lr_step_factor:g} by default.",
        kind=float,
        valid="(0, inf)",
        since="0.2",
    )
    lr_final_factor: float = _training(
        None,
        "Share of lr that cosine and linear schedules end at; 0 by default.",
        kind=float,
        valid="[0, inf)",
        since="0.2",
    )
    schedule_rounds: int = _training(
        None,
        "Rounds that cosine and linear schedules take; as many as there are by default.",
        kind=int,
        valid="[1, inf)",
        since="0.2",
    )
    local_momentum: float = _training(
        TrainingOptions.local_momentum,
        "Momentum of the local steps (heavy ball).",
        valid="[0, 1)",
        hint="0 is off, 0.9 is usual.",
        since="0.2",
    )
    local_momentum_state: str = _training(
        TrainingOptions.local_momentum_state,
        "Whether local momentum begins every round at zero, or clients keep theirs.",
        choices=("reset", "keep"),
        role=Role.METHOD,
        since="0.2",
    )
    server_lr: float = _training(
        None,
        "Server learning rate; the algorithm's own by default.",
        kind=float,
        valid="(0, inf)",
        hint="1 is plain averaging.",
    )
    weight_decay: float = _training(
        TrainingOptions.weight_decay, "Weight decay of the local steps.", valid="[0, inf)"
    )
    clip_norm: float = _training(
        10.0,
        "Global norm the local gradient is clipped to; 0 is off.",
        valid="[0, inf)",
        hint="0 does not clip.",
    )
    clip_scope: str = _training(
        TrainingOptions.clip_scope,
        "Whether proximal terms are clipped in full.",
        choices=("full", "official"),
    )
    label_smoothing: float = _training(
        0.0,
        "Share of a label that is spread over all classes.",
        valid="[0, 1)",
        hint="0 is plain cross-entropy, 0.1 is usual.",
        since="0.2",
    )
    weighting: str = _training(
        TrainingOptions.weighting,
        "Weights of the mean over clients.",
        choices=("uniform", "samples"),
    )

    eval_every: int = _measuring(
        1, "Rounds between tests of the global model.", valid="[1, inf)", free=True
    )
    targets: str = _measuring(
        "",
        "Test accuracies, such as 0.7,0.8: tell what it takes to reach them.",
        free=True,
    )
    diagnostics: bool = _measuring(
        TrainingOptions.diagnostics,
        "Log how far apart and how agreed the clients are.",
        free=True,
    )
    probe_every: int = _measuring(
        0,
        "Rounds between probes; 0: only after the last round.",
        valid="[0, inf)",
        hint="0 is after the last round only; probes=none is none at all.",
        free=True,
    )
    probes: str = _measuring(
        "auto",
        f"Which, with commas between: {', '.join(probe_list.NAMES)}; auto stands for "
        f"{', '.join(probe_list.DEFAULT)}; or none.",
        free=True,
    )
    probe_examples: int = _measuring(
        2000, "Training examples that sharpness is measured on.", valid="[1, inf)", free=True
    )
    accuracy_clients: int = _measuring(
        10_000,
        "Clients on whose training examples the probe clients looks, if there are more.",
        valid="[1, inf)",
        free=True,
        since="0.2",
    )
    probe_clients: int = _measuring(
        5,
        "Clients that the probes flatness and personal look at, the same each time.",
        valid="[1, inf)",
        free=True,
        since="0.2",
    )
    sharpness_rho: float = _measuring(
        0.1,
        "Length of the step uphill that sharpness is measured with.",
        valid="(0, inf)",
        free=True,
    )
    sharpness_batch: int = _measuring(
        None,
        "Examples of a batch of the probe m_sharpness; batch_size by default.",
        kind=int,
        valid="[1, inf)",
        free=True,
        since="0.2",
    )
    eigenvalues: int = _measuring(
        5,
        "Eigenvalues of the Hessian that the probe hessian finds, the largest.",
        valid="[1, 100]",
        free=True,
        since="0.2",
    )
    trace_vectors: int = _measuring(
        10,
        "Random vectors that the probe hessian estimates the trace with.",
        valid="[2, inf)",
        hint="Two are the least that tell the error of the estimate.",
        free=True,
        since="0.2",
    )
    personal_epochs: int = _measuring(
        1,
        "Epochs of fine-tuning on a client's examples, for the probe personal.",
        valid="[1, inf)",
        free=True,
        since="0.2",
    )
    validation: str = _measuring(
        "auto",
        "Test examples that each client is tested on: in the mix of its training examples, or of "
        "clients never trained on; auto: same, if there are enough test examples.",
        choices=("auto", "same", "fresh", "none"),
        free=True,
    )
    validation_clients: int = _measuring(
        50, "Clients never trained on, for validation=fresh.", valid="[1, inf)", free=True
    )
    keep_local_models: bool = _measuring(
        TrainingOptions.keep_local_models, "Keep last local models, for probe divergence."
    )

    seed: int = _execution(0, "Of everything random.", valid="[0, inf)", role=Role.SEED)
    stop_at: float = _execution(
        None,
        "Stop once the test accuracy is at least this.",
        kind=float,
        valid="(0, 1]",
        role=Role.PROBLEM,
        free=True,
        since="0.2",
    )
    patience: int = _execution(
        None,
        "Stop after so many tests without a better accuracy on held-out examples.",
        kind=int,
        valid="[1, inf)",
        role=Role.PROBLEM,
        free=True,
        since="0.2",
    )
    devices: str = _execution("auto", "auto, cpu:N or gpu:N; of each worker.", free=True)
    clients_per_device: int = _execution(
        1,
        "Clients that train on a device at a time; a small model does not fill a GPU.",
        valid="[1, 64]",
        free=True,
        since="0.2",
    )
    remat: bool = _execution(
        TrainingOptions.remat,
        "Compute activations of transformers' blocks again instead of keeping them: less memory.",
        free=True,
        since="0.2",
    )
    xla: bool = _execution(
        TrainingOptions.xla,
        "Compile local steps with XLA, for GPUs; dropout draws other masks then.",
        since="0.2",
    )
    strategy: str = _execution(
        "mirrored",
        "On this machine, or with other workers, each started with the same settings.",
        choices=("mirrored", "multi_worker"),
        free=True,
        since="0.2",
    )
    cluster: str = _execution(
        "tf_config",
        "Who tells where the workers are: TF_CONFIG, SLURM or Kubernetes.",
        choices=("tf_config", "slurm", "kubernetes"),
        free=True,
        since="0.2",
    )
    wave: int = _execution(
        TrainingOptions.wave,
        "Clients of a round whose state is in memory at a time; the results are the same.",
        valid="[1, inf)",
        hint="Fewer take less memory, in methods that keep something for each client.",
        free=True,
        since="0.2",
    )
    export: str = _execution(
        forms.DEFAULT,
        f"Forms of the trained model, with commas between: {', '.join(forms.FORMS)}; or none.",
        free=True,
        since="0.2",
    )
    checkpoint_every: int = _execution(
        1, "Rounds between checkpoints.", valid="[1, inf)", free=True
    )
    keep_checkpoints: int = _execution(2, "Checkpoints kept.", valid="[1, inf)", free=True)
    client_state: str = _execution(
        "auto",
        "Where clients' state is between rounds; disk: in the checkpoints; auto: disk if it may "
        "take over half of the free memory.",
        choices=("auto", "memory", "disk"),
        free=True,
        since="0.2",
    )
    max_failed_rounds: int = _execution(
        10, "Stop when nobody reported in so many rounds in a row.", valid="[1, inf)", free=True
    )
    deterministic: bool = _execution(False, "Only ops that give the same bits every time.")

    def __post_init__(self) -> None:
        for name, declaration in SETTINGS.items():
            object.__setattr__(self, name, declaration.check(getattr(self, name)))

    # Making one.

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """From a mapping whose names may also be dotted, such as ``hparams.rho``."""
        plain: dict[str, Any] = {}
        for name, value in values.items():
            group, dot, inner = name.partition(".")
            if dot and group in GROUPED:
                plain[group] = {**(plain.get(group) or {}), inner: value}
            elif name in GROUPED:
                plain[name] = {**typed(name, value or {}, dict), **(plain.get(name) or {})}
            elif name in SETTINGS:
                plain[name] = value
            else:
                raise unknown("setting", name, SETTINGS, "", name)
        return cls(**plain)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """From a file of YAML or JSON that maps settings to values."""
        return cls.from_values(read_mapping(path))

    @classmethod
    def of_run(cls, config: Mapping[str, Any], where: object) -> Self:
        """The description of a run that was, from its ``config.json``.

        Relative paths are made relative to where the run was started, and devices that were chosen
        by themselves are as many as there were: sums over devices depend on their number.
        """
        settings = {n: v for n, v in config["settings"].items() if v is not None}
        for name in settings:
            if name not in SETTINGS or SETTINGS[name].goes_into:
                raise InputError(
                    f"{where} has a setting that does not exist: {name!r}. Expected: the "
                    f"config.json of a run of this version."
                )
        if "local_steps" in settings:
            settings.pop("local_epochs", None)  # it was not used
        for name in SETTINGS:
            if name in settings:
                settings[name] = _found(name, settings[name], config.get("working_folder"))
        if settings.get("devices") == "auto":
            settings["devices"] = _devices(config.get("devices")) or "auto"
        try:
            return cls(**settings)
        except InputError as error:
            raise InputError(f"{where} has a value that no setting can have: {error}") from None

    # Looking at it.

    @property
    def given(self) -> dict[str, Any]:
        """The settings that have a value."""
        values = {name: getattr(self, name) for name in SETTINGS}
        return {n: v for n, v in values.items() if v is not None and not (n in GROUPED and not v)}

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """A copy in which these settings have these values; entries of mappings are added."""
        merged = self.given
        for name, value in values.items():
            both = name in GROUPED and isinstance(value, Mapping)
            merged[name] = {**merged.get(name, {}), **value} if both else value
        return type(self).from_values(merged)

    def get(self, name: str) -> Any:
        """A setting's value by name; ``hparams.rho`` is an entry of ``hparams``."""
        group, dot, inner = name.partition(".")
        return getattr(self, group)[inner] if dot and group in GROUPED else getattr(self, name)

    def save(self, path: str | os.PathLike) -> None:
        """Writes what was given as YAML, for :meth:`load`."""
        plain = json.loads(json.dumps(self.given))
        pathlib.Path(path).write_text(yaml.safe_dump(plain, sort_keys=False))

    def resolve(self, task: Task | None = None) -> "ResolvedConfig":
        """Fills in what was not given.

        Args:
            task: the data set; by default the one that is called ``dataset``.

        Raises:
            InputError: for names that do not exist and values that do not fit together.
        """
        given = {n: v for n, v in self.given.items() if n not in GROUPED}
        if task is None:
            task = tasks.find(given.get("dataset", SETTINGS["dataset"].default))
        algorithm = algorithms.find(given.get("algo", SETTINGS["algo"].default))
        filled = {s.name: s.default for s in SETTINGS.values() if s.name not in GROUPED}
        filled |= dict(task.settings)
        filled |= dict(task.algorithm_settings.get(algorithm.name, {})) | given
        filled["dataset"] = given.get("dataset", task.name)
        own = hparam_defaults(algorithm, task, filled["model"])
        hparams = _merged(f"hyper-parameter of {algorithm.name}", "hparams", self.hparams, own)
        options = dict(models.options(filled["model"]))
        kind = f"option of the model {filled['model']}"
        options = _merged(kind, "model_options", self.model_options, options)
        consistency.complete(filled, options, given, SETTINGS)
        for name, value in {**hparams, **options}.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"{name} must be a finite number. Received: {value}.")
        resolved = ResolvedConfig(
            **filled, hparams=hparams, model_options=options, task=task, algorithm=algorithm
        )
        resolved.check_parts()
        return resolved


SETTINGS: dict[str, Setting] = declared(RunConfig)
FREE = tuple(s.name for s in SETTINGS.values() if s.free)  # may change when a run goes on
SAVED = tuple(s.name for s in SETTINGS.values() if not s.goes_into)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResolvedConfig(RunConfig):
    """A run with everything filled in; ``None`` is left where a setting does not apply.

    Attributes:
        task: the data set's declaration.
        algorithm: the algorithm's class.
    """

    task: Task = dataclasses.field(repr=False, compare=False)
    algorithm: type[Algorithm] = dataclasses.field(repr=False, compare=False)

    def resolve(self, task: Task | None = None) -> "ResolvedConfig":
        return self

    def share_of(self, num_clients: int) -> float:
        """The share of so many clients that take part in a round."""
        if self.sampling != "fixed":  # whose share is a probability, as privacy counts it
            return self.participation
        return sampling.share(num_clients, self.participation, self.min_cohort)

    @property
    def target_accuracies(self) -> tuple[float, ...]:
        return consistency.read_targets(self.targets)

    @property
    def export_forms(self) -> tuple[forms.Form, ...]:
        return forms.read_forms(self.export)

    @property
    def probe_names(self) -> tuple[str, ...]:
        """The probes of the run, ``auto`` written out."""
        return consistency.probe_names(self.probes, self.keep_local_models)

    def check_parts(self) -> None:
        """Refuses values that the method, the model or the local training would refuse later."""
        make_hparams(self.algorithm, dict(self.hparams))
        models.check_options(self.model, self.model_options)
        devices.parse(self.devices)
        options = self.training_options()
        options.check_radius(self.algorithm.name, hasattr(self.algorithm.Hparams, "rho"))
        if self.clip_scope == "official" and not self.algorithm.proximal:
            raise InputError(
                f"clip_scope=official is about proximal terms, and {self.algorithm.name} has none. "
                f"Remove it.",
                "clip_scope",
            )

    def as_dict(self) -> dict[str, Any]:
        """Everything that decides the run, for ``config.json``."""
        plain = {name: getattr(self, name) for name in sorted(SAVED) if name not in GROUPED}
        return {**plain, **{name: dict(getattr(self, name)) for name in GROUPED}}

    def fingerprint(self) -> str:
        """Eight digits that tell two configurations apart."""
        decisive = {
            name: value
            for name, value in self.as_dict().items()
            if name not in FREE and not (SETTINGS[name].since and value == SETTINGS[name].default)
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:8]

    def training_options(self) -> TrainingOptions:
        names = [field.name for field in dataclasses.fields(TrainingOptions)]
        values = {name: getattr(self, name) for name in names}
        return TrainingOptions(**{n: v for n, v in values.items() if v is not None})


def with_defaults(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a ``config.json`` with those that came later, which had their default."""
    later = {s.name: s.default for s in SETTINGS.values() if s.since and not s.goes_into}
    return {**later, **saved}


def of_role(*roles: Role) -> tuple[str, ...]:
    """The names of the settings that decide this."""
    return tuple(s.name for s in SETTINGS.values() if s.role in roles)


def of_group(*groups: Group) -> tuple[str, ...]:
    return tuple(s.name for s in SETTINGS.values() if s.group in groups)


def hparam_defaults(algorithm: type[Algorithm], task: Task, model: str) -> dict[str, Any]:
    """An algorithm's own settings with the values that suit the data set and the model."""
    own = {field.name: field.default for field in dataclasses.fields(algorithm.Hparams)}
    return own | task.hparams_of(algorithm.name, model)


def parse_value(name: str, text: str, like: Any = None) -> Any:
    """The value that a text, as on a command line, stands for.

    Args:
        name: of the setting; of an entry of a mapping with a dot.
        text: of it.
        like: for an entry of a mapping, its default, whose type the value has.
    """
    group, dot, _ = name.partition(".")
    if dot and group in GROUPED:
        return parsed(name, text, type(like))
    if name not in SETTINGS:
        raise unknown("setting", name, SETTINGS, "", name)
    return parsed(name, text, SETTINGS[name].kind)


def _merged(
    kind: str, group: str, given: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """A mapping's defaults with the given values, in the types of the defaults."""
    merged = dict(defaults)
    for name, value in given.items():
        if not defaults:
            raise InputError(f"There is no {kind}. Received: {group}.{name}. Remove it.")
        if name not in defaults:
            raise unknown(kind, name, defaults, "", f"{group}.{name}")
        like = defaults[name]
        if value is None or like is None:
            merged[name] = value
        else:
            merged[name] = typed(f"{group}.{name}", value, type(like))
    return merged


def _found(name: str, value: Any, folder: Any) -> Any:
    """Relative paths are relative to where the run was started."""
    file = SETTINGS[name].file
    is_path = file is not None and (file is not File.CODE or is_reference(str(value)))
    if not (is_path and isinstance(value, str) and isinstance(folder, str)):
        return value
    if os.path.isabs(os.path.expanduser(value)) or folder == os.getcwd():
        return value
    return os.path.join(folder, value)


def _devices(names: Any) -> str | None:
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        return None
    return f"{'gpu' if 'GPU' in names[0].upper() else 'cpu'}:{len(names)}"
