"""The model in forms that others read. After a real run: tests/launch/main_test.py."""

import json
import os
import pathlib
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import tiny
from tf_fedsam.data.federated_dataset import Preprocess
from tf_fedsam.errors import InputError
from tf_fedsam.runs import export
from tf_fedsam.runs.forms import read_forms

pytestmark = tiny.keras_saves
WEIGHTS = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2, 3], np.float32)]


def network(num_outputs=3):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(num_outputs)])
    if num_outputs == 3:
        model.set_weights(WEIGHTS)
    return model


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The network above, for inputs from 0 to 255 that are scaled to 0 to 1."""
    folder = tmp_path_factory.mktemp("exported")
    wanted = read_forms("saved_model,keras,tflite,serving")
    export.save_model(network(), Preprocess(scale=1 / 255), folder, wanted, name="toy")
    export.save_weights(WEIGHTS, folder / "final_weights.npz")
    return folder


def test_nothing_else_is_left(exported):
    names = {"network.keras", "model.keras", "saved_model", "final_weights.npz"}
    names |= {"model.tflite", "serving"}
    assert {p.name for p in exported.iterdir()} == names


def test_saved_model_takes_raw_inputs(exported):
    """Of 255 and 0: the first row of the kernel and the bias, 0 1 2 + 1 2 3."""
    model = tf.saved_model.load(str(exported / "saved_model"))
    for dtype, signature in ((np.float32, "serving_default"), (np.uint8, "serving_uint8")):
        images = np.array([[255, 0]], dtype)
        received = model.signatures[signature](images=tf.constant(images))
        np.testing.assert_allclose(received["logits"], [[1, 3, 5]], rtol=1e-6)
        np.testing.assert_allclose(model(images)["logits"], [[1, 3, 5]], rtol=1e-6)
        exp = np.exp([1.0, 3, 5])
        np.testing.assert_allclose(received["probabilities"], [exp / exp.sum()], rtol=1e-6)


def test_the_network_takes_normalised_inputs(exported):
    model = keras.models.load_model(exported / "network.keras")
    np.testing.assert_allclose(model(np.array([[1.0, 0]])), [[1, 3, 5]], rtol=1e-6)


def test_keras_model_takes_raw_inputs(exported):
    """As the SavedModel does, bit for bit; uint8 and float32 are the same to it."""
    model = keras.models.load_model(exported / "model.keras")
    served = tf.saved_model.load(str(exported / "saved_model"))
    images = np.array([[255, 0], [3, 200]], np.uint8)
    np.testing.assert_allclose(model(images)[:1], [[1, 3, 5]], rtol=1e-6)
    for kind in (np.uint8, np.float32):
        received = model.predict(images.astype(kind), verbose=0)
        np.testing.assert_array_equal(received, served(images)["logits"])


@pytest.mark.parametrize(
    "preprocess",
    [
        Preprocess(),
        Preprocess(1 / 255, (0.1307,), (0.3081,)),
        Preprocess(1 / 255, (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)),
    ],
)
def test_normalisation_is_the_same(preprocess, tmp_path):
    """(x * scale - mean) / std by NumPy, channel by channel, after saving and loading."""
    channels = max(1, len(preprocess.mean))
    model = keras.Sequential([keras.Input((2, 2, channels)), keras.layers.Flatten()])
    raw = export.with_normalisation(model, preprocess)
    raw.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    x = np.random.default_rng(0).integers(0, 256, (3, 2, 2, channels))
    scaled = x.astype(np.float64) * preprocess.scale
    expected = (scaled - np.asarray(preprocess.mean)) / np.asarray(preprocess.std)
    received = loaded.predict(x.astype(np.uint8), verbose=0)
    np.testing.assert_allclose(received, expected.reshape(3, -1), rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(received, model(preprocess(tf.constant(x))))


def test_half_precision_gives_float32(tmp_path):
    policy = keras.DTypePolicy("mixed_bfloat16")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, dtype=policy)])
    assert export.with_normalisation(model, Preprocess()).outputs[0].dtype == "float32"


def test_tflite(exported):
    """Read by the interpreter that TensorFlow still has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is going to be another package
        interpreter = tf.lite.Interpreter(str(exported / "model.tflite"))
    run = interpreter.get_signature_runner()
    for size in (1, 3):
        received = run(images=np.array([[255, 0]] * size, np.float32))
        np.testing.assert_allclose(received["logits"], [[1, 3, 5]] * size, rtol=1e-6)
        np.testing.assert_allclose(received["probabilities"].sum(1), 1, rtol=1e-6)


def test_onnx(tmp_path):
    pytest.importorskip("tf2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    export.save_model(network(), Preprocess(scale=1 / 255), tmp_path, read_forms("onnx"))
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    images = np.array([[255, 0]], np.float32)
    (logits,) = session.run(["logits"], {"images": images})
    np.testing.assert_allclose(logits, [[1, 3, 5]], rtol=1e-6)


def rest_predict(base: pathlib.Path, body: str) -> dict:
    """What TensorFlow Serving answers to ``POST /v1/models/NAME:predict``, of this folder.

    The newest numbered version; rows of the signature's only input, in its type; a dict a row.
    """
    version = max(base.iterdir(), key=lambda path: int(path.name))
    request = json.loads(body)
    served = tf.saved_model.load(str(version), tags=["serve"])
    function = served.signatures[request.get("signature_name", "serving_default")]
    ((name, spec),) = function.structured_input_signature[1].items()
    images = tf.constant(np.asarray(request["instances"]).astype(spec.dtype.as_numpy_dtype))
    found = function(**{name: images})
    assert {len(value) for value in found.values()} == {len(images)}
    rows = [
        {name: value[i].numpy().tolist() for name, value in found.items()}
        for i in range(len(images))
    ]
    return {"predictions": rows}


class TestServing:
    def test_the_folder_is_numbered(self, exported):
        assert [p.name for p in (exported / "serving").iterdir()] == ["toy"]
        assert [p.name for p in (exported / "serving/toy").iterdir()] == ["1"]
        assert (exported / "serving/toy/1/saved_model.pb").is_file()

    @pytest.mark.parametrize("signature", ["serving_default", "serving_uint8", "serving_float32"])
    def test_an_answer(self, exported, signature):
        body = json.dumps({"signature_name": signature, "instances": [[255, 0], [0, 0]]})
        first, second = rest_predict(exported / "serving/toy", body)["predictions"]
        assert first["logits"] == pytest.approx([1, 3, 5])
        assert second["logits"] == pytest.approx([1, 2, 3])  # the bias
        assert sum(first["probabilities"]) == pytest.approx(1)

    def test_the_signature(self, exported):
        served = tf.saved_model.load(str(exported / "serving/toy/1"))
        function = served.signatures["serving_default"]
        assert function.structured_input_signature[1]["images"].dtype == tf.uint8
        assert function.structured_input_signature[1]["images"].shape.as_list() == [None, 2]
        assert set(function.structured_outputs) == {"logits", "probabilities"}

    def test_of_data_that_are_no_bytes(self, tmp_path):
        wanted = read_forms("serving")
        export.save_model(network(), Preprocess(), tmp_path, wanted, name="a", dtype="float64")
        served = tf.saved_model.load(str(tmp_path / "serving/a/1"))
        inputs = served.signatures["serving_default"].structured_input_signature[1]
        assert inputs["images"].dtype == tf.float32


def test_forms_of_an_earlier_end_go(tmp_path):
    for name in ("model.tflite", "model.keras", "network.keras"):
        (tmp_path / name).touch()
    (tmp_path / "serving/a").mkdir(parents=True)
    export.remove_others(tmp_path, read_forms("keras"))
    assert {p.name for p in tmp_path.iterdir()} == {"model.keras", "network.keras"}


def test_weights(exported):
    with np.load(exported / "final_weights.npz") as file:
        assert file.files == ["w0", "w1"]
        for name, expected in zip(file.files, WEIGHTS, strict=True):
            np.testing.assert_array_equal(file[name], expected)


class TestReadModel:
    @pytest.fixture
    def copy(self, exported, tmp_path):
        for name in ("network.keras", "final_weights.npz"):
            (tmp_path / name).write_bytes((exported / name).read_bytes())
        return tmp_path

    def test_into_another_network(self, copy):
        other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
        export.read_model(other, copy)
        np.testing.assert_array_equal(other.get_weights()[0], WEIGHTS[0])

    def test_of_the_first_runs(self, copy):
        """They called the network model.keras; where both are, the network counts."""
        (copy / "network.keras").rename(copy / "model.keras")
        other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
        export.read_model(other, copy)
        np.testing.assert_array_equal(other.get_weights()[0], WEIGHTS[0])
        assert export.network_file(copy).name == "model.keras"

    def test_another_shape(self, copy):
        with pytest.raises(InputError, match="could not be read as weights of the run's model"):
            export.read_model(network(num_outputs=4), copy)

    @pytest.mark.parametrize("content", [b"", b"PK not a zip"])
    def test_what_is_no_model(self, copy, content):
        (copy / "network.keras").write_bytes(content)
        with pytest.raises(InputError, match="could not be read as weights"):
            export.read_model(network(), copy)

    @pytest.mark.parametrize(
        "weights", [[WEIGHTS[0]], [WEIGHTS[0], WEIGHTS[1] + 1e-6], [*WEIGHTS, WEIGHTS[1]]]
    )
    def test_files_of_two_runs(self, copy, weights):
        export.save_weights(weights, copy / "final_weights.npz")
        with pytest.raises(InputError, match="hold different weights"):
            export.read_model(network(), copy)

    def test_weights_that_are_not_finite_are_the_same_as_themselves(self, tmp_path):
        """A run that diverged can be looked at."""
        bad = [WEIGHTS[0] * np.nan, WEIGHTS[1]]
        model = network()
        model.set_weights(bad)
        model.save(tmp_path / "network.keras")
        export.save_weights(bad, tmp_path / "final_weights.npz")
        export.read_model(network(), tmp_path)


class TestFailures:
    """What was there before stays, and nothing half written does."""

    def test_of_a_file(self, tmp_path, monkeypatch):
        path = tmp_path / "w.npz"
        export.save_weights(WEIGHTS, path)
        before = path.read_bytes()

        def failing(file, **_):
            file.write(b"half")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(np, "savez", failing)
        with pytest.raises(OSError, match="No space left") as caught:
            export.save_weights(WEIGHTS, path)
        assert caught.value.filename == str(path)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["w.npz"]

    def test_of_tensorflow(self, tmp_path, monkeypatch):
        def failing(module, path, **_):
            pathlib.Path(path).mkdir()
            pathlib.Path(path, "half").touch()
            raise tf.errors.ResourceExhaustedError(None, None, "no room\nin C++")

        monkeypatch.setattr(tf.saved_model, "save", failing)
        with pytest.raises(OSError, match="no room") as caught:
            export.save_model(network(), Preprocess(), tmp_path)
        assert caught.value.filename == str(tmp_path / "saved_model")
        assert "C++" not in str(caught.value)
        assert [p.name for p in tmp_path.iterdir()] == ["network.keras"]

    def test_what_a_kill_left_is_overwritten(self, tmp_path):
        (tmp_path / ".new.w.npz").mkdir()
        (tmp_path / ".new.w.npz/x").touch()
        export.save_weights(WEIGHTS, tmp_path / "w.npz")
        assert os.listdir(tmp_path) == ["w.npz"]
