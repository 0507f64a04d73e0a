"""Pages for tests: made, read, and shown in a browser."""

import html
import html.parser
import io
import json
import pathlib
import re
import shutil
import subprocess

import pytest
from PIL import Image

import tf_fedsam

MAIN = "Test accuracy and what it took"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")


def render(tmp_path, *places, baseline=None, targets=None, **options):
    """The page of a comparison."""
    comparison = tf_fedsam.compare(places, baseline=baseline, targets=targets)
    return comparison.html(tmp_path / "report.html", **options).read_text()


def last_accuracy(folder: pathlib.Path) -> float:
    return json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])["test_accuracy"]


class Page(html.parser.HTMLParser):
    """Elements, tables and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.tables, self.text = [], {}, ""
        self._cell, self._caption, self._inside = None, None, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)
        if tag == "caption":
            self._caption = ""
        elif tag == "tr":
            self.tables.setdefault(self._caption, []).append([])
        elif tag in ("td", "th"):
            self._cell = ""

    def handle_endtag(self, tag):
        self._inside = self._inside[: len(self._inside) - self._inside[::-1].index(tag) - 1]
        if tag in ("td", "th"):
            self.tables[self._caption][-1].append(" ".join(self._cell.split()))
            self._cell = None

    def handle_data(self, data):
        if not {"script", "style"} & set(self._inside):
            self.text += data
        if self._cell is not None:
            self._cell += data
        elif self._inside and self._inside[-1] == "caption":
            self._caption += data

    def column(self, caption, name):
        """Values of a column by the row's name."""
        head, *rows = self.tables[caption]
        return {row[0]: row[head.index(name)] for row in rows}

    def attributes(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def landscape(folder, file="a.png", content=None, alt="FedSAM is <flatter>"):
    folder = folder / "landscape"
    folder.mkdir()
    (folder / "landscape.json").write_text(json.dumps({"pictures": [{"file": file, "alt": alt}]}))
    if content is None:
        buffer = io.BytesIO()
        Image.new("RGB", (4, 4), (9, 9, 9)).save(buffer, "PNG")
        content = buffer.getvalue()
    (folder / "a.png").write_bytes(content)
    return folder


def browse(tmp_path, page, *flags, width=1280):
    """What the page became, and what the browser had to say about it."""
    result = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--hide-scrollbars", f"--user-data-dir={tmp_path / 'profile'}"),
            *("--enable-logging=stderr", f"--window-size={width},900", *flags),
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, [line for line in result.stderr.splitlines() if "CONSOLE" in line]


PROBE = """<script>
window.problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
addEventListener("load", () => {
  const table = document.querySelector("table.sort"), order = () =>
    [...table.tBodies[0].rows].map((row) => row.cells[0].dataset.value);
  const head = table.tHead.rows[0].cells[2].querySelector("button");
  const found = {width: document.documentElement.scrollWidth, seen: innerWidth, before: order()};
  found.mark = getComputedStyle(head, "::after").content;
  head.click(); found.down = order(); head.click(); found.up = order();
  found.sorted = getComputedStyle(head, "::after").content;
  const shown = (e) => e && getComputedStyle(e).display !== "none";
  found.wide = document.querySelectorAll(".box.wide").length;
  found.told = [...document.querySelectorAll(".more")].filter(shown).length;
  found.dark = getComputedStyle(document.body).backgroundColor;
  found.problems = problems;
  parent.document.title = "PROBED" + JSON.stringify(found);
});
</script>"""


def probed(tmp_path, text, *flags, width=1280):
    """Measures a copy that lets a script of ours in, in a frame: windows are not this narrow."""
    copy = tmp_path / "copy.html"
    opened = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', PROBE, text)
    assert PROBE in opened
    frame = f'<iframe width={width} height=900 style="border:0" srcdoc="{html.escape(opened)}">'
    copy.write_text(f"<!DOCTYPE html><meta charset=utf-8><title>x</title>{frame}")
    dom, _ = browse(tmp_path, copy, "--dump-dom", *flags)
    return json.loads(re.search(r"<title>PROBED(.*?)</title>", dom)[1])
