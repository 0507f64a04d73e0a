"""MNIST: 70,000 handwritten digits, 28 x 28 grey, 10 classes.

LeCun, Cortes, Burges. The MNIST database of handwritten digits. http://yann.lecun.com/exdb/mnist/

Settings: those of FL-Simulator (https://github.com/woodenchild95/FL-Simulator), the code that the
papers of FedInit, FedLESAM and FedWMSAM build on, with fewer rounds: the perceptron 784-200-200-10,
100 clients of which each takes part with probability 10 %, 5 local epochs, batch 50.
"""

from tasks.base import Task
from tasks.sources import Source, idx_files
from tf_fedsam.data.federated_dataset import Preprocess

CLASSES = tuple("0123456789")
FIRST_LABELS = (5, 0, 4, 1, 9, 2, 1, 3, 1, 4)
FASHION_FIRST_LABELS = (9, 0, 0, 3, 0, 2, 7, 2, 5, 5)

SOURCE = Source(
    name="mnist",
    home="http://yann.lecun.com/exdb/mnist/",
    files="train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the two t10k files",
    preprocess=Preprocess(scale=1 / 255, mean=(0.1307,), std=(0.3081,)),
    publisher=idx_files("mnist", CLASSES, {"fashion_mnist": FASHION_FIRST_LABELS}),
    tfds="mnist",
    stand_in="glyphs",
    class_names=CLASSES,
)

TASK = Task(
    name="mnist",
    title="MNIST",
    load=SOURCE.load,
    settings={
        "model": "mlp",
        "rounds": 100,
        "num_clients": 100,
        "participation": 0.1,
        "sampling": "bernoulli",
        "alpha": 0.6,
        "replacement": True,
        "local_epochs": 5,
        "batch_size": 50,
    },
    hparams={"fedgamma": {"rho": 0.01}},
    algorithm_settings={"feddyn": {"lr_decay": 0.9995}},
)
