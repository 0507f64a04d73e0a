"""Fills the tables of the reference from the code that they describe.

A page says where: a line ``<!-- generated: settings -->`` is replaced by what the function
``settings`` gives.
"""

import pathlib
import re
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[2])]

from launch.command_line import start  # noqa: E402

start.load(__name__)

import tables  # noqa: E402

MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.M)


def on_page_markdown(markdown: str, **_: object) -> str:
    return MARK.sub(lambda match: getattr(tables, match[1])(), markdown)
