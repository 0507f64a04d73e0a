"""The log as a table."""

import csv

import pytest

import tf_fedsam
from tests.runs.callbacks.under_way import UnderWay, a_record, drive
from tests.runs.run_test import toy_config
from tf_fedsam.runs.callbacks.csv_logger import CSVLogger


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_a_round(tmp_path):
    """Numbers, words and truths are cells, ``None`` is an empty one, lists are left out."""
    log = [a_record(1, skipped=True, train_loss=None), a_record(2, algorithm='a "b", c')]
    drive(CSVLogger(), UnderWay(tmp_path), log)
    first, second = rows(tmp_path / "rounds.csv")
    assert list(first) == ["round", "train_loss", "skipped", "seconds", "algorithm"]
    assert (first["round"], first["train_loss"], first["skipped"]) == ("1", "", "True")
    assert (first["algorithm"], second["algorithm"]) == ("", 'a "b", c')


def test_numbers_keep_all_their_digits(tmp_path):
    value = 0.1 + 0.2  # 0.30000000000000004
    drive(CSVLogger(), UnderWay(tmp_path), [a_record(1, train_loss=value)])
    assert float(rows(tmp_path / "rounds.csv")[0]["train_loss"]) == value


def test_columns_that_come_later(tmp_path):
    log = [a_record(1), a_record(2, sharpness=0.5), a_record(3)]
    drive(CSVLogger(), UnderWay(tmp_path), log)
    assert [row["sharpness"] for row in rows(tmp_path / "rounds.csv")] == ["", "0.5", ""]


def test_a_run_that_goes_on_has_all_rows(tmp_path):
    drive(CSVLogger(), UnderWay(tmp_path), [a_record(1), a_record(2)])
    # Round 2 was not saved; the log was cut back.
    drive(CSVLogger(), UnderWay(tmp_path, [a_record(1)]), [a_record(2, train_loss=9)])
    received = rows(tmp_path / "rounds.csv")
    assert [(row["round"], row["train_loss"]) for row in received] == [("1", "0.5"), ("2", "9")]


def test_it_can_be_read_at_any_time(tmp_path):
    logger = CSVLogger()
    logger.set_training(UnderWay(tmp_path))
    logger.on_run_begin()
    assert rows(tmp_path / "rounds.csv") == []
    for number in (1, 2):
        logger.on_round_end(number, a_record(number), None)
        assert len(rows(tmp_path / "rounds.csv")) == number


@pytest.mark.parametrize("as_type", [str, lambda path: path])
def test_another_place(as_type, tmp_path):
    drive(CSVLogger(as_type(tmp_path / "a/b.csv")), UnderWay(tmp_path / "run"), [a_record(1)])
    assert len(rows(tmp_path / "a/b.csv")) == 1
    assert not (tmp_path / "run").exists()


def test_of_a_real_run(tmp_path):
    config = toy_config(tmp_path, probe_every=2, rounds=1)
    tf_fedsam.run(config, tmp_path / "run", verbose=False)
    longer = config.with_values({"rounds": 2})
    run = tf_fedsam.run(longer, tmp_path / "run", callbacks=[CSVLogger()], verbose=False)
    received = rows(run.folder / "rounds.csv")
    assert [int(row["round"]) for row in received] == [1, 2]
    for row, record in zip(received, run.records, strict=True):
        assert float(row["train_loss"]) == record["train_loss"]
        assert row["sharpness"] == str(record.get("sharpness", ""))
