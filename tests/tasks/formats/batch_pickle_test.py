"""Pickled batches are read without being executed."""

import os
import pickle
import pickletools
import struct

import numpy as np
import pytest
from hypothesis import given

from tasks.formats import batch_pickle
from tests.tasks.formats.cifar_files import python2_pickle
from tests.tasks.formats.helpers import damaged, fuzz, memory_below, only_input_errors, refused


def test_the_reader_agrees_with_pickle_on_the_publishers_form():
    fields = {
        b"labels": [3, 255, 256],
        b"data": np.arange(12, dtype=np.uint8).reshape(3, 4),
        b"batch_label": b"testing batch 1 of 1",
    }
    content = python2_pickle(fields)
    trusted = pickle.loads(content, encoding="bytes")  # written three lines above
    np.testing.assert_array_equal(trusted[b"data"], fields[b"data"])
    result = batch_pickle.loads(content, "batch")
    np.testing.assert_array_equal(result["data"], fields[b"data"])
    assert result["labels"] == [3, 255, 256]
    assert result["batch_label"] == "testing batch 1 of 1"


class Hostile:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def hostile_pickles(marker):
    command = f"touch {marker}"
    yield pickle.dumps({b"data": Hostile(os.system, command)}, 2)
    yield pickle.dumps({b"data": Hostile(os.system, command)}, 4)
    yield pickle.dumps(Hostile(eval, f"open({str(marker)!r}, 'w')"), 2)
    yield b"cos\nsystem\n(U" + bytes([len(command)]) + command.encode() + b"tR."
    yield b"(U" + bytes([len(command)]) + command.encode() + b"ios\nsystem\n."  # INST
    yield b"(cos\nsystem\nU" + bytes([len(command)]) + command.encode() + b"o."  # OBJ
    # An admitted name with a dotted path behind it, and admitted functions with other arguments.
    yield b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93."
    yield b"\x80\x04\x8c\x05numpy\x8c\x04load\x93."
    yield b"\x80\x02c_codecs\nencode\nU\x01aU\x05rot13\x86R."
    yield b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\x00\x85U\x01b\x87R."
    # BUILD on an admitted name would set attributes of the function itself.
    yield b"\x80\x02cnumpy\nndarray\n}U\x01aK\x01sb."


def test_hostile_pickles_are_refused_and_not_executed(tmp_path):
    marker = tmp_path / "executed"
    for content in hostile_pickles(marker):
        refused(
            lambda content=content: batch_pickle.loads(content, "data_batch_3"),
            "data_batch_3",
            "Do not open this file with pickle",
        )
        assert not marker.exists()


def test_the_hostile_pickles_of_this_test_do_execute_elsewhere(tmp_path):
    # Otherwise the test above would prove nothing.
    marker = tmp_path / "executed"
    pickle.loads(next(hostile_pickles(marker)))
    assert marker.exists()


def big_text_pickle():
    """Stores one long text and asks a thousand times for it as bytes."""
    text = b"X" + struct.pack("<I", 1 << 20) + b"a" * (1 << 20) + b"q\x01"
    again = b"c_codecs\nencode\nh\x01X\x06\0\0\0latin1\x86R"
    return b"\x80\x02](" + text + again * 1000 + b"e."


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"\x80\x02T" + struct.pack("<I", 2**31 - 1) + b"x.", "damaged"),  # a text of 2 GiB
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.", "damaged"),  # bytes of 4 EiB
        (big_text_pickle(), "many times"),
    ],
)
def test_pickles_cannot_take_memory_that_they_do_not_fill(content, part):
    with memory_below(16 << 20):
        refused(lambda: batch_pickle.loads(content, "batch"), "batch", part)


@pytest.mark.parametrize(
    "content",
    [
        # Nine bytes for which the C unpickler takes 32 GiB: put into memo slot 2**31 - 1.
        b"\x80\x02}r" + struct.pack("<I", 2**31 - 1) + b".",
        b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"}.",  # a frame of 4 EiB
    ],
)
def test_absurd_numbers_around_a_dictionary_do_no_harm(content):
    with memory_below(1 << 20):
        assert batch_pickle.loads(content, "batch") == {}


def test_the_number_of_instructions_is_bounded(monkeypatch):
    monkeypatch.setattr(batch_pickle, "MAX_INSTRUCTIONS", 1_000)
    refused(lambda: batch_pickle.loads(b"\x80\x02" + b"}" * 1_001 + b".", "batch"), "1,000")


def test_the_published_sizes_stay_below_the_bound_on_instructions():
    # CIFAR-100's train: 50,000 of two labels and one file name with its memo entry = 200,000.
    per_image = [b"bos_taurus_s_000507.png"]
    one = python2_pickle({b"filenames": per_image, b"fine_labels": [1], b"coarse_labels": [1]})
    none = python2_pickle({b"filenames": [], b"fine_labels": [], b"coarse_labels": []})
    growth = len(list(pickletools.genops(one))) - len(list(pickletools.genops(none)))
    assert growth == 3
    assert 50_000 * (growth + 1) < batch_pickle.MAX_INSTRUCTIONS / 5


@pytest.mark.parametrize(
    "content",
    [
        b".",
        b"e.",
        b"(.",
        b"((.",
        b"]K\x01u.",
        b"}K\x01s.",
        b"h\x07.",
        b"R.",
        b"b.",
        b"(t",
        b"\x93.",
    ],
)
def test_meaningless_instructions_are_refused(content):
    refused(lambda: batch_pickle.loads(b"\x80\x02" + content, "batch"), "batch")


SMALL_PICKLE = python2_pickle({b"labels": [1, 2], b"data": np.zeros((2, 4), np.uint8)})


@fuzz
@given(content=damaged(SMALL_PICKLE))
def test_damaged_pickles_raise_input_errors_only(content):
    only_input_errors(lambda: batch_pickle.loads(content, "batch"), "batch")
