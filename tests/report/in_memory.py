"""Sections of a report from runs in memory, and parts of its page read back."""

from tests.comparison.runs import group, run
from tests.report.pages import Page
from tf_fedsam.comparison.compared_run import checked
from tf_fedsam.comparison.series import baselines
from tf_fedsam.report.sections import Section, make_sections

DASH = "\N{EN DASH}"  # where there is nothing


def section(*runs, targets=None, **options) -> Section:
    """The only section of these runs, compared with FedAvg."""
    found = group(*runs)
    (made,) = make_sections([found], baselines([found], None, "fedavg"), targets, **options)
    return made


def two_by_two() -> Section:
    """FedAvg ends at 0.2 and 0.3, FedSAM at 0.4 and 0.6, of seeds 0 and 1."""
    return section(
        run("fedavg", 0, (0.1, 0.2)),
        run("fedavg", 1, (0.1, 0.3)),
        run("fedsam", 0, (0.3, 0.4)),
        run("fedsam", 1, (0.3, 0.6)),
    )


def logged(algo="fedavg", seed=0, config=None, **last):
    """A run whose last round has these values, too."""
    one = run(algo, seed)
    records = [one.records[0], {**one.records[-1], **last}]
    return checked(f"{algo}-{seed}", {**one.config, **(config or {})}, records, True)


def only_table(text: str) -> list[list[str]]:
    """The rows of the only table of a part of a page."""
    (rows,) = Page(text).tables.values()
    return rows
