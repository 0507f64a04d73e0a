"""Losses on a plane."""

import numpy as np
import pytest

from tests.analysis.landscape.networks import around, conv_net, linear_net, some_examples
from tests.models import tiny
from tf_fedsam import FederatedDataset, LearningProcess, Preprocess, TrainingOptions, find_algorithm
from tf_fedsam.analysis.landscape.loss import LossFunction
from tf_fedsam.analysis.landscape.plane import Plane, Solution, filter_axes, random_directions
from tf_fedsam.data.federated_dataset import Examples


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
    directions = random_directions([w.shape for w in solutions[0].weights], 0)
    axes = filter_axes(networks[0])
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
