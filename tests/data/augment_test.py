"""Flip and pad-and-crop against NumPy, and the statistics of their random numbers."""

import numpy as np
import pytest
import tensorflow as tf

import tasks  # noqa: F401  makes the data sets known
from tf_fedsam import InputError, RunConfig
from tf_fedsam.data import augment
from tf_fedsam.data.federated_dataset import Preprocess
from tf_fedsam.runs.experiment import load_data, make_dataset


def images(count, height=5, width=6, channels=3, seed=0):
    return np.random.default_rng(seed).normal(size=(count, height, width, channels)).astype("f4")


def seed(*values):
    return tf.constant(values, tf.int32)


def cropped(x, offsets, padding):
    """Each image cut out of its padded self at (row, column)."""
    border = (padding, padding)
    padded = np.pad(x, ((0, 0), border, border, (0, 0)))
    height, width = x.shape[1:3]
    return np.stack(
        [p[r : r + height, c : c + width] for p, (r, c) in zip(padded, offsets, strict=True)]
    )


@pytest.mark.parametrize("probability", [0.5, 1.0])
@pytest.mark.parametrize("padding", [1, 4, 7])
def test_crop_is_a_window_of_the_padded_image(padding, probability):
    x = images(40)
    at = augment.offsets(seed(3, 4), 40, padding, probability).numpy()
    assert at.min() >= 0
    assert at.max() <= 2 * padding
    result = augment.pad_and_crop(padding, probability)(x, seed(3, 4))
    np.testing.assert_array_equal(result, cropped(x, at, padding))


def test_flip_mirrors_the_chosen_images_only():
    x = images(40)
    chosen = augment.flips(seed(3, 4), 40, 0.5).numpy()
    assert 0 < chosen.sum() < 40
    result = augment.flip()(x, seed(3, 4)).numpy()
    np.testing.assert_array_equal(result[chosen], x[chosen][:, :, ::-1])
    np.testing.assert_array_equal(result[~chosen], x[~chosen])


def test_composed_is_one_after_the_other_with_seeds_of_their_own():
    x = images(30)
    steps = (augment.flip(), augment.pad_and_crop(2), augment.flip())
    expected = x
    for number, step in enumerate(steps):
        expected = step(
            expected, tf.random.experimental.stateless_fold_in(seed(5, 6), number, "philox")
        )
    np.testing.assert_array_equal(augment.compose(*steps)(x, seed(5, 6)), expected)
    # Were the two flips given one seed, they would cancel: the crop of x would be left.
    twice = augment.compose(augment.flip(), augment.flip())(x, seed(5, 6)).numpy()
    assert not np.array_equal(twice, x)


def test_nothing_happens_at_probability_zero():
    x = images(10)
    unchanged = augment.compose(augment.flip(0.0), augment.pad_and_crop(3, 0.0))
    np.testing.assert_array_equal(unchanged(x, seed(1, 2)), x)


def test_probabilities():
    # 20,000 draws: the standard error of a share of 1/2 is 0.0035; 5 of them.
    count, error = 20_000, 5 * 0.0036
    assert abs(augment.flips(seed(0, 1), count, 0.5).numpy().mean() - 0.5) < error
    at = augment.offsets(seed(0, 2), count, 4, 0.5).numpy()
    stay = np.all(at == 4, axis=1)
    # Uncropped: 1/2, and 1/81 of the rest by chance.
    assert abs(stay.mean() - (0.5 + 0.5 / 81)) < error
    always = augment.offsets(seed(0, 3), count, 4, 1.0).numpy()
    # 81 places with 247 expected each, of standard deviation 15.6; the largest of 81 normal
    # numbers is above 5 with probability 5e-5.
    places = np.bincount(always[:, 0] * 9 + always[:, 1], minlength=81)
    assert np.all(np.abs(places - count / 81) < 5 * 15.7)


def test_rows_columns_flips_and_coins_are_independent():
    # Correlations of 20,000 pairs have a standard error of 0.0071; 5 of them.
    count = 20_000
    fold = lambda number: tf.random.experimental.stateless_fold_in(seed(7, 8), number, "philox")  # noqa: E731
    flipped = augment.flips(fold(0), count, 0.5).numpy()
    at = augment.offsets(fold(1), count, 4, 1.0).numpy()
    half = augment.offsets(fold(1), count, 4, 0.5).numpy()
    kept = np.all(half == at, axis=1)
    columns = np.stack([flipped, at[:, 0], at[:, 1], kept]).astype(float)
    neighbours = np.stack([columns[:, :-1], columns[:, 1:]])
    correlations = np.corrcoef(columns) - np.eye(4)
    assert np.abs(correlations).max() < 5 * 0.0071
    for first, second in neighbours.transpose(1, 0, 2):
        assert abs(np.corrcoef(first, second)[0, 1]) < 5 * 0.0071


def test_compiled_with_dynamic_batches():
    """One graph for all batch sizes; the same batch and seed give the same result, eager or not."""
    both = augment.compose(augment.flip(), augment.pad_and_crop(4, probability=0.5))
    traces = []

    @tf.function(
        input_signature=[tf.TensorSpec([None, 5, 6, 3]), tf.TensorSpec([2], tf.int32)],
        autograph=False,
    )
    def compiled(batch, seed):
        traces.append(1)
        result = both(batch, seed)
        assert result.shape.as_list() == [None, 5, 6, 3]
        return result

    for count in (1, 7, 50):
        x = images(count)
        result = compiled(x, seed(9, count)).numpy()
        np.testing.assert_array_equal(result, compiled(x, seed(9, count)))
        np.testing.assert_array_equal(result, both(x, seed(9, count)))
    other = compiled(images(50), seed(9, 51)).numpy()
    assert not np.array_equal(compiled(images(50), seed(9, 50)), other)
    assert len(traces) == 1


def test_the_same_on_every_device():
    both = augment.compose(augment.flip(), augment.pad_and_crop(4, probability=0.5))
    results = []
    for device in ("CPU:0", "CPU:1"):
        with tf.device(device):
            results.append(both(tf.constant(images(20)), seed(1, 1)).numpy())
    np.testing.assert_array_equal(*results)


def test_a_border_of_other_values():
    """Inside it is the image, bit for bit."""
    x, values = images(40), [0.5, -1.0, 2.0]
    at = augment.offsets(seed(3, 4), 40, 3, 1.0).numpy()
    border = np.broadcast_to(np.float32(values), (40, 5 + 6, 6 + 6, 3)).copy()
    border[:, 3:8, 3:9] = x
    expected = np.stack([b[r : r + 5, c : c + 6] for b, (r, c) in zip(border, at, strict=True)])
    result = augment.pad_and_crop(3, border_values=values)(x, seed(3, 4))
    np.testing.assert_array_equal(result, expected)
    assert not np.array_equal(result, augment.pad_and_crop(3)(x, seed(3, 4)))


def own(batch, seed):
    del seed
    return batch + 1


def changed(text, x=None):
    x = images(40) if x is None else x
    return np.asarray(augment.chosen(text, own, x.shape[1:], [0.5, -1.0, 2.0])(x, seed(3, 4)))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("own", own),
        ("flip", augment.compose(augment.flip())),
        ("crop:4", augment.compose(augment.pad_and_crop(4))),
        ("crop:2:0.5", augment.compose(augment.pad_and_crop(2, 0.5))),
        ("crop:4:black", augment.compose(augment.pad_and_crop(4, 1.0, [0.5, -1.0, 2.0]))),
        ("crop:4:0.5:black", augment.compose(augment.pad_and_crop(4, 0.5, [0.5, -1.0, 2.0]))),
        ("flip,crop:4:0.5", augment.compose(augment.flip(), augment.pad_and_crop(4, 0.5))),
        ("crop:4, flip", augment.compose(augment.pad_and_crop(4), augment.flip())),
    ],
)
def test_chosen_by_a_text(text, same):
    np.testing.assert_array_equal(changed(text), same(images(40), seed(3, 4)))


def test_texts_differ():
    texts = ("own", "flip", "crop:4", "crop:4:0.5", "crop:4:black", "crop:3", "flip,crop:4")
    assert len({changed(text).tobytes() for text in texts}) == len(texts)


def test_none():
    assert augment.chosen("none", own, (5, 6, 3), [0]) is None
    assert augment.chosen("none", own, (7,), [0]) is None
    assert augment.chosen("own", None, (7,), [0]) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "all", "flip:2", "crop", "crop:", "crop:0", "crop:-1", "crop:999", "crop:4:0"),
        *("crop:4:2", "crop:4:black:0.5", "crop:black", "crop:1.5", "crop:4:nan", "flip,"),
        "crop:4:0.5:0.5",
    ],
)
def test_wrong_texts_are_refused(text):
    with pytest.raises(InputError, match=r"own, none, or flip and crop:PADDING.*Received"):
        augment.read(text)
    with pytest.raises(InputError, match="own, none, or flip"):
        RunConfig(augment=text).resolve()


def test_only_images_can_be_changed():
    with pytest.raises(InputError, match=r"for images \[height, width, channels\].*\(7,\)"):
        augment.chosen("flip", None, (7,), [0])


def test_black_is_what_becomes_of_zero():
    preprocess = Preprocess(1 / 255, mean=(0.5, 0.4), std=(0.25, 0.2))
    np.testing.assert_allclose(preprocess.black, preprocess(np.zeros(2, np.uint8)))
    assert preprocess.black == (-2.0, -2.0)


def test_a_run_uses_it():
    values = {"dataset": "glyphs", "subset": 200, "num_clients": 2, "normalise": "0.25/0.5"}
    config = RunConfig(**values, augment="crop:4:black").resolve()
    dataset = make_dataset(config, load_data(config))
    x = dataset.preprocess(dataset.test.x[:30]).numpy()
    expected = augment.compose(augment.pad_and_crop(4, 1.0, [-0.5]))(x, seed(3, 4))
    np.testing.assert_array_equal(dataset.augment(x, seed(3, 4)), expected)
    assert config.fingerprint() != RunConfig(**values).resolve().fingerprint()
