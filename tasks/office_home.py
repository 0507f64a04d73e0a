"""OfficeHome: 15,588 pictures of 65 objects in four domains, each of which is a client.

Venkateswara, Eusebio, Chakraborty, Panchanathan. Deep Hashing Network for Unsupervised Domain
Adaptation. CVPR 2017. https://arxiv.org/abs/1706.07522. There is no published test set: a fifth of
each class of each domain, decided by the seed, is set aside.

Settings: Table 2 of the FedWMSAM paper (NeurIPS 2025): ResNet-50, a client for each domain, all of
them in every round, 500 rounds, 10 % of the data (``--subset=1559``). Image size, normalisation and
augmentation are not printed and in no released code; they are the usual ones of ResNet-50.
"""

from pathlib import Path

from tasks import image_folder
from tasks.base import Request, Task
from tasks.fashion_mnist import TASK as FASHION_MNIST
from tasks.sources import Found, Source, require
from tasks.tiny_imagenet import IMAGENET
from tf_fedsam.data import augment
from tf_fedsam.errors import InputError

DOMAINS = ("Art", "Clipart", "Product", "Real World")
NUM_CLASSES = 65
ARCHIVE_FOLDER = "OfficeHomeDataset_10072016"
SIZE = 224


def publisher(folder: Path, request: Request) -> Found:
    inner = folder / ARCHIVE_FOLDER
    root = inner if inner.is_dir() else folder
    require(any((root / domain).is_dir() for domain in DOMAINS), root)
    found = image_folder.find(root, request.seed, request.image_size or SIZE)
    domains = [] if found.client_id is None else sorted(set(found.client_id.tolist()))
    if tuple(domains) != DOMAINS or len(found.class_names) != NUM_CLASSES:
        raise InputError(
            f"{root}: received the domains {', '.join(domains) or 'none'} and "
            f"{len(found.class_names)} classes; expected {', '.join(DOMAINS)} and {NUM_CLASSES}. "
            "Unpack the publisher's archive again, or use dataset=image_folder for another set.",
            "dataset=",
        )
    return found


SOURCE = Source(
    name="office_home",
    home="https://www.hemanthdv.org/officeHomeDataset.html",
    files=f"{ARCHIVE_FOLDER}.zip, unpacked,",
    preprocess=IMAGENET,
    publisher=publisher,
    image_size=SIZE,
)

TASK = Task(
    name="office_home",
    title="OfficeHome",
    load=SOURCE.load,
    settings={
        "model": "resnet50",
        "partition": "natural",
        "participation": 1.0,
        "rounds": 500,
        "local_epochs": 5,
        "batch_size": 50,
        "lr": 0.1,
        "lr_decay": 0.998,
    },
    hparams=FASHION_MNIST.hparams,
    augment=augment.flip(),
)
