"""What a newcomer does, in a clean environment: install the wheel, see the demo, run the README, fit a file of edges.

    python -m build --wheel
    python benchmarks/newcomer.py dist/*.whl --python python3.13 [--root DIR] [--pip "torch==2.13.0"] [--pictures DIR]

Each step is a process of its own, in a new virtual environment of that Python with nothing else in it and in an empty
folder. What the README's Python block prints is compared with what the README shows. The page of the demo is opened in
Chromium where there is one: it must load without an error, and its picture goes to --pictures. --root is a folder with
another system, such as debootstrap makes, whose Python is used (by chroot, so as root); --pip are more words for pip,
which sees the variables PIP_* of its environment and nothing else of it. One line per Python goes to the ledger.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recording import parser, record

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from chromium import Chromium, find_chromium  # noqa: E402

TABLE = "newcomer"
ROW = "install, demo, README, a file of edges"
EDGES = "caller,called\n" + "".join(f"u{i},u{(7 * i + step) % 120}\n" for i in range(120) for step in (1, i % 5 + 2))


VERSIONS = """
import importlib.metadata, json, platform
found = {d.name: d.version for d in importlib.metadata.distributions()}
names = {"rae": "role-action-embeddings"} | {n: n for n in ("torch", "numpy", "scipy", "scikit-learn", "gensim")}
versions = {name: found.get(known, "absent") for name, known in names.items()}
print(json.dumps({"python": platform.python_version(), **versions}))
"""


class Newcomer:
    """Someone with one Python and an empty folder; `root` is another system to be in."""

    def __init__(self, folder: Path, root: Path | None) -> None:
        self.folder, self.root = folder, root

    def do(self, *words: str) -> tuple[float, str]:
        """The seconds that a command takes and what it prints; one that fails is the end."""
        place = self.folder if self.root is None else Path("/") / self.folder.relative_to(self.root)
        inside = ["chroot", str(self.root)] if self.root is not None else []
        line = f"cd {place} && exec {shlex.join(words)}"
        variables = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("PIP_")]
        began = time.perf_counter()
        process = subprocess.run(
            [*inside, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin", f"HOME={place}", *variables, "sh", "-c", line],
            capture_output=True,
            text=True,
        )
        if process.returncode:
            raise SystemExit(f"{shlex.join(words)} ended with {process.returncode}:\n{process.stdout}{process.stderr}")
        return round(time.perf_counter() - began, 1), process.stdout

    def has(self, name: str, text: str) -> None:
        """Put a file into the folder."""
        (self.folder / name).write_text(text, encoding="utf-8")


def readme_example() -> tuple[str, str]:
    """The first Python block of the README and what it shows below it."""
    blocks = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert blocks is not None
    return blocks[1], blocks[2]


def page_in_browser(page: Path, picture: Path | None) -> str:
    """Open the page and take its picture: "loads" or what went wrong."""
    program = find_chromium()
    if program is None:
        return "no browser"
    with Chromium(program, flags=("--force-device-scale-factor=1",)) as tab:
        tab.open(page)
        cards = int(tab.value("document.querySelectorAll('.card').length"))
        if picture is not None:
            tab.screenshot(picture)
        return "loads" if cards and not tab.errors else f"{cards} cards, errors: {tab.errors}"


def try_all(newcomer: Newcomer, python: str, wheel: Path, pip: list[str], pictures: Path | None) -> dict[str, object]:
    """The line of one Python: versions, seconds of each step, and whether all was as it should be."""
    newcomer.do(python, "-m", "venv", "env")
    (newcomer.folder / wheel.name).write_bytes(wheel.read_bytes())
    print("installing ...", flush=True)
    install_s, _ = newcomer.do("env/bin/python", "-m", "pip", "install", "-q", wheel.name, *pip)
    versions = json.loads(newcomer.do("env/bin/python", "-c", VERSIONS)[1])
    print(f"demo of Python {versions['python']} ...", flush=True)
    demo_s, demo = newcomer.do("env/bin/rae", "demo", "--out", "demo")
    picture = None if pictures is None else pictures / f"newcomer-{versions['python']}.png"
    page = page_in_browser(newcomer.folder / "demo" / "explore" / "index.html", picture)
    code, shown = readme_example()
    newcomer.has("example.py", code)
    readme_s, printed = newcomer.do("env/bin/python", "example.py")
    newcomer.has("calls.csv", EDGES)
    fit_s, _ = newcomer.do("env/bin/rae", "fit", "calls.csv", "--out", "runs/calls")
    trained_s, _ = newcomer.do("env/bin/rae", "fit", "calls.csv", "--preset", "trained", "--out", "runs/trained")
    similar = newcomer.do("env/bin/rae", "similar", "runs/calls", "u7", "-k", "3")[1]
    print(f"--- rae demo\n{demo}\n--- the README\n{printed}\n--- rae similar\n{similar}", flush=True)
    return {
        "versions": versions,
        "install_s": install_s,
        "demo_s": demo_s,
        "readme_s": readme_s,
        "fit_s": fit_s,
        "trained_fit_s": trained_s,
        "readme_same": printed == shown,
        "page": page,
    }


def main() -> None:
    arguments = parser(__doc__, "nothing: there is no small size of an installation")
    arguments.add_argument("wheel", type=Path)
    arguments.add_argument("--python", default=sys.executable, help="the Python to try")
    arguments.add_argument("--root", type=Path, help="a folder with another system, which has that Python")
    arguments.add_argument("--pip", default="", help="more words for pip install")
    arguments.add_argument("--pictures", type=Path, help="folder for a picture of the demo's page")
    options = arguments.parse_args()
    if options.pictures is not None:
        options.pictures.mkdir(parents=True, exist_ok=True)
    root = None if options.root is None else options.root.resolve()
    python = options.python if root is not None else shutil.which(options.python) or options.python
    with tempfile.TemporaryDirectory(dir=None if root is None else root / "tmp") as home:
        newcomer = Newcomer(Path(home), root)
        line = try_all(newcomer, python, options.wheel, shlex.split(options.pip), options.pictures)
    record(options.results, TABLE, f"Python {line['versions']['python']}", ROW, {"wheel": options.wheel.name}, **line)


if __name__ == "__main__":
    main()
