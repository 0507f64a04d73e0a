"""Messages in Python's words and in those of the command line."""

from tf_fedsam.errors import InputError, unknown


def test_settings_become_flags():
    error = InputError("lr must be > 0. Received: lr=-1, so use lr_decay.", "lr")
    assert error.with_flags() == "--lr must be > 0. Received: --lr=-1, so use lr_decay."


def test_entries_of_mappings():
    error = InputError("rho must be >= 0. Received: -1.", "hparams.rho")
    assert error.with_flags() == "--hparams.rho must be >= 0. Received: -1."


def test_words_that_are_also_settings():
    """Only where an equals sign follows."""
    error = InputError("It has 2 rounds. Received: rounds=1.", "rounds=")
    assert error.with_flags() == "It has 2 rounds. Received: --rounds=1."


def test_paths_are_left_alone():
    error = InputError("output_dir=runs/model is a file; model is not.", "output_dir", "model")
    assert error.with_flags() == "--output_dir=runs/model is a file; --model is not."


def test_unknown_names():
    error = unknown("colour", "rad", ["red", "blue"], "Or none.")
    expected = "Unknown colour 'rad'. Did you mean 'red'? Expected one of: blue, red. Or none."
    assert str(error) == expected
