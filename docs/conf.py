"""The documentation site: `make docs` builds it into site/ with Sphinx; every warning is an error.

Pages are Markdown (myst-parser), notebooks are shown with the outputs they were saved with (myst-nb), and the API
reference comes from docstrings. Nothing is fetched: the theme brings its fonts, styles and scripts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rae.version import __version__

project = "RAE"
author = "The RAE authors"
copyright = "The RAE authors, Apache-2.0"
release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

# Markdown
myst_heading_anchors = 4  # links to headings, as GitHub makes them
smartquotes = False  # a dash may be part of a flag
nb_execution_mode = "off"  # `make notebooks` runs them, tests/test_notebooks.py checks them

# API reference: docstrings quote code with single backticks
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
add_module_names = False

html_theme = "furo"
html_title = "RAE"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_sourcelink = html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00618e", "color-brand-content": "#00618e"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}


ROOT = Path(__file__).parent.parent
FROM_ROOT = {"index": "README.md", "contributing": "CONTRIBUTING.md"}  # pages whose text is a file of the repository


def _text_from_root(_: Any, page: str, source: list[str]) -> None:
    """Put a file of the repository's root in front of its page; its links are made relative to docs/."""
    if page in FROM_ROOT:
        text = (ROOT / FROM_ROOT[page]).read_text(encoding="utf-8")
        text = text.replace("](CONTRIBUTING.md)", "](contributing.md)").replace("](docs/", "](")
        source[0] = re.sub(r"\]\((examples/|LICENSE|CHANGELOG)", r"](../\1", text) + source[0]


def _short_types(_: Any, __: str, ___: str, ____: Any, _____: Any, signature: str | None, returns: str | None) -> Any:
    """Signatures without the modules of types: `ndarray` for `~numpy.ndarray`."""
    return tuple(text and re.sub(r"~?\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", text) for text in (signature, returns))


def setup(app: Any) -> None:
    """Connect the two pages with their files, and shorten signatures."""
    app.connect("source-read", _text_from_root)
    app.connect("autodoc-process-signature", _short_types)
