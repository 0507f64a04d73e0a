"""What a table costs on this machine: a short timing, scaled to models, batches and steps.

A step of a perceptron and one of LeNet-5 are timed. Other networks take as many times a step of
LeNet-5 as they did where all of them were measured (two cores; GPUs are kinder to large networks).
It is an estimate: good to a factor of two or three.
"""

import math
import time
from collections.abc import Iterable, Mapping

from tf_fedsam import models
from tf_fedsam.lazy import keras, tf
from tf_fedsam.runs.config import ResolvedConfig

# Examples of the data sets, training and all.
EXAMPLES = {
    "fashion_mnist": (60_000, 70_000),
    "mnist": (60_000, 70_000),
    "cifar10": (50_000, 60_000),
    "cifar100": (50_000, 60_000),
    "emnist": (697_932, 814_255),
    "tiny_imagenet": (100_000, 110_000),
    "office_home": (12_471, 15_588),
    "npz": (60_000, 70_000),  # Fashion-MNIST in a file, for a trial
}
NATURAL_CLIENTS = {"office_home": 4}
# Seconds of a step and its batch, all on the same machine; docs/measured.md.
STEPS = {
    "linear": (0.000184, 32),
    "mlp": (0.000547, 32),
    "cnn": (0.0275, 32),
    "lenet5": (0.0458, 50),
    "vgg11": (0.456, 50),
    "resnet18": (0.217, 50),
    "resnet18-cifar": (1.35, 50),
    "resnet34": (0.534, 50),
    "resnet50": (1.58 * (224 / 64) ** 2, 50),  # measured on 64 x 64, used on 224 x 224
    "vit_b16": (20.4, 16),
    "swin_s": (8.04, 16),
    "swin_b": (13.3, 16),
}
SMALL = ("linear", "mlp")
REFERENCES = {"mlp": (28, 28, 1), "lenet5": (32, 32, 3)}
BATCH, NUM_CLASSES, NUM_STEPS = 50, 10, 5


def timing() -> dict[str, float]:
    """Seconds of a step of the two references, with a batch of 50."""
    return {name: _step_seconds(name, shape) for name, shape in REFERENCES.items()}


def seconds(configs: Iterable[ResolvedConfig], timed: Mapping[str, float]) -> float:
    """What some runs take together, one after the other, without tests of the model."""
    return sum(_run_seconds(config, timed) for config in configs)


def num_steps(config: ResolvedConfig) -> float:
    """Local steps of all clients in all rounds, as expected."""
    train, every = EXAMPLES[config.dataset]
    if config.subset is not None:
        train = round(train * config.subset / every)
    clients = config.num_clients or NATURAL_CLIENTS[config.dataset]
    in_round = config.participation * clients
    own = config.local_steps
    if own is None:
        own = config.local_epochs * math.ceil(train / clients / config.batch_size)
    return config.rounds * in_round * own


def _run_seconds(config: ResolvedConfig, timed: Mapping[str, float]) -> float:
    name = config.model
    if config.model_options.get("stem") == "cifar" and f"{name}-cifar" in STEPS:
        name = f"{name}-cifar"
    reference = "mlp" if name in SMALL else "lenet5"
    each, batch = STEPS[name]
    reference_each, reference_batch = STEPS[reference]
    one_image = timed[reference] / BATCH * (each / batch) / (reference_each / reference_batch)
    gradients = config.algorithm.Client.gradients_per_step
    return num_steps(config) * one_image * config.batch_size * gradients


def _step_seconds(name: str, shape: tuple[int, ...]) -> float:
    """The best of some steps of plain SGD: others are slower for what else the machine does."""
    model = models.build(name, shape, NUM_CLASSES)
    images = tf.zeros([BATCH, *shape])
    labels = tf.zeros([BATCH], tf.int32)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(
                labels, model(images, training=True), from_logits=True
            )
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.trainable_weights)
        for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
            weight.assign_sub(0.01 * gradient)

    step()
    taken = []
    for _ in range(NUM_STEPS):
        began = time.perf_counter()
        step()
        model.trainable_weights[0].numpy()  # a GPU is done only when it is read
        taken.append(time.perf_counter() - began)
    return min(taken)
