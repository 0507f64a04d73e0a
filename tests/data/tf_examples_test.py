"""Examples of a tf.data.Dataset: every form that is read, and what is refused."""

import numpy as np
import pytest
import tensorflow as tf

from tf_fedsam.data import tf_examples
from tf_fedsam.errors import InputError

X = np.arange(7 * 2 * 3, dtype=np.uint8).reshape(7, 2, 3)
Y = np.array([0, 2, 1, 1, 0, 2, 2])


def pairs():
    return tf.data.Dataset.from_tensor_slices((X, Y))


def named():
    return tf.data.Dataset.from_tensor_slices({"image": X, "label": Y, "id": list("abcdefg")})


def generated():
    yield from zip(X, Y, strict=True)


def of(generator, shape):
    return tf.data.Dataset.from_generator(
        generator,
        output_signature=(tf.TensorSpec(shape, tf.uint8), tf.TensorSpec((), tf.int64)),
    )


FORMS = {
    "pairs": lambda: pairs(),
    "batches": lambda: pairs().batch(3),  # the last is shorter
    "batches of known size": lambda: pairs().batch(7, drop_remainder=True),
    "dictionaries": lambda: named(),
    "batches of dictionaries": lambda: named().batch(2),
    "unknown number": lambda: of(generated, (2, 3)),
    "filtered": lambda: pairs().filter(lambda x, y: y >= 0),
    "labels of shape [1]": lambda: tf.data.Dataset.from_tensor_slices((X, Y[:, None])),
    "labels in a column": lambda: tf.data.Dataset.from_tensor_slices((X, Y[:, None])).batch(3),
    "batches of unknown size": lambda: (
        pairs().batch(3).map(lambda x, y: (tf.ensure_shape(x, [None, 2, 3]), y))
    ),
    "more than a batch at a time": lambda: pairs().repeat(100).take(7),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_examples(name):
    x, y, owners = tf_examples.read(FORMS[name]())
    np.testing.assert_array_equal(x, X)
    assert x.dtype == np.uint8
    np.testing.assert_array_equal(y, Y)
    assert y.shape == (7,)
    assert owners is None


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "bool"])
def test_types_are_kept(dtype):
    x = (X % 2).astype(dtype)
    read, _, _ = tf_examples.read(tf.data.Dataset.from_tensor_slices((x, Y)))
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, x)


def test_many_examples_keep_their_order():
    dataset = tf.data.Dataset.range(1000).map(lambda i: (tf.stack([i, -i]), i % 3))
    x, y, _ = tf_examples.read(dataset)
    np.testing.assert_array_equal(x, np.stack([np.arange(1000), -np.arange(1000)], axis=1))
    np.testing.assert_array_equal(y, np.arange(1000) % 3)


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("client_id", ["id", lambda element: element["id"]], ids=["key", "call"])
def test_clients_of_the_examples(batch_size, client_id):
    dataset = named() if batch_size is None else named().batch(batch_size)
    _, _, owners = tf_examples.read(dataset, client_id=client_id)
    assert owners == list("abcdefg")


def test_a_function_sees_one_element_at_a_time():
    for dataset in (pairs(), pairs().batch(2)):
        _, _, owners = tf_examples.read(
            dataset, client_id=lambda pair: int(pair[0].sum() + pair[1])
        )
        assert owners == (X.sum(axis=(1, 2)) + Y).tolist()


def test_other_parts_of_an_element_do_not_matter():
    """Ragged parts could not be batched."""
    ragged = tf.RaggedTensor.from_row_lengths(tf.range(7), [0, 1, 2, 0, 3, 1, 0])
    dataset = tf.data.Dataset.from_tensor_slices({"x": X, "y": Y, "other": ragged})
    np.testing.assert_array_equal(tf_examples.read(dataset)[0], X)


def test_keys_can_be_named():
    dataset = named().map(
        lambda e: {"image": e["image"] + 1, "picture": e["image"], "c": e["label"]}
    )
    x, y, _ = tf_examples.read(dataset, x_key="picture", y_key="c")
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)


def one_hot(x, num_classes=3):
    return tf.data.Dataset.from_tensor_slices((x, np.eye(num_classes, dtype=np.int32)[Y]))


def failing():
    yield X[0], 0
    raise RuntimeError("the disk is gone")


def sizes():
    yield np.zeros((2, 3), np.uint8), 0
    yield np.zeros((2, 4), np.uint8), 0


BAD = {
    "an array": (lambda: X, "type ndarray. Expected a tf.data.Dataset. For arrays"),
    "infinite": (lambda: pairs().repeat(), r"infinite training.*take\(n\)"),
    "empty": (lambda: pairs().take(0), r"empty training.*filter\(\)"),
    "nothing left": (lambda: pairs().filter(lambda x, y: y > 5), "empty training"),
    "no labels": (lambda: pairs().map(lambda x, y: x), r"structure TensorSpec.*pairs \(x, y\)"),
    "sample weights": (lambda: pairs().map(lambda x, y: (x, y, 1.0)), r"structure \(.*map\(\)"),
    "nested": (lambda: pairs().map(lambda x, y: ((x, x), y)), r"the part \(TensorSpec.*map\(\)"),
    "ragged": (
        lambda: pairs().map(lambda x, y: (tf.RaggedTensor.from_tensor(x), y)),
        "the part RaggedTensorSpec.*to_tensor",
    ),
    "unnamed": (
        lambda: named().map(lambda e: {"a": e["image"]}),
        "the keys a. Expected one of ima",
    ),
    "named twice": (
        lambda: named().map(lambda e: {**e, "x": e["image"]}),
        "keys .*image.* Expected one of image, .* Set x_key",
    ),
    "one-hot": (lambda: one_hot(X), r"labels of shape \(3,\).*one-hot.*tf.argmax"),
    "one-hot batches": (lambda: one_hot(X).batch(2), r"labels of shape \(None, 3\).*one-hot"),
    "one-hot as long as the inputs": (
        lambda: one_hot(np.zeros((7, 3, 5))),
        r"a single 1 among zeros.*argmax.*unbatch\(\)",
    ),
    "one-hot floats": (
        lambda: one_hot(X).map(lambda x, y: (x, tf.cast(y, tf.float32))),
        "labels of type float32",
    ),
    "labels with fractions": (
        lambda: pairs().map(lambda x, y: (x, y / 2)),
        "type float64.*tf.cast",
    ),
    "labels in words": (
        lambda: pairs().map(lambda x, y: (x, "cat")),
        "type string. Expected integ",
    ),
    "labels that are true or false": (lambda: pairs().map(lambda x, y: (x, y > 0)), "type bool"),
    "unknown rank": (
        lambda: tf.data.Dataset.from_generator(generated, (tf.uint8, tf.int64)),
        "dimensions is unknown.*output_signature",
    ),
    "single images of several sizes": (lambda: of(sizes, (2, None)), "different shapes.*resize"),
    "batches of several sizes": (
        lambda: of(sizes, (2, None)).batch(1),
        r"shape \(2, 4\) after others of \(2, 3\)",
    ),
    "fewer labels than inputs": (
        lambda: tf.data.Dataset.from_generator(
            lambda: iter([(np.zeros((3, 2), np.uint8), np.zeros(2, np.int64))]),
            output_signature=(tf.TensorSpec((None, 2), tf.uint8), tf.TensorSpec((None,), tf.int64)),
        ),
        "a batch of 3 training inputs with 2 labels",
    ),
    "broken": (lambda: of(failing, (2, 3)), "cannot be read to its end: .*the disk is gone"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data_sets_are_explained(name):
    make, message = BAD[name]
    with pytest.raises(InputError, match=message) as raised:
        tf_examples.read(make())
    assert "Expected" in str(raised.value)
    assert "--" not in str(raised.value)


@pytest.mark.parametrize(
    ("dataset", "arguments", "message"),
    [
        (pairs, {"x_key": "image"}, "x_key='image' for training elements without names"),
        (pairs, {"client_id": "writer"}, "client_id='writer' for training elements without names"),
        (named, {"x_key": "imag"}, "Unknown x_key 'imag'. Did you mean 'image'"),
        (named, {"client_id": "writer"}, "Unknown client_id 'writer'.*Expected one of: id"),
        (lambda: pairs().take(0), {"which": "test"}, "empty test data set"),
    ],
)
def test_bad_arguments_are_explained(dataset, arguments, message):
    with pytest.raises(InputError, match=message):
        tf_examples.read(dataset(), **arguments)


def test_batches_of_balanced_pairs_are_not_one_hot_labels_if_unbatched():
    balanced = tf.data.Dataset.from_tensor_slices((np.zeros((8, 3)), np.arange(8) % 2)).batch(2)
    with pytest.raises(InputError, match="unbatch"):
        tf_examples.read(balanced)
    _, y, _ = tf_examples.read(balanced.unbatch())
    np.testing.assert_array_equal(y, np.arange(8) % 2)
