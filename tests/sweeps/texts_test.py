"""What a user reads before and after a sweep."""

from tests.sweeps.pretending import cells_of, complete
from tf_fedsam.sweeps import texts
from tf_fedsam.sweeps.runner import DONE, FAILED, STOPPED, Job


def test_start(tmp_path):
    options = {"algos": ["fedavg", "mofedsam"], "seeds": [0, 1]}
    cells, num_same = cells_of(tmp_path, **options, grid=["lr=0.1,0.10,0.2"])
    complete(cells[0].run.path, cells[0].resolved)
    complete(cells[1].run.path, cells[1].resolved)
    (cells[1].run.path / "summary.json").unlink()
    complete(tmp_path / "out/another", cells[1].resolved)
    assert texts.start_text(cells, num_same, tmp_path / "out").splitlines() == [
        "  algorithms  fedavg, mofedsam",
        "  data sets   glyphs",
        "  seeds       0, 1",
        "  varied      lr",
        "  cells       8: 1 done, 1 begun, 6 new (4 the same as another left out)",
        f"  folder      {tmp_path / 'out'}",
        "Note: glyphs brings hparams.beta=0.3 for mofedsam; set it for a fair comparison.",
        f"Note: {tmp_path / 'out'} also holds runs that are not of this sweep, which are left "
        "alone: another.",
    ]


def jobs_of(tmp_path, statuses):
    cells, _ = cells_of(tmp_path, algos=["fedavg"], seeds=range(len(statuses)))
    jobs = []
    for cell, status in zip(cells, statuses, strict=True):
        if status == DONE:
            complete(cell.run.path, cell.resolved)
        log = tmp_path / f"{cell.name}.log"
        job = Job(cell, ("-m", "me", cell.name), log, status, attempts=2, exit_code=1)
        job.error = f"much\nerror: {cell.name}" if status == FAILED else ""
        jobs.append(job)
    return jobs


def test_end(tmp_path):
    text = texts.end_text(jobs_of(tmp_path, [DONE, FAILED, STOPPED]), "Again.")
    table, _, rest = text.partition("Failed: ")
    assert "1 of 3  50.00" in table
    assert rest.splitlines() == [
        "fedavg-glyphs-seed1, exit code 1 after 2 attempts",
        "    error: fedavg-glyphs-seed1",
        f"  log    {tmp_path / 'fedavg-glyphs-seed1.log'}",
        "  alone  python -m me fedavg-glyphs-seed1",
        "",
        "1 of 3 cells are done, 1 failed, 1 not finished. Again.",
    ]


def test_many_failures_are_told_in_short(tmp_path):
    text = texts.end_text(jobs_of(tmp_path, [FAILED] * 13), "Again.")
    assert text.count("Failed: ") == 10
    rest = "fedavg-glyphs-seed10, fedavg-glyphs-seed11, fedavg-glyphs-seed12"
    assert f"Failed, too: {rest}\n" in text
    assert "last" not in text  # there is no table of nothing


def test_what_is_shown_of_a_failure():
    assert texts.reason("a\nerror: x\nb\nerror: y\nmore") == ["error: y", "more"]
    assert texts.reason("Traceback\n  line\nValueError: z") == [
        *("Traceback", "  line", "ValueError: z"),
    ]
