"""CIFAR-100: 60,000 photographs, 32 x 32 colour, 100 (fine) classes.

Krizhevsky. Learning Multiple Layers of Features from Tiny Images. 2009.
https://www.cs.toronto.edu/~kriz/cifar.html

Settings: Table 5 of the FedInit paper (NeurIPS 2023 and its extension), 10 % of 100 clients,
Dirichlet 0.6, ResNet-18 with group normalisation, 800 rounds. Local epochs and batch are not
printed there and come from the authors' code, as do normalisation and augmentation. FedNSAM's
tables use ``--model_options.stem=cifar --rounds=1000 --sampling=fixed``; FedWMSAM's use
``--model=resnet34 --rounds=500 --alpha=0.1``.
"""

from tasks.base import Task
from tasks.cifar10 import TASK as CIFAR10
from tasks.formats import cifar
from tasks.sources import Source, array_files
from tf_fedsam.data.federated_dataset import Preprocess

CLASSES = (
    *("apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle"),
    *("bottle", "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle"),
    *("caterpillar", "cattle", "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch"),
    *("crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox"),
    *("girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard"),
    *("lion", "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse"),
    *("mushroom", "oak_tree", "orange", "orchid", "otter", "palm_tree", "pear", "pickup_truck"),
    *("pine_tree", "plain", "plate", "poppy", "porcupine", "possum", "rabbit", "raccoon", "ray"),
    *("road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper", "snail"),
    *("snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank"),
    *("telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle"),
    *("wardrobe", "whale", "willow_tree", "wolf", "woman", "worm"),
)


SOURCE = Source(
    name="cifar100",
    home="https://www.cs.toronto.edu/~kriz/cifar.html",
    files="cifar-100-binary.tar.gz or cifar-100-python.tar.gz (packed or unpacked)",
    preprocess=Preprocess(1 / 255, mean=(0.5071, 0.4867, 0.4408), std=(0.2675, 0.2565, 0.2761)),
    publisher=array_files(cifar.holds_cifar100, cifar.read_cifar100, CLASSES),
    tfds="cifar100",
    class_names=CLASSES,
)

TASK = Task(
    name="cifar100",
    title="CIFAR-100",
    load=SOURCE.load,
    settings=dict(CIFAR10.settings) | {"rounds": 800, "alpha": 0.6, "classes_per_client": 10},
    hparams=dict(CIFAR10.hparams) | {"fedsam": {"rho": 0.1}},
    algorithm_settings=CIFAR10.algorithm_settings,
    augment=CIFAR10.augment,
)
