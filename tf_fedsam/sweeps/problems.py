"""Everything that is wrong with a sweep, told at once."""

from tf_fedsam.errors import InputError

_SHOWN_CELLS, _SHOWN_PROBLEMS = 5, 20


class SweepError(InputError):
    """A sweep that cannot run.

    Args:
        problems: what is wrong, each with the names of the cells that have it.
    """

    def __init__(self, problems: list[tuple[InputError, list[str]]]):
        super().__init__(_told([(str(error), names) for error, names in problems]))
        self._problems = problems

    def with_flags(self) -> str:
        return _told([(error.with_flags(), names) for error, names in self._problems])


def _told(problems: list[tuple[str, list[str]]]) -> str:
    lines = ["The sweep cannot run; nothing was started."]
    for message, names in problems[:_SHOWN_PROBLEMS]:
        lines.append(f"- {message}")
        if names:
            more = len(names) - _SHOWN_CELLS
            rest = f" and {more} more" if more > 0 else ""
            lines.append(f"  in {', '.join(names[:_SHOWN_CELLS])}{rest}")
    if len(problems) > _SHOWN_PROBLEMS:
        lines.append(f"... and {len(problems) - _SHOWN_PROBLEMS} more.")
    return "\n".join(lines)


class Problems:
    """What is wrong, and in which cells."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[InputError, list[str]]] = {}

    def add(self, error: InputError | str, *names: str) -> None:
        """Notes a problem of the cells of these names, or of the whole sweep."""
        error = InputError(error) if isinstance(error, str) else error
        self._found.setdefault(str(error), (error, []))[1].extend(names)

    def refuse(self) -> None:
        """Raises one error for all, if there are any."""
        if self._found:
            raise SweepError(list(self._found.values()))
