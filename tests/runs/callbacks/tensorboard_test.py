"""Event files, read back as TensorBoard reads them."""

import gc
import time
import types
import weakref

import numpy as np
import pytest
import tensorflow as tf
from matplotlib import figure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import plugin_data_pb2

from tests.runs.callbacks.under_way import UnderWay, a_record, drive
from tf_fedsam.runs.callbacks import tensorboard
from tf_fedsam.runs.callbacks.tensorboard import EventFiles, TensorBoard, as_summary, scalars, tag

CONFIG = {
    "command": "python -m launch.main --algo=fedsam",
    "settings": {
        "lr": 0.1,
        "algo": "fedsam",
        "deterministic": False,
        "local_steps": None,
        "hparams": {"rho": 0.5, "server": "e"},
        "model_options": {"hidden_units": [200, 200]},
    },
}
COUNTS = np.array([[5, 0], [1, 4]])


def events(folder):
    found = EventAccumulator(str(folder), {"tensors": 0})
    found.Reload()
    return found


def curve(folder, name):
    return {e.step: float(tf.make_ndarray(e.tensor_proto)) for e in events(folder).Tensors(name)}


def unexpected(message):
    raise AssertionError(message)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test_accuracy", "accuracy"),
        ("global_train_accuracy", "accuracy"),
        ("test_loss", "loss"),
        ("client_train_accuracy_worst_decile", "clients"),
        ("num_failed", "clients"),
        ("seconds", "cost"),
        ("probe_seconds", "cost"),
        ("bytes_up", "cost"),
        ("bytes_up_total", "cost_so_far"),
        ("gradient_evaluations_total", "cost_so_far"),
        ("hessian_eigenvalue", "flatness"),
        ("perturbation_norm", "flatness"),
        ("update_norm", "training"),
        ("lr", "training"),
        ("momentum_cosine", "agreement"),
        ("alpha", "method"),
        ("test_accuracy_last", "accuracy"),
        ("test_loss_last", "loss"),
        ("epsilon", "privacy"),
        ("personal_accuracy_after_worst_decile", "clients"),
        ("personal_clients", "clients"),
        ("sharpness_local_on_own", "flatness"),
        ("loss_global_on_all", "flatness"),
        ("hessian_eigenvalue_2", "flatness"),
        ("hessian_trace_error", "flatness"),
    ],
)
def test_tags_are_the_names_of_the_log(name, expected):
    assert tag(name) == f"{expected}/{name}"


def test_accuracies_come_first():
    groups = [group for _, group in tensorboard.GROUPS]
    assert sorted(groups)[0] == "accuracy"
    assert groups[-1] == "method"  # what no other pattern takes


def test_the_radius_has_no_noise():
    """Floats near 0.1 are the same number; real changes are not lost."""
    seen = [scalars(a_record(1, perturbation_norm=v)) for v in (0.1, 0.10000000149, 0.09999998)]
    assert {s["perturbation_norm"] for s in seen} == {0.1}
    assert scalars(a_record(1, perturbation_norm=0.10012))["perturbation_norm"] == 0.10012


def test_scalars_of_a_round():
    """Numbers and truths; steps and failures are counted; lists and the round are no scalars."""
    record = a_record(3, skipped=True, failed_client_ids=[7], note="x", test_loss=None)
    assert scalars(record) == {
        "train_loss": 0.5,
        "skipped": 1,
        "seconds": 0.25,
        "local_steps": 3,  # 1 + 2
        "num_failed": 1,
    }


def test_one_summary_is_what_tensorflow_would_write(tmp_path):
    """The same numbers, kind of plug-in and shape as ``tf.summary.scalar`` makes them."""
    numbers = {"a/b": 0.1, "c": -3.0, "d": float("inf")}
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with tf.summary.create_file_writer(str(ours)).as_default():
        tf.summary.experimental.write_raw_pb(as_summary(numbers), 7)
    with tf.summary.create_file_writer(str(theirs)).as_default():
        for name, value in numbers.items():
            tf.summary.scalar(name, value, 7)
    for name, value in numbers.items():
        assert curve(ours, name) == curve(theirs, name) == {7: float(np.float32(value))}
        plugins = [events(f).SummaryMetadata(name).plugin_data for f in (ours, theirs)]
        assert plugins[0] == plugins[1]
        shapes = [events(f).Tensors(name)[0].tensor_proto.tensor_shape for f in (ours, theirs)]
        assert shapes[0] == shapes[1]


def test_a_round_is_one_write(tmp_path, monkeypatch):
    """A thousand rounds of thirty numbers were thirty thousand operations once."""
    written = []
    real = tf.summary.experimental.write_raw_pb
    monkeypatch.setattr(
        tf.summary.experimental,
        "write_raw_pb",
        lambda data, step: written.append(step) or real(data, step),
    )
    monkeypatch.setattr(tf.summary, "scalar", unexpected)
    numbers = {f"number_{i}": float(i) for i in range(30)}
    files = EventFiles(tmp_path / "tb", unexpected)
    files.write([a_record(n, **numbers) for n in range(1, 1001)])
    files.close()
    assert written == list(range(1, 1001))
    assert curve(tmp_path / "tb", "method/number_29") == dict.fromkeys(range(1, 1001), 29.0)


def hparams_of(found):
    """The values of this run and the columns of the table of runs."""
    metadata = found.summary_metadata
    content = [
        plugin_data_pb2.HParamsPluginData.FromString(metadata[name].plugin_data.content)
        for name in ("_hparams_/session_start_info", "_hparams_/experiment")
    ]
    values = content[0].session_start_info.hparams
    return values, [info.name for info in content[1].experiment.hparam_infos]


def test_start(tmp_path):
    """Columns for every method, since TensorBoard takes them from one run for all of them."""
    files = EventFiles(tmp_path / "tb", unexpected)
    files.start(CONFIG, COUNTS)
    files.close()
    found = events(tmp_path / "tb")
    assert {"command", "config", "split/clients_by_class"} <= set(found.Tags()["tensors"])
    (command,) = tf.make_ndarray(found.Tensors("command")[0].tensor_proto).reshape(-1)
    assert command.decode().strip() == CONFIG["command"]
    values, columns = hparams_of(found)
    assert values["lr"].number_value == 0.1
    assert "deterministic" not in values  # how it was computed
    assert values["hparams.rho"].number_value == 0.5
    assert values["model_options.hidden_units"].string_value == "[200, 200]"
    assert "local_steps" not in values
    assert {"lr", "hparams.rho", "hparams.lamb", "hparams.server_momentum"} <= set(columns)
    assert columns[:2] == ["algo", "hparams.rho"]  # most methods have a rho
    assert columns.index("hparams.lamb") < columns.index("lr")


def test_results_are_those_of_the_log(tmp_path):
    files = EventFiles(tmp_path / "tb", unexpected)
    files.start(CONFIG, COUNTS)
    files.close()
    about = events(tmp_path / "tb").summary_metadata["_hparams_/experiment"].plugin_data.content
    infos = plugin_data_pb2.HParamsPluginData.FromString(about).experiment.metric_infos
    assert infos[0].name.tag == "accuracy/test_accuracy"
    assert [info.name.tag for info in infos] == [tag(name) for name in tensorboard.METRICS]


def test_distributions(tmp_path):
    """A histogram of four clients in ten bins, and a confusion matrix as a picture."""
    histogram = [0, 0, 1, 0, 0, 0, 0, 0, 0, 3]
    files = EventFiles(tmp_path / "tb", unexpected)
    record = a_record(2, client_train_accuracy_histogram=histogram, confusion=[[3, 1], [0, 2]])
    files.write([a_record(1), record])
    files.close()
    found = events(tmp_path / "tb")
    (entry,) = found.Tensors("clients/client_train_accuracy_histogram")
    bins = tf.make_ndarray(entry.tensor_proto)  # left, right, count
    assert entry.step == 2
    assert bins[:, 2].sum() == 4
    assert bins[0, 0] == pytest.approx(0.25)  # the centres of the first and the last bin
    assert bins[-1, 1] == pytest.approx(0.95)
    assert [e.step for e in found.Tensors("accuracy/confusion")] == [2]


def test_of_many_pictures_some_are_drawn(tmp_path, monkeypatch):
    """Drawing each takes half a second; those of a run that goes on are hundreds."""
    drawn = []
    monkeypatch.setattr(EventFiles, "_draw", lambda self, record: drawn.append(record["round"]))
    files = EventFiles(tmp_path / "tb", unexpected)
    files.write([a_record(n, **({} if n % 2 else {"confusion": [[1]]})) for n in range(1, 201)])
    assert len(drawn) == tensorboard.MOST_PICTURES
    assert (drawn[0], drawn[-1]) == (2, 200)
    assert drawn == sorted(set(drawn))
    files.write([a_record(202, confusion=[[1]])])
    assert drawn[-1] == 202
    files.close()


def test_earlier_files_are_deleted(tmp_path):
    """A run that goes on writes all of its curves anew: no gaps, no forks; nothing else goes."""
    (tmp_path / "tb").mkdir()
    (tmp_path / "tb/rounds.jsonl").write_text("log")
    for last in (3, 2):
        files = EventFiles(tmp_path / "tb", unexpected)
        files.write([a_record(n, train_loss=n / last) for n in range(1, last + 1)])
        files.close()
    assert curve(tmp_path / "tb", "loss/train_loss") == {1: 0.5, 2: 1.0}
    assert (tmp_path / "tb/rounds.jsonl").read_text() == "log"


class TestFailures:
    def test_told_once(self, tmp_path, monkeypatch):
        told = []
        files = EventFiles(tmp_path / "tb", told.append)

        def failing(*_):
            raise tf.errors.ResourceExhaustedError(None, None, "no room\nin C++")

        monkeypatch.setattr(tf.summary.experimental, "write_raw_pb", failing)
        for number in (1, 2):
            files.write([a_record(number)])
        files.close()
        assert len(told) == 1
        assert "cannot be written: no room. The run goes on" in told[0]

    def test_files_that_cannot_be_deleted(self, tmp_path):
        """Curves of two starts would be mixed; a folder of that name cannot be unlinked."""
        old = tmp_path / "events.out.tfevents.1"
        old.mkdir()
        told = []
        files = EventFiles(tmp_path, told.append)
        files.write([a_record(1)])
        files.close()
        assert "cannot be deleted" in told[0]
        assert list(tmp_path.iterdir()) == [old]

    def test_a_name_that_is_no_folder(self, tmp_path):
        (tmp_path / "file").touch()
        told = []
        files = EventFiles(tmp_path / "file/tb", told.append)
        files.start(CONFIG, COUNTS)
        files.write([a_record(1)])
        files.close()
        assert len(told) == 1


class TestPictures:
    @pytest.mark.parametrize("enabled", [True, False])
    def test_figures_are_let_go_at_once(self, enabled, monkeypatch):
        """Though they hold themselves in circles; the collector is as it was."""
        made, init = [], figure.Figure.__init__

        def seen(self, *args, **named):
            made.append(weakref.ref(self))
            init(self, *args, **named)

        monkeypatch.setattr(figure.Figure, "__init__", seen)
        was = gc.isenabled()
        (gc.enable if enabled else gc.disable)()
        try:
            tensorboard.split_picture(COUNTS)
            tensorboard.confusion_picture(np.eye(3))
            assert [reference() for reference in made] == [None, None]
            assert gc.isenabled() == enabled
        finally:
            (gc.enable if was else gc.disable)()

    def test_split(self):
        """Dark where there is nothing, bright where there is most."""
        picture = tensorboard.split_picture(COUNTS)
        assert picture.shape == (600, 800, 3)
        assert picture.dtype == np.uint8
        other = tensorboard.split_picture(COUNTS[::-1])
        assert (picture != other).any()

    def test_many_clients_are_cut(self):
        many = np.tile(COUNTS, (150, 1))
        shown = tensorboard.split_picture(many)
        assert (tensorboard.split_picture(many[:200]) != shown).any()  # the words below it
        told = tensorboard.split_picture(many[:200], (), len(many))
        np.testing.assert_array_equal(told, shown)
        assert shown.shape == (600, 800, 3)

    @pytest.mark.parametrize("names", [(), ("cat", "dog")])
    def test_confusion(self, names):
        right, wrong = np.diag([3, 4]), np.array([[0, 3], [4, 0]])
        pictures = [tensorboard.confusion_picture(m, names) for m in (right, wrong)]
        assert pictures[0].shape == pictures[1].shape == (700, 800, 3)
        assert (pictures[0] != pictures[1]).mean() > 0.1

    def test_a_class_without_examples(self):
        picture = tensorboard.confusion_picture(np.array([[2, 0], [0, 0]]))
        assert picture.dtype == np.uint8

    @pytest.mark.parametrize("count", [31, 62, 200])
    def test_classes_have_their_names(self, count):
        """Of very many, some; other names make another picture."""
        big = np.eye(count, dtype=int)
        unnamed = tensorboard.confusion_picture(big)
        named = tensorboard.confusion_picture(big, [f"class {i}" for i in range(count)])
        assert (named != unnamed).any()
        wrong = tensorboard.confusion_picture(big, ["too", "few"])
        np.testing.assert_array_equal(wrong, unnamed)

    def test_names_at_the_split(self):
        plain, named = (tensorboard.split_picture(COUNTS, n) for n in ((), ("a$", "$b")))
        assert (plain != named).any()


def experiment(loaded):
    dataset = types.SimpleNamespace(num_clients=len(COUNTS))
    return types.SimpleNamespace(
        class_counts=lambda most: COUNTS[:most], loaded=loaded, dataset=dataset
    )


@pytest.mark.parametrize(("before", "told"), [(2, 0), (200, 1)])
def test_the_callback(before, told, tmp_path):
    """Begins with the rounds before; says so if these are many."""
    training = UnderWay(tmp_path, [a_record(n) for n in range(1, before + 1)])
    training.written_config = CONFIG
    loaded = types.SimpleNamespace(class_names=("a", "b"))
    training.experiment = experiment(loaded)
    drive(TensorBoard(), training, [a_record(before + 1, train_loss=0.25)])
    expected = dict.fromkeys(range(1, before + 1), 0.5) | {before + 1: 0.25}
    assert curve(tmp_path, "loss/train_loss") == expected
    assert len(training.told) == told


def test_a_thousand_rounds_are_there_within_seconds(tmp_path):
    """With a confusion matrix every tenth; seconds of this process, whatever else is running."""
    matrix = [[3, 1], [0, 4]]
    every = lambda n: {"confusion": matrix} if n % 10 == 0 else {}  # noqa: E731
    training = UnderWay(tmp_path, [a_record(n, **every(n)) for n in range(1, 1001)])
    training.written_config = CONFIG
    training.experiment = experiment(types.SimpleNamespace(class_names=("a", "b")))
    began = time.process_time()
    drive(TensorBoard(), training, [])
    assert time.process_time() - began < 5
    assert curve(tmp_path, "loss/train_loss") == dict.fromkeys(range(1, 1001), 0.5)


def test_a_run_has_the_name_of_its_folder(tmp_path):
    """As ``tensorboard --logdir`` of the folder above shows it."""
    for name in ("mine", "other"):
        files = EventFiles(tmp_path / name, unexpected)
        files.write([a_record(1)])
        files.close()
    found = EventMultiplexer().AddRunsFromDirectory(str(tmp_path)).Reload()
    assert set(found.Runs()) == {"mine", "other"}


def test_a_run_that_began_with_its_own_folder_for_events_keeps_it(tmp_path):
    (tmp_path / "tensorboard").mkdir()
    training = UnderWay(tmp_path, [a_record(1)])
    training.written_config = CONFIG
    loaded = types.SimpleNamespace(class_names=("a", "b"))
    training.experiment = experiment(loaded)
    drive(TensorBoard(), training, [a_record(2)])
    assert curve(tmp_path / "tensorboard", "loss/train_loss") == {1: 0.5, 2: 0.5}
    assert not list(tmp_path.glob("events*"))
