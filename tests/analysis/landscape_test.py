"""Directions, filter normalisation, losses on a plane, kept points, pictures."""

import io

import keras
import numpy as np
import pytest
from PIL import Image

from tests.models import tiny
from tf_fedsam import FederatedDataset, LearningProcess, Preprocess, TrainingOptions, find_algorithm
from tf_fedsam.analysis import landscape, landscape_pictures
from tf_fedsam.analysis.landscape import LossFunction, Plane, PointStore, Solution
from tf_fedsam.analysis.landscape_pictures import Curve, Panel, Scale
from tf_fedsam.data.federated_dataset import Examples
from tf_fedsam.models.trainable import select_trainable

layers = keras.layers


def conv_net():
    """A convolution with BatchNorm, GroupNorm and a dense layer."""
    return keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(4, 3, name="conv"),
            layers.BatchNormalization(name="batch_norm"),
            layers.ReLU(),
            layers.GroupNormalization(2, name="group_norm"),
            layers.Flatten(),
            layers.Dense(3, name="logits"),
        ]
    )


def some_examples(count=37):
    generator = np.random.default_rng(1)
    x = generator.integers(0, 256, (count, 6, 6, 2), dtype=np.uint8)
    return Examples(x, generator.integers(0, 3, count))


def flat(arrays):
    return np.concatenate([a.astype(np.float64).ravel() for a in arrays])


def around(network, seed=0):
    shapes = [tuple(v.shape) for v in network.trainable_variables]
    directions = landscape.random_directions(shapes, seed)
    return Plane.around(Solution.of(network), directions, landscape.filter_axes(network))


def test_directions_are_orthogonal_gaussians_of_the_seed():
    shapes = [(30, 20), (20,), (3, 3, 4, 5)]
    first, second = landscape.random_directions(shapes, 3)
    assert [a.shape for a in first] == [a.shape for a in second] == shapes
    a, b = flat(first), flat(second)
    assert abs(a @ b) / np.sqrt((a @ a) * (b @ b)) < 1e-7
    # 800 standard normals: the mean is within 5 / sqrt(800), the deviation within 5 / sqrt(1600).
    for vector in (a, b):
        assert abs(vector.mean()) < 0.18
        assert abs(vector.std() - 1) < 0.125
    again = landscape.random_directions(shapes, 3)
    assert np.array_equal(flat(again[0]), a)
    assert np.array_equal(flat(again[1]), b)
    assert not np.array_equal(flat(landscape.random_directions(shapes, 4)[0]), a)


def test_without_orthogonalisation_they_would_not_be():
    """Two raw draws of two numbers are far from orthogonal: the check above can fail."""
    first, second = landscape.random_directions([(1, 2)], 0)
    raw = landscape.rng.generator(0, "landscape.direction", 2, 0).standard_normal((1, 2))
    assert abs(float((first[0] * raw).sum())) > 1e-3
    assert abs(float((first[0] * second[0]).sum())) < 1e-6


def test_filters_are_as_long_as_those_of_the_weights():
    network = conv_net()
    plane = around(network)
    names = [v.path.split("/", 1)[-1] for v in network.trainable_variables]
    for direction in (plane.first, plane.second):
        found = dict(zip(names, direction, strict=False))
        weights = dict(zip(names, plane.origin, strict=False))
        for channel in range(4):
            filters = [a["conv/kernel"][:, :, :, channel] for a in (found, weights)]
            assert np.linalg.norm(filters[0]) == pytest.approx(np.linalg.norm(filters[1]), rel=1e-5)
        for unit in range(3):
            filters = [a["logits/kernel"][:, unit] for a in (found, weights)]
            assert np.linalg.norm(filters[0]) == pytest.approx(np.linalg.norm(filters[1]), rel=1e-5)
        still = [n for n in names if n.endswith(("bias", "gamma", "beta"))]
        assert len(still) == 6
        for name in still:
            assert not found[name].any(), name
        assert not any(a.any() for a in direction[len(names) :])  # BatchNorm statistics


def test_filter_axes_of_other_layers():
    def axes_of(layer, *shape):
        inputs = keras.Input(shape)
        outputs = layer(inputs, inputs) if isinstance(layer, layers.MultiHeadAttention) else None
        network = keras.Model(inputs, layer(inputs) if outputs is None else outputs)
        found = landscape.filter_axes(network)
        paths = ["/".join(v.path.split("/")[-2:]) for v in network.trainable_variables]
        return dict(zip(paths, found, strict=True))

    attention = axes_of(layers.MultiHeadAttention(2, 5, name="a"), 7, 6)
    # query kernel [6 in, 2 heads, 5]: an output is a unit of a head; its bias [2, 5] stays.
    assert attention["query/kernel"] == attention["key/kernel"] == (1, 2)
    assert attention["query/bias"] is None
    # output kernel [2 heads, 5, 6 out]
    assert attention["attention_output/kernel"] == (2,)
    assert axes_of(layers.Embedding(9, 4, name="e"), 3)["e/embeddings"] == (0,)
    assert axes_of(layers.DepthwiseConv2D(3, name="d"), 8, 8, 2)["d/kernel"] == (2, 3)
    separable = axes_of(layers.SeparableConv2D(5, 3, name="s"), 8, 8, 2)
    assert separable["s/depthwise_kernel"] == (2, 3)
    assert separable["s/pointwise_kernel"] == (3,)
    # kernel [3, 3, 5 out, 2 in]
    assert axes_of(layers.Conv2DTranspose(5, 3, name="t"), 8, 8, 2)["t/kernel"] == (2,)
    assert axes_of(layers.Conv1D(5, 3, name="c"), 8, 2)["c/kernel"] == (2,)
    assert axes_of(layers.PReLU(name="p"), 4, 3)["p/alpha"] is None
    assert axes_of(layers.Dense(1, name="one"), 4)["one/kernel"] == (1,)

    class Token(layers.Layer):
        def build(self, shape):
            self.token = self.add_weight(shape=(1, 1, shape[-1]), name="class_token")
            self.table = self.add_weight(shape=(5, shape[-1]), name="relative_bias_table")
            self.other = self.add_weight(shape=(5, shape[-1]), name="other")

        def call(self, x):
            return x + self.token + self.table[0] + self.other[0]

    own = axes_of(Token(name="own"), 3, 6)
    assert own == {"own/class_token": None, "own/relative_bias_table": None, "own/other": (1,)}


@tiny.swin_masks
@pytest.mark.parametrize(
    "name",
    [
        "cnn",
        "resnet18",
        "vit_b16",
        pytest.param("swin_s", marks=pytest.mark.slow),
    ],
)
def test_every_family_of_models(name):
    """At a point the loss is that of the network with the point's weights put into it."""
    network = tiny.build(name)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(6, *tiny.TINY[name][0])).astype(np.float32)
    examples = Examples(x, generator.integers(0, tiny.NUM_CLASSES, 6))
    plane = around(network)
    variables = network.trainable_variables
    moving = {v.name for v, d in zip(variables, plane.first, strict=False) if d.any()}
    assert moving <= {"kernel", "embeddings"}
    assert all(d.any() for v, d in zip(variables, plane.first, strict=False) if "kernel" in v.name)
    point = (0.3, -0.4)
    found = LossFunction(network, examples, Preprocess())(plane, [(0.0, 0.0), point])[:, 0]
    for value, at in zip(found, [(0.0, 0.0), point], strict=True):
        for variable, w, a, b in zip(
            variables, plane.origin, plane.first, plane.second, strict=False
        ):
            variable.assign(w + at[0] * a + at[1] * b)
        logits = np.asarray(network(x, training=False), np.float64)
        each = np.log(np.exp(logits).sum(1)) - logits[np.arange(6), examples.y]
        assert value == pytest.approx(each.mean(), rel=1e-4)
    assert abs(found[0] - found[1]) > 1e-5


def test_frozen_parts_do_not_move():
    network = select_trainable(conv_net(), "head")
    plane = around(network)
    assert [a.shape for a in plane.first[:2]] == [(144 // 9 * 4, 3), (3,)]
    assert plane.first[0].any()
    assert not any(a.any() for a in plane.first[1:])


def test_two_solutions_share_directions():
    """Twice the weights: the same direction, twice as long."""
    network = conv_net()
    one = Solution.of(network)
    two = Solution([2 * w for w in one.weights], one.state)
    shapes = [w.shape for w in one.weights]
    directions = landscape.random_directions(shapes, 0)
    axes = landscape.filter_axes(network)
    a, b = (Plane.around(s, directions, axes) for s in (one, two))
    np.testing.assert_allclose(flat(b.first), 2 * flat(a.first), rtol=1e-6)
    np.testing.assert_allclose(flat(b.second), 2 * flat(a.second), rtol=1e-6)


def linear_net():
    return keras.Sequential([keras.Input((2,)), layers.Dense(2)])


def test_losses_by_hand():
    """One example [1, 2] of class 0. Its logits are [1 + x, 2 y], so F = log(1 + exp(2 y - 1 - x)).

    W = [[1, 0], [0, 0]] moves by x [[1, 0], [0, 0]] and by y [[0, 0], [0, 1]]; the bias is 0.
    """
    bias = np.zeros(2, np.float32)
    plane = Plane(
        [np.asarray([[1, 0], [0, 0]], np.float32), bias],
        [np.asarray([[1, 0], [0, 0]], np.float32), bias],
        [np.asarray([[0, 0], [0, 1]], np.float32), bias],
    )
    examples = Examples(np.asarray([[1, 2]], np.float32), np.asarray([0]))
    points = [(0.0, 0.0), (2.0, 0.0), (0.0, 1.0), (-1.0, 0.5), (3.0, -1.0)]
    found = LossFunction(linear_net(), examples, Preprocess())(plane, points)
    # log(1 + exp(-1)), log(1 + exp(-3)), log(1 + exp(1)), log(1 + exp(1)), log(1 + exp(-6))
    by_hand = [0.31326169, 0.04858735, 1.31326169, 1.31326169, 0.00247569]
    np.testing.assert_allclose(found[:, 0], by_hand, rtol=1e-4)
    np.testing.assert_array_equal(found[:, 1], [1, 1, 0, 0, 1])


@pytest.mark.parametrize("batch_size", [1, 5, 37, 500])
def test_mean_over_all_examples_after_preprocessing(batch_size):
    """Against NumPy in float64, also if the last batch is smaller."""
    generator = np.random.default_rng(0)
    x, y = generator.integers(0, 9, (37, 2), dtype=np.uint8), generator.integers(0, 2, 37)
    kernel, shift = (generator.normal(size=(2, 2)).astype(np.float32) for _ in range(2))
    bias = np.asarray([0.3, -0.2], np.float32)
    zero = np.zeros_like(bias)
    plane = Plane([kernel, bias], [shift, zero], [np.zeros_like(kernel), zero])
    preprocess = Preprocess(scale=1 / 8, mean=(0.5,), std=(0.25,))
    losses = LossFunction(linear_net(), Examples(x, y), preprocess, batch_size)
    found = losses(plane, [(0.7, 9.0)])[0]
    logits = ((x / 8 - 0.5) / 0.25) @ (kernel + 0.7 * shift).astype(np.float64) + bias
    each = np.log(np.exp(logits).sum(1)) - logits[np.arange(37), y]
    assert found[0] == pytest.approx(each.mean(), rel=1e-5)
    assert found[1] == pytest.approx((logits.argmax(1) == y).mean())


def trained(algorithm="fedavg", seed=0):
    """A process and its state after two rounds, whose BatchNorm statistics have moved."""
    examples = some_examples()
    dataset = FederatedDataset.from_arrays(
        examples.x,
        examples.y,
        np.arange(37) // 10,
        preprocess=Preprocess(scale=1 / 255, mean=(0.5,), std=(0.25,)),
    )
    options = TrainingOptions(batch_size=5, local_epochs=1)
    process = LearningProcess(
        conv_net, find_algorithm(algorithm)(), dataset, options=options, seed=seed
    )
    state = process.initialize()
    for _ in range(2):
        state, _ = process.next(state, dataset.client_ids)
    return process, state


@pytest.fixture(scope="module")
def two_trained():
    return trained(seed=0), trained(seed=1)


def test_the_middle_is_what_the_process_evaluates(two_trained):
    """BatchNorm in inference mode, with the run's statistics."""
    (process, state), _ = two_trained
    network, examples = process.get_model(state), process.dataset.train
    losses = LossFunction(network, examples, process.dataset.preprocess, 10)
    middle = losses(around(network), [(0.0, 0.0)])[0]
    evaluated = process.evaluate(state, examples)
    assert middle[0] == pytest.approx(evaluated["loss"], rel=1e-5)
    assert middle[1] == pytest.approx(evaluated["accuracy"])


def test_one_graph_for_all_planes_and_counts(two_trained):
    solutions, networks = [], []
    for process, state in two_trained:
        networks.append(process.get_model(state))
        solutions.append(Solution.of(networks[-1]))
    process, _ = two_trained[0]
    losses = LossFunction(networks[0], process.dataset.train, process.dataset.preprocess)
    directions = landscape.random_directions([w.shape for w in solutions[0].weights], 0)
    axes = landscape.filter_axes(networks[0])
    planes = [Plane.around(solution, directions, axes) for solution in solutions]
    values = [losses(plane, [(0.1, 0.2)] * count) for plane in planes for count in (1, 2, 7)]
    assert losses.num_traces == 1
    assert [len(v) for v in values] == [1, 2, 7, 1, 2, 7]
    assert values[0][0, 0] == values[2][6, 0]
    assert values[0][0, 0] != values[3][0, 0]


def test_the_line_between_ends_at_both_solutions(two_trained):
    """Both ends are what their processes evaluate, so the statistics go along."""
    solutions = [Solution.of(process.get_model(state)) for process, state in two_trained]
    process, _ = two_trained[0]
    examples = process.dataset.train
    losses = LossFunction(process.network, examples, process.dataset.preprocess)
    ends = losses(Plane.between(*solutions), [(0.0, 0.0), (1.0, 0.0)])[:, 0]
    expected = [process.evaluate(state, examples)["loss"] for process, state in two_trained]
    np.testing.assert_allclose(ends, expected, rtol=1e-4)
    assert abs(expected[0] - expected[1]) > 1e-2


def test_barrier():
    """t + 4 t (1 - t): the line between the ends is t, the bump is 1 high, at 1/2."""
    t = np.asarray([p[0] for p in landscape.between_points(21)])
    assert landscape.barrier(t, t + 4 * t * (1 - t)) == pytest.approx(1)
    assert landscape.barrier(t, 3 - 2 * t) == pytest.approx(0)
    assert landscape.barrier(t, t * t) == pytest.approx(0)


def test_points():
    assert landscape.axis(5, 2.0) == [-2, -1, 0, 1, 2]
    for grid, span in ((21, 1.0), (41, 1.0), (7, 0.3)):
        axis = landscape.axis(grid, span)
        assert len(axis) == grid
        assert axis[grid // 2] == 0
        assert axis == [-x for x in reversed(axis)]
    assert set(landscape.axis(11, 0.7)) < set(landscape.axis(21, 0.7))
    assert landscape.surface_points(3, 1.0)[:4] == [(-1, -1), (0, -1), (1, -1), (-1, 0)]
    assert [x for x, _ in landscape.line_points(3, 1.0)] == [-1, -0.5, 0, 0.5, 1]
    ring = np.asarray(landscape.ring_points(0.5))
    np.testing.assert_allclose(np.hypot(*ring.T), 0.5)
    np.testing.assert_allclose(ring.sum(0), 0, atol=1e-12)
    for grid in (3, 5, 21):
        t = [p[0] for p in landscape.between_points(grid)]
        assert len(t) == 2 * grid - 1
        assert (t[0], t[-1]) == (-0.5, 1.5)
        assert {0.0, 1.0} <= set(t)


def test_a_stopped_evaluation_goes_on(tmp_path):
    """Each call is kept: after a stop only the rest is evaluated, with the same values."""
    asked: list = []

    def value(points):
        asked.extend(points)
        if len(asked) > 20:
            raise KeyboardInterrupt
        return np.asarray([[x + 10 * y, x] for x, y in points])

    points = landscape.surface_points(7, 1.0)
    path = tmp_path / "points.npz"
    with pytest.raises(KeyboardInterrupt):
        landscape.fill(PointStore(path), points, value)
    store = PointStore(path)
    kept = len(store.known)
    assert 0 < kept <= 20
    asked.clear()
    asked_before = list(store.known)

    def rest(points):
        asked.extend(points)
        return np.asarray([[x + 10 * y, x] for x, y in points])

    done: list[int] = []
    landscape.fill(store, points, rest, done.append)
    assert sum(done) == len(asked) == 49 - kept
    assert not set(asked) & set(asked_before)
    expected = [[x + 10 * y, x] for x, y in points]
    np.testing.assert_array_equal(PointStore(path).read(points), expected)
    landscape.fill(PointStore(path), points, None)  # nothing is missing, so it is not called
    finer = landscape.surface_points(13, 1.0)
    assert len(PointStore(path).missing(finer)) == 169 - 49


def test_values_that_are_not_finite_are_kept(tmp_path):
    store = PointStore(tmp_path / "p.npz")
    store.add([(0.0, 0.0), (1.0, 0.0)], np.asarray([[np.inf, 0.5], [np.nan, 0.1]]))
    found = PointStore(tmp_path / "p.npz").read([(0.0, 0.0), (1.0, 0.0)])
    np.testing.assert_array_equal(found, [[np.inf, 0.5], [np.nan, 0.1]])


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", None])
def test_an_unreadable_store_is_empty(tmp_path, content):
    path = tmp_path / "points.npz"
    if content is None:
        np.savez(path, points=np.zeros((3, 2)), values=np.zeros((2, 2)))
    else:
        path.write_bytes(content)
    assert PointStore(path).known == {}


def test_fingerprint_sees_what_decides():
    network = linear_net()
    plane, examples = around(network), Examples(np.ones((3, 2), np.float32), np.asarray([0, 1, 1]))
    base = landscape.fingerprint(plane, examples, "a")
    assert landscape.fingerprint(around(network), examples, "a") == base
    others = [
        landscape.fingerprint(plane, examples, "b"),
        landscape.fingerprint(around(network, seed=1), examples, "a"),
        landscape.fingerprint(plane, Examples(examples.x, np.asarray([0, 1, 0])), "a"),
        landscape.fingerprint(plane, Examples(2 * examples.x, examples.y), "a"),
    ]
    network.trainable_variables[0].assign(2 * network.trainable_variables[0].numpy())
    others.append(landscape.fingerprint(around(network), examples, "a"))
    assert len({base, *others}) == 6


def bowls(count, grid=11, steep=1.0):
    x = np.asarray(landscape.axis(grid, 1.0))
    r = x[None, :] ** 2 + x[:, None] ** 2
    return [Panel(f"run {i} lr=0.{i}", "note", 0.2 + steep * (i + 1) * r) for i in range(count)]


def as_array(content):
    picture = Image.open(io.BytesIO(content))
    assert picture.format == "PNG"
    return np.asarray(picture.convert("RGB"))


@pytest.mark.parametrize("count", [1, 12])
@pytest.mark.parametrize("draw", ["contours", "surfaces"])
def test_every_panel_is_drawn(draw, count):
    """Where a panel is, there are many of the map's colours; no two panels look the same."""
    panels = bowls(count)
    scale = Scale.of([p.loss for p in panels], 10)
    figure = getattr(landscape_pictures, draw)(panels, landscape.axis(11, 1.0), scale)
    pixels = as_array(landscape_pictures.png(figure))
    height, width = pixels.shape[:2]
    assert width < 2400
    parts = []
    for axes in figure.axes[:count]:
        box = axes.get_position()
        rows = slice(int((1 - box.y1) * height), int((1 - box.y0) * height))
        part = pixels[rows, int(box.x0 * width) : int(box.x1 * width)]
        colourful = part.reshape(-1, 3)[np.ptp(part.reshape(-1, 3), axis=1) > 20]
        assert len(colourful) > 0.1 * part.shape[0] * part.shape[1]
        assert len(np.unique(colourful, axis=0)) > 10
        parts.append(part.tobytes())
    assert len(set(parts)) == count
    assert [axes.get_title().split(" lr")[0] for axes in figure.axes[:count]] == [
        f"run {i}" for i in range(count)
    ]


def test_panels_share_levels_and_axes():
    panels = bowls(3)
    scale = Scale.of([p.loss for p in panels], 10)
    figure = landscape_pictures.contours(panels, landscape.axis(11, 1.0), scale)
    limits = {(axes.get_xlim(), axes.get_ylim()) for axes in figure.axes[:3]}
    assert limits == {((-1.0, 1.0), (-1.0, 1.0))}
    filled = [axes.collections[0] for axes in figure.axes[:3]]
    assert {(f.norm.vmin, f.norm.vmax) for f in filled} == {(scale.low, scale.high)}


def test_scale_ends_where_guessing_is_better():
    """3 log(10) = 6.9; corners of 1e30, inf and nan are drawn as that."""
    loss = np.asarray([0.1, 2.0, 1e30, np.inf, np.nan])
    scale = Scale.of([loss], 10)
    assert scale.clipped
    assert scale.high == pytest.approx(3 * np.log(10))
    np.testing.assert_allclose(scale.clip(loss), [0.1, 2.0, *[scale.high] * 3])
    assert not Scale.of([np.asarray([0.1, 2.0])], 10).clipped
    assert Scale.of([np.asarray([0.1, 2.0])], 10).high == 2
    for odd in ([3.0, 3.0], [0.0, 0.0], [0.0, 1e-12], [np.nan, np.inf], [1e-9, 5.0], [50.0, 90.0]):
        scale = Scale.of([np.asarray(odd)], 10)
        assert 0 < scale.low < scale.high
        assert scale.nice()
        assert all(scale.low <= v <= scale.high for v in scale.nice())
        panel = Panel("p", "", np.resize(np.asarray(odd), (3, 3)))
        assert landscape_pictures.rgb(
            landscape_pictures.contours([panel], landscape.axis(3, 1.0), scale)
        ).any()


@pytest.mark.parametrize("count", [1, 13])
def test_lines(count):
    at = landscape.axis(9, 1.0)
    curves = [
        Curve(f"run {i}", at, 0.1 + (i + 1) * np.square(at), 1 - np.square(at))
        for i in range(count)
    ]
    scale = Scale.of([c.loss for c in curves], 10)
    figure = landscape_pictures.lines(curves, scale, "t", "x", marks=((0.0, "first"),))
    left, right = figure.axes
    assert len(left.lines) == len(right.lines) == count + 1  # and the mark
    looks = {(line.get_color(), line.get_linestyle()) for line in left.lines[:count]}
    assert len(looks) == count
    np.testing.assert_allclose(right.lines[0].get_ydata(), 100 * (1 - np.square(at)))
    assert len(figure.legends[0].get_texts()) == count
    assert as_array(landscape_pictures.png(figure)).std() > 5
