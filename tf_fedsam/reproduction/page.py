"""The page of the manual that tells what came out: parts of it are made from kept results.

A part stands between two marks, of which the first says what it is:

<!-- measured: fedwmsam_table1 fashion_mnist -->     columns of a table, measured beside printed
<!-- measured: TABLE COLUMNS best_test_accuracy -->  the same by another statistic
<!-- summary: TABLE COLUMNS -->                      how well they agree, by every statistic
<!-- curves: TABLE COLUMN -->                        accuracy by round, with a picture
<!-- flatness: TABLE COLUMNS -->                     how flat the solutions are
<!-- claims: TABLE -->                               whether claims of a paper hold
<!-- surfaces: FOLDER -->                            loss around solutions, of a landscape.json
<!-- costs: TABLE COLUMN FILE -->                    seconds a round, of launch.bench --json
<!-- end -->
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

from tf_fedsam.errors import InputError
from tf_fedsam.reproduction import curves, results, round_costs, tables, texts
from tf_fedsam.reproduction.cells import file_name, key, places
from tf_fedsam.reproduction.comparison import Comparison, Entry, compare
from tf_fedsam.reproduction.tables import FLATNESS, Table
from tf_fedsam.state.files import write_atomically

MARKED = re.compile(
    r"^<!-- (?P<kind>measured|summary|curves|flatness|claims|surfaces|costs)"
    r"(?:: (?P<what>[^>]*?))? -->\n"
    r"(?P<body>.*?)^<!-- end -->$",
    re.M | re.S,
)
STATISTICS = (
    *("test_accuracy", "best_test_accuracy", "mean_last_10_test_accuracy"),
    "fedinit_test_accuracy",
)


def updated(page: str, folder: pathlib.Path) -> str:
    """The page with its parts made anew from the results in a folder.

    Args:
        page: Markdown.
        folder: has a folder of results for each table.
    """
    if not MARKED.search(page):
        raise InputError(
            "The page has no part that is made from results. Expected: a line such as "
            "<!-- measured: fedwmsam_table1 fashion_mnist -->, and <!-- end --> below it."
        )

    def made(match: re.Match[str]) -> str:
        what = (match["what"] or "").split()
        body = MAKERS[match["kind"]](what, folder)
        head = match[0].partition("\n")[0]
        return f"{head}\n\n{body.strip()}\n\n<!-- end -->"

    return MARKED.sub(made, page)


def differences(page: str, folder: pathlib.Path) -> list[str]:
    """What of the page is not what the results say, line by line."""
    new = updated(page, folder)
    old_lines, new_lines = page.splitlines(), new.splitlines()
    found = [
        f"line {number}: the page has {old!r}, the results give {now!r}"
        for number, (old, now) in enumerate(zip(old_lines, new_lines, strict=False), start=1)
        if old != now
    ]
    if len(old_lines) != len(new_lines):
        found.append(f"the page has {len(old_lines)} lines, the results give {len(new_lines)}")
    for path, (entries, _) in _pictures(page, folder).items():
        if curves.digest_of_picture(path) != curves.digest(entries):
            found.append(f"{path} is not the picture of the curves that the results have")
    return found


def write(file: pathlib.Path, folder: pathlib.Path) -> list[pathlib.Path]:
    """Makes the parts of a page anew, and its pictures that are not what the results say.

    Args:
        file: the page.
        folder: has a folder of results for each table.

    Returns:
        The files that were written.
    """
    text = updated(file.read_text(), folder)
    write_atomically(file, text.encode())
    written = [file]
    for path, (entries, title) in _pictures(text, folder).items():
        if curves.digest_of_picture(path) != curves.digest(entries):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, curves.picture(entries, title))
            written.append(path)
    return written


def _pictures(page: str, folder: pathlib.Path) -> dict[pathlib.Path, tuple[dict[str, Entry], str]]:
    """Methods and title of each picture of a page."""
    found = {}
    for match in MARKED.finditer(page):
        if match["kind"] == "curves":
            table, column, entries = _curves_of((match["what"] or "").split(), folder)
            if entries:
                found[_picture(folder, table, column)] = entries, f"{table.paper}: {column}"
    return found


def kept(table: Table, folder: pathlib.Path) -> dict[str, results.Result]:
    """The results of a table by the names of their files; each is for a place of it.

    Raises:
        InputError: for a result whose settings are not those of the place it is named after.
    """
    found = results.read(folder / table.name)
    seeds = sorted({*table.seeds, *(int(r.settings["seed"]) for r in found.values())})
    wanted = {
        f"{place.cell.name}.json": key(place.cell.resolved.as_dict())
        for place in places(table, folder, seeds=seeds)
    }
    for name, result in found.items():
        if wanted.get(name) != result.key:
            raise InputError(
                f"{folder / table.name / name} is not of a run that {table.name} has under this "
                f"name. Collect its run again, or delete the file."
            )
    return found


def kept_comparison(
    table: Table,
    folder: pathlib.Path,
    columns: Sequence[str] = (),
    statistic: str | None = None,
) -> Comparison:
    """Kept results beside the printed numbers, for all seeds that there are."""
    found = list(kept(table, folder).values())
    seeds = sorted({*table.seeds, *(int(r.settings["seed"]) for r in found)})
    some = places(table, folder, columns=table.chosen_columns(columns), seeds=seeds)
    return compare(table, some, found, statistic)


def _measured(what: Sequence[str], folder: pathlib.Path) -> str:
    if not what:
        raise InputError("<!-- measured: --> names no table. Expected: a table and its columns.")
    name, *rest = what
    statistic = next((word for word in rest if word in STATISTICS), None)
    columns = [word for word in rest if word not in STATISTICS]
    return texts.markdown(kept_comparison(tables.find(name), folder, columns, statistic))


def _flatness(what: Sequence[str], folder: pathlib.Path) -> str:
    """All that the runs of a table know of it, also where the paper prints something else."""
    if not what:
        raise InputError("<!-- flatness: --> names no table. Expected: a table and its columns.")
    name, *columns = what
    return texts.side_by_side(kept_comparison(_of_flatness(tables.find(name)), folder, columns))


def _claims(what: Sequence[str], folder: pathlib.Path) -> str:
    if len(what) != 1:
        raise InputError("<!-- claims: --> takes the one table that has claims.")
    return texts.claims(kept_comparison(_of_flatness(tables.find(what[0])), folder))


def _of_flatness(table: Table) -> Table:
    """The table, asking for all that runs know of flatness."""
    there = {n: dataclasses.replace(c, items=FLATNESS) for n, c in table.columns.items()}
    return dataclasses.replace(table, columns=there)


def _surfaces(what: Sequence[str], folder: pathlib.Path) -> str:
    """Of a landscape.json that is kept beside the results."""
    if len(what) != 1:
        raise InputError("<!-- surfaces: --> takes the one folder that has a landscape.json.")
    path = folder / what[0] / "landscape.json"
    try:
        landscape = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}. launch.landscape writes it.") from None
    return texts.surfaces(landscape)


def _summary(what: Sequence[str], folder: pathlib.Path) -> str:
    """A table by the last round, the best one, and the mean of the last ones."""
    if not what:
        raise InputError("<!-- summary: --> names no table. Expected: a table and its columns.")
    name, *columns = what
    found = {s: kept_comparison(tables.find(name), folder, columns, s) for s in STATISTICS[:3]}
    return texts.summary(found)


def _curves(what: Sequence[str], folder: pathlib.Path) -> str:
    table, column, entries = _curves_of(what, folder)
    if not entries:
        return "Not run."
    path = _picture(folder, table, column)
    words = f"Test accuracy by round of {', '.join(entries)}: the numbers are in the table below."
    link = path.relative_to(folder.parent).as_posix()
    return f"![{words}]({link})\n\n{texts.markdown_table(*curves.grid(entries))}"


def _curves_of(what: Sequence[str], folder: pathlib.Path) -> tuple[Table, str, dict[str, Entry]]:
    if len(what) != 2:
        raise InputError("<!-- curves: --> takes a table and one column of it.")
    table = tables.find(what[0])
    [column] = table.chosen_columns(what[1:])
    return table, column.name, curves.of(kept_comparison(table, folder, what[1:]), column.name)


def _picture(folder: pathlib.Path, table: Table, column: str) -> pathlib.Path:
    return folder / curves.FOLDER / f"{table.name}-{file_name(column)}.png"


def _costs(what: Sequence[str], folder: pathlib.Path) -> str:
    """Of a file that launch.bench wrote, kept beside the results."""
    if len(what) != 3:
        raise InputError(
            "<!-- costs: --> takes a table, one column of it and a file of launch.bench --json."
        )
    table, file = tables.find(what[0]), what[2]
    columns = table.chosen_columns([what[1]])
    if len(columns) != 1:
        raise InputError(
            f"<!-- costs: --> takes one column. Received: {what[1]}, which is several."
        )
    measured = round_costs.read(folder / file)
    return round_costs.markdown(table, columns[0], measured, f"{folder.name}/{file}")


MAKERS: Mapping[str, Callable[[Sequence[str], pathlib.Path], str]] = {
    "measured": _measured,
    "summary": _summary,
    "curves": _curves,
    "flatness": _flatness,
    "claims": _claims,
    "surfaces": _surfaces,
    "costs": _costs,
}
