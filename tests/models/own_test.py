"""The user's own model, `path/to/file.py:function`."""

import textwrap

import numpy as np
import pytest

from tf_fedsam import models
from tf_fedsam.errors import InputError

SHAPE = (6, 6, 1)

GOOD = """
    import dataclasses

    import keras


    @dataclasses.dataclass
    class Sizes:
        units: int = 3


    def net(input_shape, num_classes, units=Sizes.units, scale=1.5, note=None):
        inputs = keras.Input(input_shape)
        x = keras.layers.Flatten()(inputs)
        x = keras.layers.Dense(units, "tanh")(x)
        return keras.Model(inputs, keras.layers.Dense(num_classes)(x))


    def sequential(input_shape, num_classes):
        layers = [keras.Input(input_shape), keras.layers.Flatten(), keras.layers.Dense(num_classes)]
        return keras.Sequential(layers)


    class Net(keras.Model):
        def __init__(self, num_classes):
            super().__init__()
            self.flatten = keras.layers.Flatten()
            self.dense = keras.layers.Dense(num_classes)

        def call(self, x):
            return self.dense(self.flatten(x))


    def subclassed(input_shape, num_classes):
        model = Net(num_classes)
        model(keras.ops.zeros((1, *input_shape)))
        return model
"""


@pytest.fixture
def write(tmp_path):
    def write_file(source, function="net"):
        path = tmp_path / "my_nets.py"
        path.write_text(textwrap.dedent(source))
        return f"{path}:{function}"

    return write_file


@pytest.mark.parametrize("function", ["net", "sequential", "subclassed"])
def test_builds(write, function):
    model = models.build(write(GOOD, function), SHAPE, 4)
    assert model(np.zeros((2, *SHAPE), "float32")).shape == (2, 4)


def test_further_arguments_are_options(write):
    name = write(GOOD)
    assert models.options(name) == {"units": 3, "scale": 1.5, "note": None}
    # 36*5+5 + 5*4+4
    assert models.build(name, SHAPE, 4, {"units": 5, "scale": 2, "note": "x"}).count_params() == 209
    with pytest.raises(InputError, match="Did you mean 'units'"):
        models.build(name, SHAPE, 4, {"unit": 5})
    with pytest.raises(InputError, match=r"units=2.5. Expected a value of type int.*default is 3"):
        models.build(name, SHAPE, 4, {"units": 2.5})
    with pytest.raises(InputError, match=r"scale='big'. Expected a value of type float"):
        models.build(name, SHAPE, 4, {"scale": "big"})
    with pytest.raises(InputError, match="received the options width, but it has none"):
        models.build(write(GOOD, "sequential"), SHAPE, 4, {"width": 5})


def test_unresolved_annotations_do_no_harm(write):
    source = GOOD.replace("note=None", "note: 'Missing' = None")
    assert models.build(write(source), SHAPE, 4, {"units": 5}).count_params() == 209


def test_relative_path(write, tmp_path, monkeypatch):
    write(GOOD)
    monkeypatch.chdir(tmp_path)
    assert models.build("my_nets.py:net", SHAPE, 4).built


def test_edited_file_is_read_again(write):
    models.build(write(GOOD), SHAPE, 4)
    changed = write(GOOD.replace("Sizes.units", "7"))
    assert models.options(changed)["units"] == 7


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*nets.py.*file.py:Name"):
        models.build(f"{tmp_path}/nets.py:net", SHAPE, 4)
    with pytest.raises(InputError, match="there is no file"):
        models.build("nets.py", SHAPE, 4)


def test_missing_function(write, tmp_path):
    message = "Unknown function of my_nets.py 'nett'. Did you mean 'net'.*net, sequential, sub"
    with pytest.raises(InputError, match=message):
        models.build(write(GOOD, "nett"), SHAPE, 4)
    with pytest.raises(InputError, match=r"Unknown function of my_nets.py ''.*sequential"):
        models.build(f"{tmp_path}/my_nets.py", SHAPE, 4)
    with pytest.raises(InputError, match=r"my_nets.py defines no function"):
        models.build(write("net = 3"), SHAPE, 4)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "returned NoneType.*Expected a built keras.Model.*Return the model"),
        ("return keras.layers.Dense(num_classes)", "returned Dense"),
        (
            "return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(num_classes)])",
            r"without weights.*keras.Input\(input_shape\)",
        ),
        ("return make(input_shape, num_classes + 1)", r"output \(None, 5\).*\(None, 4\).*Dense"),
        (
            "m = make(input_shape, num_classes); return keras.Model(m.input, [m.output] * 2)",
            r"output \[\(None, 4\), \(None, 4\)\]",
        ),
        ("return make((7, 6, 1), num_classes)", r"cannot take inputs of shape \(6, 6, 1\)"),
        ("return make(input_shape, num_classes, 'softmax')", "ends in a softmax.*logits"),
        (
            "return keras.Sequential([keras.Input((5,)), keras.layers.Conv2D(3, 3)])",
            r"ValueError: .*min_ndim=4.*\(line 11 of my_nets.py\)$",
        ),
        ("return 1 / 0", r"failed: ZeroDivisionError: .*line 11 of my_nets.py"),
    ],
)
def test_bad_result(write, body, message):
    name = write(f"""
        import keras


        def make(input_shape, units, activation=None):
            x = inputs = keras.Input(input_shape)
            x = keras.layers.Dense(units, activation)(keras.layers.Flatten()(x))
            return keras.Model(inputs, x)

        def net(input_shape, num_classes):
            {body}
    """)
    with pytest.raises(InputError, match=message):
        models.build(name, SHAPE, 4)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_module", "running the file failed: ModuleNotFoundError.*line 1"),
        ("def net(:", "running the file failed: SyntaxError"),
        ("def net(input_shape): ...", r"failed: TypeError: net\(\) takes 1 positional argument"),
    ],
)
def test_bad_file(write, source, message):
    with pytest.raises(InputError, match=message):
        models.build(write(source), SHAPE, 4)
