"""Install the packages that RAE is compared with and does not depend on, under .venv.

    python benchmarks/install_alternatives.py    takes minutes: torch-sparse is compiled

`.venv/other_methods` is a separate environment, for packages that need other versions than ours (other_methods.txt).
`.venv/extra_packages` is a folder that is searched after .venv, for packages that work with our torch and NumPy
(extra_packages.txt); it cannot replace anything in .venv. A package that cannot be installed is left out and named.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
METHODS_ENV, EXTRA_PACKAGES = Path(sys.prefix) / "other_methods", Path(sys.prefix) / "extra_packages"
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
MAX_SECONDS = 1800  # for one package


def methods_python() -> Path | None:
    """The interpreter of the separate environment, None if it was not installed from the present other_methods.txt."""
    current = _read(METHODS_ENV / "installed") == _read(HERE / "other_methods.txt")
    return METHODS_ENV / "bin" / "python" if current else None


def install_methods() -> str | None:
    """Install the separate environment; the error message, None without one."""
    if methods_python():
        return None
    error = _call([sys.executable, "-m", "venv", "--clear", str(METHODS_ENV)])
    error = error or _call([str(METHODS_ENV / "bin" / "python"), *PIP, "-r", str(HERE / "other_methods.txt")])
    if error is None:
        (METHODS_ENV / "installed").write_text(_read(HERE / "other_methods.txt"))
    return error


def install_extra_packages() -> None:
    """Install each package of extra_packages.txt that was not tried yet; a .tried file keeps why one failed."""
    EXTRA_PACKAGES.mkdir(parents=True, exist_ok=True)
    for requirement in _read(HERE / "extra_packages.txt").split():
        tried = EXTRA_PACKAGES / f"{requirement}.tried"
        if not tried.exists():
            # Without dependencies: theirs are ours, and pip would fetch another torch.
            call = [
                *PIP,
                "--no-deps",
                "--no-build-isolation",
                "--upgrade",
                "--target",
                str(EXTRA_PACKAGES),
                requirement,
            ]
            tried.write_text(_call([sys.executable, *call]) or "")


def import_extra_packages() -> None:
    """Let imports find the extra packages, after everything else."""
    if str(EXTRA_PACKAGES) not in sys.path:
        sys.path.append(str(EXTRA_PACKAGES))


def pinned(name: str) -> dict[str, str]:
    """Packages and versions of other_methods.txt or extra_packages.txt."""
    return dict(line.split("==") for line in _read(HERE / name).split() if "==" in line)


def _call(command: list[str]) -> str | None:
    """Run a command; its last error line if it failed."""
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"ended after {MAX_SECONDS:,} s"
    errors = [line for line in process.stderr.splitlines() if line.startswith("ERROR")] or process.stderr.splitlines()
    return None if process.returncode == 0 else (errors[-1] if errors else f"pip ended with {process.returncode}")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> None:
    print(f"{METHODS_ENV}: {install_methods() or 'installed'}")
    install_extra_packages()
    for tried in sorted(EXTRA_PACKAGES.glob("*.tried")):
        print(f"{EXTRA_PACKAGES}: {tried.stem}: {_read(tried) or 'installed'}")


if __name__ == "__main__":
    main()
