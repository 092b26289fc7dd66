"""The version of this package, written here alone: its metadata, files, command line and documentation read it."""

from __future__ import annotations

from functools import cache

__version__ = "0.1.0"
DISTRIBUTION = "role-action-embeddings"  # what pip installs; `rae` on the package index is another project


def versions_of(*distributions: str) -> dict[str, str]:
    """The version of rae and, by name, of those of these distributions that are installed.

    >>> sorted(versions_of("numpy", "no such distribution"))
    ['numpy', 'rae']
    """
    installed = {name: _installed_version(name) for name in distributions}
    return {"rae": __version__} | {name: version for name, version in installed.items() if version is not None}


@cache  # a distribution does not change while it is imported, and its metadata is an e-mail to parse
def _installed_version(distribution: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
