"""EMNIST ByClass: 814,255 handwritten digits and letters, 28 x 28 grey, 62 classes 0-9 A-Z a-z.

Cohen, Afshar, Tapson, van Schaik. EMNIST: an extension of MNIST to handwritten letters. 2017.
https://arxiv.org/abs/1702.05373. Both the publisher's files and TFDS hold the images with rows and
columns exchanged; here they stand upright.

Settings: Qu et al., FedSAM and MoFedSAM (ICML 2022), Tables 1 and 4. They use 81,425 examples,
training and test together (Table 3; the text says 20 %, but it is 10 %): ``--subset=81425``. Not
printed there: rounds (their tables need up to 893), the learning-rate decay, weight decay and
clipping, which are this program's own, and the normalisation, which only divides by 255.
"""

import string

from tasks.base import Task
from tasks.sources import Source, idx_files
from tf_fedsam.data.federated_dataset import Preprocess

CLASSES = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)

SOURCE = Source(
    name="emnist",
    home="https://www.nist.gov/itl/products-and-services/emnist-dataset",
    files=(
        "emnist-byclass-train-images-idx3-ubyte.gz and the three files of emnist-byclass beside it "
        "(in the archive gzip.zip)"
    ),
    preprocess=Preprocess(scale=1 / 255),
    publisher=idx_files("emnist", CLASSES),
    tfds="emnist/byclass",
    tfds_transposed=True,
    stand_in="glyphs",
    class_names=CLASSES,
)

TASK = Task(
    name="emnist",
    title="EMNIST ByClass",
    load=SOURCE.load,
    settings={
        "model": "cnn",
        "rounds": 1000,
        "num_clients": 100,
        "participation": 0.2,
        "sampling": "bernoulli",
        "alpha": 0.6,
        "replacement": False,
        "local_epochs": 10,
        "batch_size": 32,
        "lr": 0.1,
    },
    hparams={
        "fedsam": {"rho": 0.5},
        "mofedsam": {"rho": 0.5, "beta": 0.1},
        "fedcm": {"alpha": 0.1},
        "mimelite": {"alpha": 0.1},
        "fedrobust": {"perturbation_lr": 0.1, "penalty": 1.0},
    },
)
