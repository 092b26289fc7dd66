"""Packages that we are measured against and do not depend on, in places of their own under .venv.

    python benchmarks/alternatives.py    installs them, in minutes: torch-sparse is compiled

`.venv/peers` is an environment of its own, for packages that need other versions than ours (peers.txt).
`.venv/beside` is a folder that is searched after .venv, for packages that work with our torch and NumPy
(beside.txt); nothing there can replace what is in .venv. What cannot be installed is left out and named.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PEERS, BESIDE = Path(sys.prefix) / "peers", Path(sys.prefix) / "beside"
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
LONGEST = 1800  # seconds for one package


def peers_python() -> Path | None:
    """The interpreter of the peers' environment, None if it was not made from the present peers.txt."""
    return PEERS / "bin" / "python" if _read(PEERS / "made") == _read(HERE / "peers.txt") else None


def make_peers() -> str | None:
    """Make the peers' environment; what went wrong, None if nothing did."""
    if peers_python():
        return None
    wrong = _call([sys.executable, "-m", "venv", "--clear", str(PEERS)])
    wrong = wrong or _call([str(PEERS / "bin" / "python"), *PIP, "-r", str(HERE / "peers.txt")])
    if wrong is None:
        (PEERS / "made").write_text(_read(HERE / "peers.txt"))
    return wrong


def make_beside() -> None:
    """Install each package of beside.txt that was not tried yet; why one failed is kept beside it."""
    BESIDE.mkdir(parents=True, exist_ok=True)
    for requirement in _read(HERE / "beside.txt").split():
        tried = BESIDE / f"{requirement}.tried"
        if not tried.exists():
            # Without dependencies: theirs are ours, and pip would fetch another torch.
            call = [*PIP, "--no-deps", "--no-build-isolation", "--upgrade", "--target", str(BESIDE), requirement]
            tried.write_text(_call([sys.executable, *call]) or "")


def search_beside() -> None:
    """Let imports find what lies in the folder beside, after everything else."""
    if str(BESIDE) not in sys.path:
        sys.path.append(str(BESIDE))


def pinned(name: str) -> dict[str, str]:
    """Packages and versions of peers.txt or beside.txt."""
    return dict(line.split("==") for line in _read(HERE / name).split() if "==" in line)


def _call(command: list[str]) -> str | None:
    """Run it; the last line it said if it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return f"ended after {LONGEST:,} s"
    said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
    return None if done.returncode == 0 else (said[-1] if said else f"pip ended with {done.returncode}")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> None:
    print(f"{PEERS}: {make_peers() or 'made'}")
    make_beside()
    for tried in sorted(BESIDE.glob("*.tried")):
        print(f"{BESIDE}: {tried.stem}: {_read(tried) or 'installed'}")


if __name__ == "__main__":
    main()
