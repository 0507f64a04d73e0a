"""How a method looks: one colour, dashes and a marker, by its name, in every picture there is.

    looks.line("fedsam")                     # for matplotlib's plot
    looks.styles(["fedavg", "fedsam", "fedsam"])

A *style* is a number. Its hue is that of the method everywhere; its shade, dashes and marker tell
apart what has the same hue: methods that share one, and series of a method with other settings.
The hues (after Okabe and Ito) can be told apart with any colour vision, and nothing is told by
colour alone.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

HUES = (*("#0072b2", "#d55e00", "#009e73", "#c2508f", "#745600", "#3a9bd9", "#7b3294", "#6b6b6b"),)
DARK_HUES = (  # the same ones on a dark page
    *("#4aa3df", "#f58442", "#2fc79b", "#ffb3da", "#e6c029", "#93d2f7", "#9a66e6", "#8d9299"),
)
INK, DARK_INK = "#1d2330", "#e6e9ef"
DASHES: tuple[tuple[float, ...], ...] = ((), (6, 2.5), (1.5, 2), (7, 2, 1.5, 2))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # as matplotlib calls them
NUM_HUES = len(HUES)
NUM_VARIANTS = 2 * len(DASHES) * len(MARKERS)  # two shades of each hue

# The methods of a row share a hue; methods that are often compared have different ones.
_ROWS = (
    ("fedsam", "fedadam", "fedlesam_s", "fedrobust"),
    ("mofedsam", "fedprox", "fedlesam_d", "fedsol"),
    ("fednsam", "feddyn", "fedinit", "fedgloss"),
    ("fedwmsam", "scaffold", "fedyogi"),
    ("fedlesam", "fedcm", "fedadagrad", "fedswa"),
    ("fedgamma", "fedavgm", "fednsam_s", "fedmoswa"),
    ("fedsmoo", "fedacg", "fednsam_d"),
    ("fedavg", "mimelite", "fedspeed", "fedasam"),
)
_KNOWN = {
    name: hue + NUM_HUES * variant
    for hue, names in enumerate(_ROWS)
    for variant, name in enumerate(names)
}


def _mixed(colour: str, ink: str) -> str:
    """Three parts of a colour and two of the ink."""
    pairs = [(int(colour[i : i + 2], 16), int(ink[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(0.6 * a + 0.4 * b):02x}" for a, b in pairs)


COLOURS = (*HUES, *(_mixed(hue, INK) for hue in HUES))
DARK_COLOURS = (*DARK_HUES, *(_mixed(hue, DARK_INK) for hue in DARK_HUES))


def style(method: str) -> int:
    """The style of a method; of one that is not known, by the letters of its name.

    Args:
        method: its name, or ``path/to/file.py:ClassName``, of which the class counts.
    """
    name = method.rpartition(":")[2].lower()
    if name in _KNOWN:
        return _KNOWN[name]
    digest = hashlib.sha256(name.encode("utf-8", "replace")).digest()
    return digest[0] % NUM_HUES + NUM_HUES * (digest[1] % len(DASHES))


def styles(methods: Sequence[str]) -> list[int]:
    """A style for each of some series of these methods, no two the same, each in its hue."""
    own = [style(method) for method in methods]
    reserved, taken = set(own), set[int]()
    found = []
    for mine in own:
        free = [mine, *(mine % NUM_HUES + NUM_HUES * v for v in range(NUM_VARIANTS))]
        left = [s for s in free if s not in taken and (s == mine or s not in reserved)]
        chosen = (left or free)[0]
        taken.add(chosen)
        found.append(chosen)
    return found


def colour(style: int) -> int:
    """Which of ``COLOURS`` a style has: its hue, in one of two shades."""
    hue, variant = style % NUM_HUES, style // NUM_HUES
    return hue + NUM_HUES * ((variant + variant // len(DASHES)) % 2)


def dashes(style: int) -> tuple[float, ...]:
    """Lengths of dashes and gaps; empty for a solid line."""
    return DASHES[style // NUM_HUES % len(DASHES)]


def marker(style: int) -> str:
    """The marker, as matplotlib calls it."""
    variant = style // NUM_HUES
    # Hues begin at different markers, so that a line is known by its marker alone, too.
    return MARKERS[(style % NUM_HUES + variant + variant // 8) % len(MARKERS)]


def line(look: int | str, points: int = 0, most: int = 6, size: float = 4.0) -> dict[str, Any]:
    """What matplotlib's ``plot`` is to be told.

    Args:
        look: a style, or the name of a method.
        points: of the line.
        most: markers on it, about.
        size: of a marker; a star, of which little is ink, is larger.
    """
    number = style(look) if isinstance(look, str) else look
    return {
        "color": COLOURS[colour(number)],
        "linestyle": (0, dashes(number)) if dashes(number) else "solid",
        "marker": marker(number),
        "markersize": 1.7 * size if marker(number) == "*" else size,
        # Lines that run together have their markers in different places.
        "markevery": (number % NUM_HUES % every, every) if (every := points // most) > 1 else 1,
    }
