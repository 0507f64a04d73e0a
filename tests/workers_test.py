"""Who the workers are and what they say; several of them are in integration/workers_test.py."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tf_fedsam import devices, workers
from tf_fedsam.errors import InputError


def tf_config(index=1, kind="worker", **jobs):
    jobs = jobs or {"worker": ["a:1", "b:2"]}
    return json.dumps({"cluster": jobs, "task": {"type": kind, "index": index}})


def test_tf_config_tells(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", tf_config())
    assert workers.whereabouts("tf_config") == ({"worker": ["a:1", "b:2"]}, "worker", 1)


def test_a_chief_may_have_a_job_of_its_own(monkeypatch):
    monkeypatch.setenv(
        "TF_CONFIG", tf_config(0, "chief", chief=["c:1"], worker=["a:1"], ps=["p:1"])
    )
    assert workers.whereabouts("tf_config") == (
        {"chief": ["c:1"], "worker": ["a:1"]},
        "chief",
        0,
    )


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "{", "[]", "{}", '{"cluster": {}, "task": {}}'),
        tf_config(2),
        tf_config(0, "ps", ps=["p:1"]),
        tf_config(0, worker=[5]),
        tf_config(0, worker=["no port"]),
        tf_config("one"),
    ],
)
def test_a_tf_config_that_does_not_tell(monkeypatch, text):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(
        InputError, match=r"TF_CONFIG.*Received: .*Expected: .*host0:2222"
    ) as caught:
        devices.make_strategy("cpu:1", "multi_worker")
    assert "--strategy=multi_worker" in caught.value.with_flags()


def test_slurm_tells(monkeypatch):
    """As srun sets it for the third of four tasks on two nodes."""
    told = {
        "SLURM_PROCID": "2",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_NODELIST": "node[3-4]",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    jobs, kind, index = workers.whereabouts("slurm")
    assert jobs == {"worker": ["node3:8888", "node3:8889", "node4:8888", "node4:8889"]}
    assert (kind, index) == ("worker", 2)


def test_slurm_that_does_not_tell(monkeypatch):
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    with pytest.raises(InputError, match=r"SLURM.*Start the command with srun"):
        workers.whereabouts("slurm")


def test_kubernetes_tells(monkeypatch):
    asked = []

    class Resolver:
        def __init__(self, tf_server_port):
            asked.append(tf_server_port)

        def cluster_spec(self):
            return tf.train.ClusterSpec({"worker": ["10.0.0.1:8888", "10.0.0.2:8888"]})

    monkeypatch.setattr(tf.distribute.cluster_resolver, "KubernetesClusterResolver", Resolver)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    jobs, kind, index = workers.whereabouts("kubernetes")
    assert jobs == {"worker": ["10.0.0.1:8888", "10.0.0.2:8888"]}
    assert (kind, index, asked) == ("worker", 1, [workers.PORT])


@pytest.mark.parametrize(
    ("index", "failure", "told"),
    [
        (None, None, "completionMode: Indexed"),
        ("first", None, "completionMode: Indexed"),
        ("0", ImportError("no module"), "pip install kubernetes"),
        ("0", RuntimeError("403: forbidden"), "403: forbidden.*service account"),
    ],
)
def test_kubernetes_that_does_not_tell(monkeypatch, index, failure, told):
    def resolver(tf_server_port):
        raise failure

    monkeypatch.setattr(tf.distribute.cluster_resolver, "KubernetesClusterResolver", resolver)
    monkeypatch.delenv("JOB_COMPLETION_INDEX", raising=False)
    if index is not None:
        monkeypatch.setenv("JOB_COMPLETION_INDEX", index)
    with pytest.raises(InputError, match=told):
        workers.whereabouts("kubernetes")


def test_workers_are_joined_first(monkeypatch):
    """TensorFlow has long been used in this process."""
    monkeypatch.setenv("TF_CONFIG", tf_config(0, worker=["127.0.0.1:1"]))
    tf.constant(1.0)
    with pytest.raises(InputError, match="before anything else uses TensorFlow"):
        devices.make_strategy("cpu:1", "multi_worker")


def test_some_of_the_gpus(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", tf_config())
    with pytest.raises(InputError, match=r"devices=gpu:1 where there are 4.*CUDA_VISIBLE_DEVICES"):
        workers.make_strategy("tf_config", ["GPU:0"], 4)


def test_a_team_of_one():
    team = workers.Team(devices.make_strategy("cpu:2"))
    assert (team.count, team.number, team.is_chief) == (1, 0, True)
    assert team.any(True)
    assert not team.any(False)
    assert team.messages({"a": [1]}) == [{"a": [1]}]
    numbers = np.asarray([1.5, -0.0], np.float32)
    assert team.told_by_chief(numbers) is numbers
    assert team.after_chief(lambda: 5) == 5


def test_errors_of_one_worker_are_its_own():
    team = workers.Team(devices.make_strategy("cpu:2"))
    with pytest.raises(tf.errors.UnavailableError), workers.naming_lost(team):
        raise tf.errors.UnavailableError(None, None, "task:1")


@pytest.mark.parametrize(
    ("message", "who"),
    [
        ("from remote target /job:worker/replica:0/task:2 while calling", "Worker 2 of 3"),
        ("/job:worker/replica:0/task:1 did not hear of task:2", "Worker 2 of 3"),
        ("Collective ops is aborted", "Another worker of 3"),
        ("task:0 and task:2", "Another worker of 3"),
    ],
)
def test_who_has_gone(message, who):
    team = workers.Team(devices.make_strategy("cpu:2"))
    team.count, team.number = 3, 1
    with (
        pytest.raises(workers.WorkerLostError) as caught,
        workers.naming_lost(team, lambda: "Round 5 is saved. "),
    ):
        raise tf.errors.UnavailableError(None, None, message)
    assert str(caught.value) == (
        f"{who} does not answer any more, so worker 1 stops too. Round 5 is saved. Give the same "
        f"command on every worker again."
    )
