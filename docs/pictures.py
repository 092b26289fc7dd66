"""The pictures of docs/figures, taken from the page itself: python docs/pictures.py [RUN]

RUN is a run folder of `rae demo` (by default demo/); the page in it is opened in a Chromium without a head.
stdlib.png is what the page's own button saves; the others are screenshots of a laptop's window.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from chromium import Chromium, find_chromium  # noqa: E402


def search(tab: Chromium, text: str) -> None:
    """Find a node by its id and open it."""
    tab.press("/")
    tab.type(text)
    tab.press("Enter")


def take(page: Path, out: Path) -> None:
    """Take every picture of the page."""
    program = find_chromium()
    if program is None:
        sys.exit("no Chromium: install it, or name it in RAE_CHROMIUM")
    with Chromium(program, flags=("--force-device-scale-factor=1",)) as tab:
        tab.open(page)
        tab.screenshot(out / "explore.png")
        tab.value("document.getElementById('hint').hidden = true")
        tab.click(".card[data-role='2'] .head")
        tab.screenshot(out / "explore-card.png")
        tab.press("Escape")
        search(tab, "threading")
        tab.value("document.querySelector('.neighborhood').scrollIntoView({block: 'end'})")
        tab.screenshot(out / "explore-node.png")
        tab.value(
            "document.querySelector('.weights').open = true; const own = document.querySelector('[data-block=own]');"
            "own.value = 0; own.dispatchEvent(new Event('input'));"
            "document.querySelector('.weights').scrollIntoView({block: 'end'})"
        )
        tab.screenshot(out / "explore-weights.png")
    with Chromium(program, dark=True) as tab:
        tab.open(page)
        tab.value("document.getElementById('hint').hidden = true")
        search(tab, "threading")
        tab.screenshot(out / "explore-dark.png")
    with Chromium(program, width=1416, height=700) as tab:
        tab.open(page)
        tab.click("#png")
        shutil.copy(tab.download(".png"), out / "stdlib.png")


if __name__ == "__main__":
    run = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "demo"
    take(run / "explore" / "index.html", HERE / "figures")
