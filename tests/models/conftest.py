import numpy as np
import pytest

from tf_fedsam.data.federated_dataset import FederatedDataset

SHAPE, NUM_CLASSES = (8, 8, 3), 4


@pytest.fixture(scope="module")
def dataset():
    """Classes that differ in the mean of a channel, on five unequal clients."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, NUM_CLASSES, 120)
    x = generator.normal(size=(120, *SHAPE)) + np.eye(4, 3)[y][:, None, None, :]
    client = np.repeat(np.arange(5), [10, 20, 25, 30, 35])
    return FederatedDataset.from_arrays(x.astype(np.float32), y, client)
