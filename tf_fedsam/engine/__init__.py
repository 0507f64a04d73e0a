"""Federated rounds of one algorithm on one data set, compiled once.

Each replica (a GPU, or a logical CPU device with one thread) has its own copy of the client model
in replica-local variables, which nothing synchronises, and trains its share of the cohort one
client after another. The sums of all replicas are added up once and the server step runs on the
result. All of a round is one ``tf.function``: trip counts are dynamic, so that clients of any size,
and cohorts of any size, run through the same graph.

    engine           what the rest of the library calls
    placement        devices: copies of the model, shares of a cohort, sums over replicas
    cohort           a round's clients and their batches, as the compiled round takes them
    examples         examples on the devices, or read from files for a round
    round            the compiled round: all clients of all replicas, then the server step
    waves            a round of a large cohort, a part of it at a time
    client_training  one client's part in it, from what it is sent to what it leaves behind
    kept             what is kept for a client between rounds, as flat rows
    sums             what is added up over clients
    rehearsal        a round that is only tried, for the local models it would make
    evaluation       the global model on many examples
"""

from tf_fedsam.engine.engine import Engine, RoundResult
from tf_fedsam.engine.kept import LOCAL_MODEL, MODEL_STATE

__all__ = ["LOCAL_MODEL", "MODEL_STATE", "Engine", "RoundResult"]
