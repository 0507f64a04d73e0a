"""CIFAR-10: 60,000 photographs, 32 x 32 colour, 10 classes.

Krizhevsky. Learning Multiple Layers of Features from Tiny Images. 2009.
https://www.cs.toronto.edu/~kriz/cifar.html

Settings: Tables 1 and 3 of the FedWMSAM paper (NeurIPS 2025), whose code shares split, model
(ResNet-18 with group normalisation and the stem for large images), normalisation and augmentation
with those of FedInit and FedLESAM. Methods that the paper does not have keep the values of their
own papers. FedNSAM's tables use ``--model_options.stem=cifar --alpha=0.6 --rounds=1000
--sampling=fixed``; FedSAM's use ``--alpha=0.6 --replacement=false --participation=0.2
--local_epochs=10 --batch_size=128 --hparams.rho=0.5``; FedInit's add ``--client_noise=0.1
--category_noise=0.1``.
"""

from pathlib import Path

from tasks.base import Request, Task
from tasks.formats import cifar
from tasks.sources import Found, Source, in_memory, require
from tf_fedsam.data import augment
from tf_fedsam.data.federated_dataset import Preprocess

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)


def publisher(folder: Path, request: Request) -> Found:
    del request
    require(cifar.holds_cifar10(folder), folder)
    x_train, y_train, x_test, y_test = cifar.read_cifar10(folder)
    return Found(
        in_memory(x_train, y_train),
        in_memory(x_test, y_test),
        CLASSES,
        f"the publisher's files in {folder}",
    )


SOURCE = Source(
    name="cifar10",
    home="https://www.cs.toronto.edu/~kriz/cifar.html",
    files="cifar-10-binary.tar.gz or cifar-10-python.tar.gz (packed or unpacked)",
    preprocess=Preprocess(1 / 255, mean=(0.491, 0.482, 0.447), std=(0.247, 0.243, 0.262)),
    publisher=publisher,
    tfds="cifar10",
    class_names=CLASSES,
)

TASK = Task(
    name="cifar10",
    title="CIFAR-10",
    load=SOURCE.load,
    settings={
        "model": "resnet18",
        "rounds": 500,
        "num_clients": 100,
        "participation": 0.1,
        "sampling": "bernoulli",
        "alpha": 0.1,
        "replacement": True,
        "classes_per_client": 3,
        "local_epochs": 5,
        "batch_size": 50,
        "lr": 0.1,
        "lr_decay": 0.998,
    },
    hparams={
        "fedsam": {"rho": 0.01},
        "fedgamma": {"rho": 0.01},
        "fedlesam": {"rho": 0.01},
        "fedlesam_s": {"rho": 0.01},
        "fedlesam_d": {"rho": 0.01, "lamb": 0.1},
        "fedwmsam": {"rho": 0.01, "alpha": 0.1, "alpha_step": 0.01},
        "fedsmoo": {"rho": 0.1, "lamb": 0.1},
        "mofedsam": {"rho": 0.1, "beta": 0.1},
        "fedcm": {"alpha": 0.1},
        "fedspeed": {"rho": 0.1, "lamb": 0.1},
        "feddyn": {"lamb": 0.1},
        "fedprox": {"mu": 0.1},
        "fedinit": {"beta": 0.1},
        "fednsam": {"rho": 0.1, "server_momentum": 0.85},
    },
    algorithm_settings={"feddyn": {"lr_decay": 0.9995}},
    augment=augment.compose(augment.flip(), augment.pad_and_crop(4, probability=0.5)),
)
