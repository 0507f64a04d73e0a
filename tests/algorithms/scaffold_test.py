"""SCAFFOLD, option II (Karimireddy et al. 2020, arXiv:1910.06378).

w_i <- w_i - lr (g(w_i) + c - c_i), c_i <- c_i - c + G_i, c <- c + sum of changes / num_clients
"""

import pytest

from tests.algorithms.eager import LR, NUM_CLIENTS, A, V, Visit, server_step
from tests.algorithms.harness import assert_close
from tf_fedsam.algorithms.scaffold import Scaffold
from tf_fedsam.errors import InputError


def visit_with_controls():
    return Visit(Scaffold(), server={"control": V}, state={"control": A / 4})


def test_steps_are_corrected_by_c_minus_c_i():
    visit = visit_with_controls()
    # g + c - c_i = -A/2 + V - A/4
    assert_close(visit.step(), LR * (3 / 4 * A - V))


def test_first_visit_of_round_0_is_plain():
    assert_close(Visit(Scaffold()).step(), LR / 2 * A)


def test_new_control_is_the_mean_gradient():
    """The correction cancels: c_i - c + G_i with G_i = mean g + c - c_i is the mean of g."""
    visit = visit_with_controls()
    visit.step()
    upload, state, summands = visit.report()
    assert_close(state["control"], -A / 2)
    # Its change, new - old, is what goes to the server.
    assert_close(upload["control_change"], -A / 2 - A / 4)
    assert_close(summands["control_change"], -A / 2 - A / 4)
    assert_close(upload["delta"], LR * (3 / 4 * A - V))


def test_new_control_is_the_mean_over_all_steps():
    visit = Visit(Scaffold())
    visit.step()
    visit.step()  # g = -A/2, then at A w = ln 3 -A/4
    assert_close(visit.report()[1]["control"], -(1 / 2 + 1 / 4) / 2 * A)


def test_server_divides_by_all_clients():
    after = server_step(
        Scaffold(server_lr=0.5),
        {"control": V},
        mean={"delta": A},
        total={"control_change": 2 * A},
    )
    assert_close(after["weights"], A / 2)
    assert_close(after["control"], V + 2 / NUM_CLIENTS * A)  # not by the 2 that reported


def test_has_no_hyper_parameters():
    with pytest.raises(InputError, match=r"scaffold has no hyper-parameters.*mu"):
        Scaffold(mu=0.1)
