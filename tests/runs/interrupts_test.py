"""Signals: raised, noted, or the end. In real runs: tests/integration/interruption_test.py."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from tf_fedsam.runs import interrupts

pytestmark = pytest.mark.usefixtures("usual_signals")


def handlers():
    return [signal.getsignal(number) for number in interrupts.SIGNALS]


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_raised(number):
    before = handlers()
    with pytest.raises(KeyboardInterrupt), interrupts.raised():
        os.kill(os.getpid(), number)
    assert handlers() == before


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_noted_once_and_raised_the_second_time(number):
    before = handlers()
    with interrupts.noted() as request:
        assert not request.made
        os.kill(os.getpid(), number)
        assert request.made
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    assert handlers() == before


def test_each_loop_has_its_own_note():
    with interrupts.noted():
        os.kill(os.getpid(), signal.SIGTERM)
    with interrupts.noted() as request:
        assert not request.made


def test_blocks_inside_each_other():
    """A loop notes what the launcher around it would raise."""
    with interrupts.raised():
        with interrupts.noted() as request:
            os.kill(os.getpid(), signal.SIGINT)
        assert request.made
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_what_is_ignored_stays_ignored():
    """As under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupts.raised(), interrupts.noted() as request:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not request.made
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_handlers_come_back_after_an_error():
    before = handlers()
    with pytest.raises(ZeroDivisionError), interrupts.noted():
        raise ZeroDivisionError
    assert handlers() == before


def test_threads_may_not_change_handlers():
    """A run in a thread of a notebook runs all the same."""
    before, seen = handlers(), []

    def work():
        with interrupts.raised(), interrupts.noted() as request:
            seen.append(request.made)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
    assert handlers() == before


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_quit_while_loading(number):
    """At once, with one line, even while what is written to stderr is held back."""
    script = (
        "import os, signal\n"
        "from tf_fedsam.runs import interrupts\n"
        "interrupts.quit_while_loading()\n"
        "os.dup2(os.open(os.devnull, os.O_WRONLY), 2)\n"
        f"os.kill(os.getpid(), {int(number)})\n"
        "print('went on')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (interrupts.FAILED, b"")
    assert done.stderr == b"\nInterrupted.\n"


def test_it_loads_nothing_heavy():
    script = (
        "import sys; from tf_fedsam.runs import interrupts\n"
        "assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
