"""`rae roles` and `rae similar`: output and files of the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from rae import RAE, Graph, Run, similar
from rae.blocks import Block, side_by_side
from rae.cli.program import main
from rae.cli.roles import table
from rae.errors import RunError, UnknownIdError
from rae.io import read_embeddings, write_embeddings


def make_houses(count=12, more=()):
    """A ring of nodes, each with two leaves and two neighbours that are tied to each other."""
    edges = [(f"c{i}", f"c{(i + 1) % count}") for i in range(count)]
    for i in range(count):
        edges += [(f"c{i}", f"h{i}.{j}") for j in range(4)] + [(f"h{i}.0", f"h{i}.1")]
    return Graph.from_edges([*edges, *more])


@pytest.fixture(scope="module")
def model():
    return RAE(dims=(16, 8), fanout=(5, 5), steps=10).fit(make_houses())


@pytest.fixture
def run(tmp_path, model):
    return make_run(tmp_path / "run", model, make_houses())


def make_run(folder, model, graph, lean=False):
    z = model.transform(graph, whole=True)
    return Run.create(folder, model, graph.id_column, z, graph=None if lean else graph)


def rae(capsys, *words):
    """Exit code, output and errors of a command."""
    code = main([str(w) for w in words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def run_json(capsys, *words):
    """The JSON that a command prints."""
    code, out, err = rae(capsys, *words, "--json", "--quiet")
    assert code == 0, err
    return json.loads(out)


# --------------------------------------------------------------------------------- rae roles


def test_roles_are_fitted_shown_and_written(run, capsys):
    code, out, _ = rae(capsys, "roles", run.path)

    assert code == 0
    assert out.startswith("3 roles: the exact positions")
    assert "leaves" in out
    assert {"roles.parquet", "roles.json", "roles.safetensors"} <= set(run.files())
    read = pq.read_table(run.path / "roles.parquet")
    assert read.column_names == ["id", "role", "confidence", "membership"]
    assert read.column("id").combine_chunks().equals(run.embeddings()[0])


def test_existing_roles_are_shown_and_not_replaced_without_force(run, capsys):
    first = run_json(capsys, "roles", run.path)
    before = (run.path / "roles.json").stat().st_mtime_ns

    assert run_json(capsys, "roles", run.path) == first
    assert (run.path / "roles.json").stat().st_mtime_ns == before
    code, _, err = rae(capsys, "roles", run.path, "--k", "2")
    assert code == 2
    assert "has 3 roles already; `rae roles --force` or fit_roles() replaces them by" in err
    assert run_json(capsys, "roles", run.path, "--k", "2", "--force")["k"] == 2
    assert run_json(capsys, "roles", run.path, "--k", "2")["criterion"] == "given"
    assert run_json(capsys, "roles", run.path, "--k", "auto", "--force")["k"] == 3


def test_a_weak_number_is_called_weak(tmp_path, model, capsys):
    noise = np.random.default_rng(0).normal(size=(60, 30)).astype(np.float32)
    run = Run.create(tmp_path / "run", model, make_houses().id_column, noise)
    _, out, _ = rae(capsys, "roles", run.path)
    facts = run.role_record()

    assert facts["criterion"] == "prediction strength"
    assert facts["weak"] is True
    assert max(strength for _, strength in facts["curve"]) < facts["threshold"] == 0.7
    assert "a weak choice" in out
    assert "--k N sets the number" in " ".join(out.split())
    assert "a weak choice" not in rae(capsys, "roles", run.path, "--k", "3", "--force")[1]


@pytest.mark.parametrize("width", [60, 80])
def test_the_table_fits_the_terminal(run, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = rae(capsys, "roles", run.path)

    body = out.split("\n\nwritten")[0]
    assert max(map(len, body.splitlines())) <= width


def test_a_lean_run_says_that_its_cards_have_no_structure(tmp_path, model, capsys):
    lean = make_run(tmp_path / "lean", model, make_houses(), lean=True)
    _, out, _ = rae(capsys, "roles", lean.path)

    assert "keeps no graph (--lean)" in out
    assert "degree" not in out.splitlines()[2]


def test_a_role_without_members_has_a_line(run, capsys):
    run_json(capsys, "roles", run.path)
    facts = run.role_record()
    facts["cards"][2] |= {"size": 0, "share": 0.0, "structure": {}, "edges": {}, "prototypes": []}

    assert "0.0 %" in table(facts)


def test_apply_assigns_the_same_roles_in_another_embedding(run, tmp_path, model, capsys):
    grown = make_houses(more=[("x", "y"), ("y", "z"), ("z", "x"), ("c0", "x")])
    edges = tmp_path / "edges.csv"
    rows = zip(np.repeat(grown.ids, grown.degrees), grown.ids[grown.targets], strict=True)
    edges.write_text("source,target\n" + "\n".join(f"{a},{b}" for a, b in rows))
    run_json(capsys, "embed", run.path, edges, "--out", tmp_path / "z.parquet")
    result = run_json(capsys, "roles", run.path, "--apply", tmp_path / "z.parquet")
    ids, z = read_embeddings(tmp_path / "z.parquet")
    written = pq.read_table(tmp_path / "z.roles.parquet")

    assert result["out"].endswith("z.roles.parquet")
    assert sum(result["sizes"]) == len(ids) == grown.n_nodes
    assert written.column("role").to_pylist() == run.roles().predict(z).tolist()
    code, _, err = rae(capsys, "roles", run.path, "--apply", tmp_path / "z.parquet")
    assert code == 2
    assert "exists" in err
    code, out, _ = rae(capsys, "roles", run.path, "--apply", tmp_path / "z.parquet", "--force")
    assert code == 0
    assert "what it is in RUN" in out
    applied = run.apply_roles(tmp_path / "z.parquet", tmp_path / "called.parquet")
    assert applied.path.read_bytes() == (tmp_path / "z.roles.parquet").read_bytes()
    assert list(applied.sizes) == result["sizes"]


def test_apply_writes_roles_into_another_run_of_the_same_model(run, tmp_path, model, capsys):
    other = make_run(tmp_path / "other", model, make_houses(15))
    result = run_json(capsys, "roles", run.path, "--apply", other.path)

    assert result["nodes"] == 75
    assert Run.open(other.path).roles().n_roles == 3
    assert result["cards"][0]["structure"]
    code, _, err = rae(capsys, "roles", run.path, "--apply", other.path)
    assert code == 2
    assert "has roles already" in err
    assert run_json(capsys, "roles", run.path, "--apply", other.path, "--out", tmp_path / "o.parquet")["nodes"] == 75
    with pytest.raises(RunError, match=r"has roles already; pass force=True to replace them, or out= to write beside"):
        run.apply_roles(other)
    assert run.apply_roles(other, force=True).sizes == tuple(result["cards"][i]["size"] for i in range(3))


def test_vectors_of_another_model_are_refused(run, tmp_path, capsys):
    stranger = RAE(dims=(16, 8), fanout=(5, 5), steps=0, seed=4).fit(make_houses())
    other = make_run(tmp_path / "other", stranger, make_houses())
    for words in (
        ("roles", run.path, "--apply", other.path),
        ("roles", run.path, "--apply", other.path / "embeddings.parquet"),
        ("roles", run.path, "--against", other.path),
        ("similar", run.path, "c0", "--in", other.path),
        ("similar", run.path, "c0", "--in", other.path / "embeddings.parquet"),
    ):
        code, _, err = rae(capsys, *words)
        assert code == 2
        assert "model" in err
    assert not Run.open(other.path).has_roles


def test_the_model_is_checked_before_existing_files(run, tmp_path, capsys):
    stranger = RAE(dims=(16, 8), fanout=(5, 5), steps=0, seed=4).fit(make_houses())
    other = make_run(tmp_path / "other", stranger, make_houses())
    other.fit_roles()
    existing = tmp_path / "existing.parquet"
    existing.write_text("")
    for words in (
        ("--apply", other.path),
        ("--apply", other.path / "embeddings.parquet", "--out", existing),
        ("--against", other.path, "--out", existing),
    ):
        assert "another model" in rae(capsys, "roles", run.path, *words)[2]
    assert "exists" in rae(capsys, "roles", run.path, "--against", run.path, "--out", existing)[2]


def test_the_default_table_is_named_after_the_embedding(run, tmp_path, model, capsys):
    graph = make_houses(6)
    for name in ("a.v1.parquet", "a.v2.parquet", "b.2026.csv", "c.parquet"):
        write_embeddings(tmp_path / name, graph.id_column, model.transform(graph, whole=True))
    (tmp_path / "c.parquet").replace(tmp_path / "c")
    names = ("a.v1.parquet", "a.v2.parquet", "b.2026.csv", "c")
    tables = [run_json(capsys, "roles", run.path, "--apply", tmp_path / name)["out"] for name in names]

    assert [Path(out).name for out in tables] == [f"{n}.roles.parquet" for n in ("a.v1", "a.v2", "b.2026", "c")]


def test_the_table_of_applied_roles_wraps_whole_summaries(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    run_json(capsys, "roles", run.path)
    _, out, _ = rae(capsys, "roles", run.path, "--apply", run.path, "--out", tmp_path / "o.parquet")
    body = out.split("\n\nwritten")[0]

    assert "…" not in body
    assert max(map(len, body.splitlines())) <= 60
    for card in run.role_record()["cards"]:
        assert card["summary"] in " ".join(body.split())


def test_help_explains_the_columns_of_a_comparison(capsys):
    _, out, _ = rae(capsys, "roles", "--help")

    for column in ("points,", "stayed,", "drift,", "went,"):
        assert column in out


def test_against_shows_who_changed_role(run, tmp_path, model, capsys):
    changed = make_houses(more=[("h0.2", f"new{i}") for i in range(4)])
    write_embeddings(tmp_path / "z.parquet", changed.id_column, model.transform(changed, whole=True))
    result = run_json(
        capsys, "roles", run.path, "--against", tmp_path / "z.parquet", "--out", tmp_path / "moves.parquet"
    )
    code, out, _ = rae(capsys, "roles", run.path, "--against", tmp_path / "z.parquet")

    assert code == 0
    assert result["common"] == 60
    assert result["new"] == 4
    assert "h0.2" in [m["id"] for m in result["movers"]]
    assert sum(map(sum, result["moves"])) == 60
    assert "surest movers" in out
    assert pq.read_table(tmp_path / "moves.parquet").num_rows == 60
    assert run.compare_roles(tmp_path / "z.parquet").as_dict().items() <= result.items()
    unchanged = run_json(capsys, "roles", run.path, "--against", run.path)
    assert unchanged["moved"] == 0
    assert "surest" not in rae(capsys, "roles", run.path, "--against", run.path)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--k", "some"], "expected auto or a whole number"),
        (["--k", "0"], "expected auto or a whole number"),
        (["--k", "²"], "expected auto or a whole number"),
        (["--k", "٣"], "expected auto or a whole number"),
        (["--apply", "a", "--against", "b"], "one at a time"),
        (["--out", "x.parquet"], "--out is for"),
        (["--apply", "nothing.parquet"], "nothing at nothing.parquet"),
        (["--apply", "nothing.parquet", "--out", "x.csv"], "must end in .parquet"),
    ],
)
def test_a_wrong_call_is_refused_in_one_sentence(run, capsys, words, message):
    code, _, err = rae(capsys, "roles", run.path, *words)

    assert code == 2
    assert message in err


# ------------------------------------------------------------------------ weights, names and labels


@pytest.fixture
def blocks_run(tmp_path, model):
    """A run whose vectors are two blocks, one of noise that no distance sees, with display names."""
    graph = make_houses()
    z = model.transform(graph)
    noise = 30 * np.random.default_rng(0).normal(size=z.shape).astype(np.float32)
    blocks = side_by_side([Block("place", 0, z.shape[1]), Block("around", 0, z.shape[1], weight=0.0)])

    def write(path, checksum):
        write_embeddings(path, graph.id_column, np.hstack([z, noise]), model=checksum, blocks=blocks)
        return 2 * z.shape[1]

    run = Run.create(tmp_path / "blocks", model, graph.id_column, write, graph=graph)
    run.set_names([f"Node {i}" for i in graph.ids])
    return run


def test_weights_at_the_command_line(blocks_run, run, capsys):
    plain = run_json(capsys, "roles", run.path)
    by_place = run_json(capsys, "roles", blocks_run.path)
    by_noise = run_json(capsys, "roles", blocks_run.path, "--weights", "place=0,around=1", "--force")

    assert [c["size"] for c in by_place["cards"]] == [c["size"] for c in plain["cards"]]
    assert by_place["weights"] == {"place": 1.0, "around": 0.0}
    assert by_noise["cards"] != by_place["cards"]
    assert run_json(capsys, "roles", blocks_run.path, "--weights", "around=1,place=0")["weights"] == by_noise["weights"]
    code, _, err = rae(capsys, "roles", blocks_run.path, "--weights", "around=2")
    assert (code, "other weights (place=0,around=1)" in err) == (2, True)
    near = run_json(capsys, "similar", blocks_run.path, "c3", "-k", "4")["similar"][0]["matches"]
    assert [m["id"] for m in near] == [
        m["id"] for m in run_json(capsys, "similar", run.path, "c3", "-k", "4")["similar"][0]["matches"]
    ]
    far = run_json(capsys, "similar", blocks_run.path, "c3", "--weights", "around=1")["similar"][0]["matches"]
    assert far[0]["distance"] > 0.1
    code, _, err = rae(capsys, "similar", blocks_run.path, "c3", "--weights", "arond=1")
    assert (code, "did you mean 'around'" in err) == (2, True)


def test_display_names_are_shown(blocks_run, capsys):
    _, out, _ = rae(capsys, "roles", blocks_run.path)
    _, alike, _ = rae(capsys, "similar", blocks_run.path, "c3")

    assert "Node " in out
    assert "most alike to Node c3 (c3) (role" in alike
    assert rae(capsys, "similar", blocks_run.path, "Node c3")[1] == alike
    assert run_json(capsys, "similar", blocks_run.path, "c3")["similar"][0]["matches"][0]["name"].startswith("Node c")


@pytest.mark.parametrize("width", [60, 80])
def test_labels_are_shown_by_role(run, tmp_path, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    table = tmp_path / "nodes.csv"
    table.write_text("node,kind\n" + "".join(f"{i},{'cycle' if i[0] == 'c' else 'house'}\n" for i in make_houses().ids))
    _, out, _ = rae(capsys, "roles", run.path, "--labels", table, "--label-column", "kind", "--id-column", "node")
    result = run_json(capsys, "roles", run.path, "--labels", table)

    assert "kind by role: nodes, share of the role, lift" in out
    assert "(100 %, " in out
    assert max(map(len, out.split("kept in")[0].split("written")[0].splitlines())) <= width
    assert result["labels"]["labels"] == ["house", "cycle"]
    assert len(result["labels"]["lift"]) == result["k"]
    assert rae(capsys, "roles", run.path, "--label-column", "kind")[0] == 2
    assert rae(capsys, "roles", run.path, "--labels", table, "--against", run.path)[0] == 2


def test_a_name_column_is_no_feature(tmp_path, capsys):
    (tmp_path / "edges.csv").write_text("a,b\n1,2\n2,3\n3,1\n3,4\n")
    (tmp_path / "nodes.csv").write_text("id,login,age\n1,ann,30\n2,bob,40\n3,cid,50\n4,dan,60\n")
    small = ["--dims", "4", "--fanout", "2", "--steps", "2", "--no-page"]
    with_features = ["--features", tmp_path / "nodes.csv", "--name-column", "login"]
    run_json(capsys, "fit", tmp_path / "edges.csv", *with_features, *small, "--out", tmp_path / "one")
    names = ["--names", tmp_path / "nodes.csv", "--name-column", "login"]
    run_json(capsys, "fit", tmp_path / "edges.csv", *names, *small, "--out", tmp_path / "two")

    assert Run.open(tmp_path / "one").feature_names == ("age",)
    assert Run.open(tmp_path / "one").names().to_pylist() == ["ann", "bob", "cid", "dan"]
    assert Run.open(tmp_path / "two").names().to_pylist() == ["ann", "bob", "cid", "dan"]
    code, _, err = rae(
        capsys, "fit", tmp_path / "edges.csv", "--name-column", "login", *small, "--out", tmp_path / "no"
    )
    assert (code, "--names" in err) == (2, True)


# ------------------------------------------------------------------------------- rae similar


def test_look_alikes_are_shown_with_their_distance_and_role(run, capsys):
    run_json(capsys, "roles", run.path)
    code, out, _ = rae(capsys, "similar", run.path, "c3", "h1.2", "-k", "4")
    result = run_json(capsys, "similar", run.path, "c3", "-k", "4")

    assert code == 0
    assert "most alike to c3 (role" in out
    assert out.count("most alike") == 2
    assert {m["id"][0] for m in result["similar"][0]["matches"]} == {"c"}
    assert result["similar"][0]["matches"][0]["distance"] == pytest.approx(0, abs=1e-4)
    assert result["method"] == "exact"
    assert "role" in result["similar"][0]["matches"][0]


def test_look_alikes_in_another_embedding(run, tmp_path, model, capsys):
    other = make_houses(8)
    write_embeddings(tmp_path / "z.csv", other.id_column, model.transform(other, whole=True))
    result = run_json(capsys, "similar", run.path, "c11", "--in", tmp_path / "z.csv", "-k", "2")

    assert all(m["id"].startswith("c") for m in result["similar"][0]["matches"])
    assert "role" not in result["similar"][0]["matches"][0]
    assert rae(capsys, "similar", run.path, "c11", "--in", tmp_path / "none.parquet")[0] == 2


def test_similar_takes_a_node_of_another_embedding(run, tmp_path, model, capsys):
    run_json(capsys, "roles", run.path)
    grown = make_houses(more=[("new", "c3"), *((f"new{i}", "new") for i in range(6))])
    z2 = tmp_path / "z2.parquet"
    write_embeddings(z2, grown.id_column, model.transform(grown, whole=True), model=run.model_checksum)
    result = run_json(capsys, "similar", z2, "new", "--in", run.path, "-k", "3")
    within = run_json(capsys, "similar", z2, "new", "-k", "3")

    assert result["similar"][0]["id"] == "new"
    assert all(m["id"] in make_houses().ids and "role" in m for m in result["similar"][0]["matches"])
    assert "role" not in within["similar"][0]["matches"][0]
    code, _, err = rae(capsys, "similar", run.path, "new", "--in", z2)
    assert code == 2
    assert f"ask the other way: rae similar {z2} new --in {run.path}" in err
    assert "no node 'gone'" in rae(capsys, "similar", run.path, "gone", "--in", z2)[2]
    with pytest.raises(UnknownIdError, match=r"new is no node of the first vectors, .*; ask the other way$"):
        similar(run, "new", among=read_embeddings(z2))
    assert run.roles_of(["new", "c3"]) == {"c3": run.card("c3").role}


def test_similar_refuses_a_file_of_another_model(run, tmp_path, capsys):
    stranger = RAE(dims=(16, 8), fanout=(5, 5), steps=0, seed=4).fit(make_houses())
    write_embeddings(
        tmp_path / "z.parquet", make_houses().id_column, stranger.transform(make_houses(), whole=True), model="f" * 64
    )
    code, _, err = rae(capsys, "similar", tmp_path / "z.parquet", "c0", "--in", run.path)

    assert code == 2
    assert "different models" in err
    assert "nothing at" in rae(capsys, "similar", tmp_path / "absent", "c0")[2]


def test_a_long_id_does_not_widen_the_table(tmp_path, capsys):
    long = "x" * 300
    graph = Graph.from_edges([("a", "b"), ("b", "c"), ("c", long), (long, "a"), ("c", "d")])
    model = RAE(dims=(4,), fanout=(2,), steps=0).fit(graph)
    run = Run.create(tmp_path / "run", model, graph.id_column, model.transform(graph))
    _, out, _ = rae(capsys, "similar", run.path, "a")

    assert "x…  " in out
    assert max(map(len, out.splitlines())) <= 80
    assert long in [m["id"] for m in run_json(capsys, "similar", run.path, "a")["similar"][0]["matches"]]


def test_an_unknown_id_is_refused_with_a_suggestion(run, capsys):
    code, _, err = rae(capsys, "similar", run.path, "h1.99")

    assert code == 2
    assert "did you mean 'h1." in err


def test_an_approximate_search_states_its_recall(run, capsys):
    pytest.importorskip("faiss")
    code, out, _ = rae(capsys, "similar", run.path, "c3", "--approximate")

    assert code == 0
    assert "of the true nearest" in out


def test_numeric_ids_stay_numbers(tmp_path, capsys):
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)])
    model = RAE(dims=(4,), fanout=(2,), steps=0).fit(graph)
    run = Run.create(tmp_path / "run", model, graph.id_column, model.transform(graph))

    assert isinstance(run_json(capsys, "similar", run.path, "3")["similar"][0]["id"], int)
