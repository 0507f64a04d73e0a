"""Fashion-MNIST: 70,000 pictures of clothes, 28 x 28 grey, 10 classes.

Xiao, Rasul, Vollgraf. Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
Algorithms. 2017. https://arxiv.org/abs/1708.07747. Debian's package dataset-fashion-mnist installs
the publisher's files in /usr/share/datasets/fashion-mnist.

Settings: Table 1 of the FedWMSAM paper (NeurIPS 2025), with the perceptron 784-200-200-10. Not
printed there, from the authors' code: learning-rate decay 0.998, weight decay 0.001, clipping at
10, clients that take part with probability 10 %. The normalisation is in neither; it is the mean
and standard deviation of the training images.
"""

from tasks import protocol
from tasks.base import Task
from tasks.mnist import FIRST_LABELS as MNIST_FIRST_LABELS
from tasks.sources import Source, idx_files
from tf_fedsam.data.federated_dataset import Preprocess

CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)

SOURCE = Source(
    name="fashion_mnist",
    home="https://github.com/zalandoresearch/fashion-mnist",
    files=(
        "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the two t10k files "
        "(or Debian's package dataset-fashion-mnist)"
    ),
    preprocess=Preprocess(scale=1 / 255, mean=(0.2860,), std=(0.3530,)),
    publisher=idx_files("fashion_mnist", CLASSES, {"mnist": MNIST_FIRST_LABELS}),
    tfds="fashion_mnist",
    stand_in="glyphs",
    class_names=CLASSES,
)

TASK = Task(
    name="fashion_mnist",
    title="Fashion-MNIST",
    load=SOURCE.load,
    settings={**protocol.SETTINGS, "model": "mlp", "rounds": 500},
    hparams=protocol.FEDWMSAM_HPARAMS,
    algorithm_settings=protocol.ALGORITHM_SETTINGS,
)
