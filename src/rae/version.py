"""The version of this package, written here alone: its metadata, files, command line and documentation read it."""

from __future__ import annotations

__version__ = "0.1.0"
DISTRIBUTION = "role-action-embeddings"  # what pip installs; `rae` on the package index is another project


def versions_of(*distributions: str) -> dict[str, str]:
    """The version of rae and, by name, of those of these distributions that are installed.

    >>> sorted(versions_of("numpy", "no such distribution"))
    ['numpy', 'rae']
    """
    from importlib.metadata import PackageNotFoundError, version

    versions = {"rae": __version__}
    for name in distributions:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
