"""Run by a test, which kills it: for each line on stdin, a process that resumes and saves.

Prints the process's id when it has resumed. The state is a function of its round alone, so that a
checkpoint can be checked by itself.
"""

import os
import pathlib
import sys

from tests.state.checkpoint import states
from tf_fedsam.process import State
from tf_fedsam.state.checkpoint import CheckpointWriter, load_latest

NUM_CLIENTS = 7


def cohort(round_num: int) -> list[int]:
    return sorted({round_num % NUM_CLIENTS, round_num**2 % NUM_CLIENTS})


def advance(state: State) -> State:
    states.scatter(state.clients, cohort(state.round_num), state.round_num)
    return State(state.round_num + 1, states.server(state.round_num + 1), state.clients)


def extra(state: State) -> dict:
    return {"log_bytes": 100 * state.round_num}


def save_for_ever(folder: pathlib.Path) -> None:
    found = load_latest(folder, states.fresh(), print)
    state = found[0] if found else states.fresh()
    writer = CheckpointWriter(folder)
    print(os.getpid(), flush=True)
    while True:
        state = advance(state)
        writer.save(state, extra(state))


if __name__ == "__main__":
    for _ in sys.stdin:
        if not os.fork():  # saves the import of TensorFlow for each
            save_for_ever(pathlib.Path(sys.argv[1]))
        os.wait()
