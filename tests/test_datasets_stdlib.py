"""The standard library as a graph: imports are edges, used names are features, nothing is run."""

from __future__ import annotations

import ast
import gc
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from rae.datasets import load, stdlib
from rae.errors import ConfigError, DatasetError

FILES = {
    "alpha.py": "import sys, os.path\nfrom package import inner, helper as h\nx = sys.argv + beta\n",
    "beta.py": "def late():\n    import alpha\n    return alpha.argv\n",
    "os.py": "path = argv = 1\nimport not_of_this_library\n",
    "package/__init__.py": "from . import inner\nfrom .deep.leaf import *\n",
    "package/inner.py": "from .. import nowhere\nfrom . import gone\nimport package.deep.leaf.name\n",
    "package/deep/__init__.py": "",
    "package/deep/leaf.py": "from ...beta import late\nfrom ..inner import argv\nimport _socket\n",
    "package/__main__.py": "import alpha\n",
    "package/tests/case.py": "import alpha\n",
    "test/support.py": "import alpha\n",
    "site-packages/other.py": "import alpha\n",
    "config-3.11/build.py": "import alpha\n",
    "__init__.py": "import alpha\n",
    "not-a-name.py": "import alpha\n",
    "broken.py": "def :\n",
    "nul.py": "a = '\0'\n",
    "runs.py": "raise SystemExit('imported')\n",
}


@pytest.fixture
def library(tmp_path):
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def _neighbors(data, name):
    return set(data.graph.ids[data.graph.neighbors(int(data.graph.rows([name])[0]))])


def test_modules_are_nodes_and_tests_scripts_and_installed_packages_are_not(library):
    ids = list(load("stdlib", folder=library).graph.ids)

    assert ids == sorted(ids)
    assert set(ids) == {
        *("alpha", "beta", "os", "package", "package.inner", "package.deep", "package.deep.leaf", "runs"),
        *("sys", "_socket"),
    }


def test_imports_lead_to_the_submodule_where_there_is_one(library):
    data = load("stdlib", folder=library)

    assert _neighbors(data, "alpha") == {"sys", "os", "package", "package.inner", "beta"}
    assert _neighbors(data, "package") == {"package.inner", "package.deep.leaf", "alpha"}
    assert _neighbors(data, "package.inner") == {"package", "alpha", "package.deep.leaf"}
    assert _neighbors(data, "package.deep.leaf") == {"package", "package.inner", "_socket"}
    assert _neighbors(data, "runs") == set()


def test_relative_imports_beyond_the_top_are_left_out(library):
    assert "from ...beta" in FILES["package/deep/leaf.py"]
    assert "package.deep.leaf" not in _neighbors(load("stdlib", folder=library), "beta")


@pytest.mark.parametrize("running", [True, False])
def test_the_garbage_collector_is_left_as_it_was(library, running):
    try:
        (gc.enable if running else gc.disable)()
        load("stdlib", folder=library)
        assert gc.isenabled() == running
    finally:
        gc.enable()


def test_every_name_of_a_module_is_found():
    code = """
import a.b as c
@deco(x, *y, **{k: v for k, v in z})
async def f(p: hint = default, *, q=lambda: w) -> back:
    global g
    match s:
        case Kind(attr=1) | {"key": other.value, **rest}: pass
    return f"{shown.part!r}", [i async for i in it], t[1:u]
"""
    tree = ast.parse(code)
    expected = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
    expected += [n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    words, imports = stdlib._walk(tree)

    assert sorted(words) == sorted(expected)
    assert [i.names[0].name for i in imports] == ["a.b"]


def test_names_are_counted_and_those_of_one_module_left_out(library):
    data = load("stdlib", folder=library)
    row = data.graph.rows(["alpha", "beta", "sys"])
    column = data.feature_names.index("argv")

    assert "late" not in data.feature_names
    assert list(data.feature_names) == sorted(data.feature_names)
    assert sp.issparse(data.features)
    assert data.features.dtype == np.float32
    assert np.allclose(data.features[row].toarray()[:, column], [np.log(2), np.log(2), 0])
    assert data.labels is None


def test_thresholds_choose_the_names(library):
    everything = load("stdlib", folder=library, least=1, most=1.0)
    rare = load("stdlib", folder=library, least=1, most=0.2)

    assert "late" in everything.feature_names
    assert "argv" in everything.feature_names
    assert "argv" not in rare.feature_names
    with pytest.raises(ConfigError, match="most must be a number from 0 to 1"):
        load("stdlib", folder=library, most=2)


def test_the_sources_are_never_imported(library):
    load("stdlib", folder=library)

    assert "alpha" not in sys.modules


def test_a_python_without_sources_says_so(tmp_path):
    archive = tmp_path / "python311.zip"
    archive.write_bytes(b"PK")
    for folder in (tmp_path, archive, tmp_path / "absent"):
        with pytest.raises(DatasetError, match=r"expected the sources of the standard library in .*pass folder="):
            load("stdlib", folder=folder)


@pytest.fixture(scope="module")
def real():
    return load("stdlib")


def test_the_running_python_is_a_real_graph(real):
    ids = set(real.graph.ids)

    assert {"ntpath", "posixpath", "json.decoder", "http.client", "queue", "sys", "encodings.latin_1"} <= ids
    assert not any(part in ("test", "tests", "__main__", "_bundled") for name in ids for part in name.split("."))
    assert {"os", "stat", "genericpath", "sys"} <= _neighbors(real, "posixpath")
    assert "json.scanner" in _neighbors(real, "json.decoder")
    assert real.graph.n_nodes > 400
    assert real.features.shape == (real.graph.n_nodes, len(real.feature_names))


def test_an_import_in_the_source_is_an_edge_of_the_graph(real):
    import queue

    with open(queue.__file__) as file:  # noqa: PTH123
        tree = ast.parse(file.read())
    tops = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}

    assert tops <= _neighbors(real, "queue")


def test_ntpath_and_posixpath_play_one_role(real):
    """Weightless: two means over the neighbourhood of normalised tf-idf features, then the cosine."""
    n = real.graph.n_nodes
    parts = (np.ones(len(real.graph.targets)), real.graph.targets, real.graph.offsets)
    around = sp.csr_array(parts, shape=(n, n)) + sp.eye_array(n)
    mean = sp.diags_array(1 / around.sum(1)) @ around
    rarity = np.log(n / (1 + (real.features > 0).sum(0)))
    x = real.features @ sp.diags_array(rarity)
    z = (mean @ (mean @ (sp.diags_array(1 / np.maximum(sp.linalg.norm(x, axis=1), 1e-9)) @ x))).toarray()
    z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-9)
    nearest = np.argsort(-z @ z[real.graph.rows(["ntpath"])[0]])[1:4]

    assert "posixpath" in real.graph.ids[nearest]
