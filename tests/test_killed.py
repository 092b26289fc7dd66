"""A command that is killed loses nothing: given again it goes on, and nothing of the killed one stays."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

from rae import Config, Run, fit_run
from rae.cli import main
from rae.engine.embedding import FOLDER
from rae.errors import GraphError, RunError
from rae.explore import write_page
from rae.graph import Graph
from rae.graph.folder_builder import ENDS
from rae.run_folder import INFO, PAGE, RUN_FILES, finish_moves
from rae.storage.atomic import atomic_path, write_text
from rae.storage.scratch import scratch_folder

EDGES = "".join(f"n{i},n{(7 * i + 3) % 40}\nn{i},n{(i + 1) % 40}\n" for i in range(40))
CONFIG = Config(steps=1, dims=(4,), fanout=(3,), batch_size=16)
FLAGS = ["--steps", "1", "--dims", "4", "--fanout", "3", "--batch-size", "16"]
BUDGET = "2GiB"


class Killed(BaseException):
    """The moment of a kill."""


def die(*_: object, **__: object) -> None:
    raise Killed


def killed_at(monkeypatch, moment: str, call) -> None:
    """Make a call that is killed at this moment: where it calls this function."""
    with monkeypatch.context() as killed:
        killed.setattr(moment, die)
        with pytest.raises(Killed):
            call()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file of a run but run.json, which has times, and the page, which shows them."""
    return {n: (folder / n).read_bytes() for n in RUN_FILES if (folder / n).is_file() and n not in (INFO, PAGE)}


# ----------------------------------------------------------------------------------- the page of a run


def fit(**options):
    return fit_run("edges.csv", out="run", config=CONFIG, **options)


@pytest.mark.parametrize(
    "moment", ["rae.explore.write_page", "rae.roles.storage.write_table", "rae.explore.page.asset"]
)
@pytest.mark.parametrize("memory", [None, BUDGET])
def test_a_fit_killed_between_its_vectors_and_its_page_is_finished_by_the_same_call(here, monkeypatch, moment, memory):
    whole = contents(fit_run("edges.csv", out="whole", config=CONFIG).path)
    killed_at(monkeypatch, moment, lambda: fit(memory=memory))
    assert not (here / "run" / PAGE).exists()
    monkeypatch.setattr("rae.estimator.RAE.fit", lambda *_, **__: pytest.fail("fitted again"))

    run = fit(memory=memory)

    assert contents(run.path) == whole
    assert (here / "run" / PAGE).is_file()
    assert names(here / "run") == names(here / "whole")
    assert names(here) == sorted(
        ["edges.csv", "run", "whole", *(f"{r}/{n}" for r in ("run", "whole") for n in names(run.path))]
    )
    with pytest.raises(RunError, match="holds a run already"):
        fit(memory=memory)


@pytest.mark.parametrize("other", [{"config": CONFIG.replace(seed=1)}, {"lean": True}, {"names": {"n1": "one"}}])
def test_another_call_does_not_take_a_run_without_its_page_for_its_own(here, monkeypatch, other):
    killed_at(monkeypatch, "rae.explore.write_page", lambda: fit())

    with pytest.raises(RunError, match="holds a run already"):
        fit_run("edges.csv", **{"out": "run", "config": CONFIG, **other})
    (here / "edges.csv").write_text(EDGES + "n1,n39\n")
    with pytest.raises(RunError, match="holds a run already"):
        fit()


def test_a_killed_demo_is_finished_by_the_same_command(here, monkeypatch, capsys):
    from rae.inputs import Inputs, count

    graph = Graph.from_edges([line.split(",") for line in EDGES.split()])
    monkeypatch.setattr("rae.cli.demo._inputs", lambda console: Inputs(graph, None, count(graph, None)))
    killed_at(monkeypatch, "rae.explore.write_page", lambda: main(["demo"]))
    monkeypatch.setattr("rae.estimator.RAE.fit", lambda *_, **__: pytest.fail("fitted again"))

    assert main(["demo"]) == 0
    assert "standard library of Python" in (here / "demo" / PAGE).read_text(encoding="utf-8")


def test_roles_killed_while_they_are_written_leave_no_page_of_other_roles(here, monkeypatch):
    run = fit()
    killed_at(monkeypatch, "rae.roles.storage.write_roles", lambda: run.fit_roles(3))

    assert not (here / "run" / PAGE).exists()


def test_a_page_whose_removal_was_cut_off_leaves_nothing(here, monkeypatch):
    run, unlink = fit(), Path.unlink

    def cut_off(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        if path.parent.name == "explore":
            raise Killed

    with monkeypatch.context() as killed:
        killed.setattr(Path, "unlink", cut_off)
        with pytest.raises(Killed):
            run.fit_roles(3)
    run.fit_roles(3)

    assert names(here / "run" / "explore") == []


def test_a_page_killed_before_it_is_whole_is_written_by_the_same_command(here, monkeypatch):
    run = fit(page=False)
    (here / "page").mkdir()
    (here / "page" / f".{'0' * 32}.tmp").write_text("half a notice")
    write_page(run, "page")
    (here / "page" / "index.html").unlink()
    with atomic_path(here / "page" / "index.html") as hidden:
        hidden.write_text("<html>")
    (here / "page" / "index.html").rename(hidden)
    write_page(run, "page")
    assert names(here / "page") == [f".{'0' * 32}.tmp", "NOTICE.txt", "index.html"]
    shutil.rmtree("page")
    (here / "page").mkdir()
    (here / "page" / "NOTICE.txt").write_text("mine")
    with pytest.raises(RunError, match="page is not empty"):
        write_page(run, "page")


# ----------------------------------------------------------------------------------- the moves of a run


def killed_in_the_moves(monkeypatch, after: int, **options) -> bool:
    """Fit, killed after so many files were moved into the run; False if it ended before that."""
    replace, moved = Path.replace, []

    def move(old: Path, new: Path) -> None:
        if old.parent.name.endswith(".tmp") or old.parent.parent.name.endswith(".tmp"):
            if len(moved) == after and old.suffix != ".tmp":
                raise Killed
            moved.extend([old] * (old.suffix != ".tmp"))
        replace(old, new)

    with monkeypatch.context() as killed:
        killed.setattr(Path, "replace", move)
        killed.setattr("rae.run_folder.shutil.rmtree", lambda *_, **__: None)
        try:
            fit(page=False, **options)
        except Killed:
            return True
        return False


@pytest.mark.parametrize("force", [False, True])
def test_a_fit_killed_while_it_moves_its_files_is_finished_by_the_same_call(here, monkeypatch, force):
    whole = fit_run("edges.csv", out="whole", config=CONFIG, page=False)
    cuts = 0
    while True:
        if force:
            fit_run("edges.csv", out="run", config=CONFIG.replace(seed=1), names={"n1": "one"}, page=False)
        if not killed_in_the_moves(monkeypatch, cuts, force=force):
            break
        cuts += 1
        assert not (here / "run" / INFO).exists()
        with monkeypatch.context() as again:
            again.setattr("rae.estimator.RAE.fit", lambda *_, **__: pytest.fail("fitted again"))
            run = fit(page=False, force=force)
        assert contents(run.path) == contents(whole.path)
        assert not [path for path in (here / "run").iterdir() if path.name.startswith(".")]
        with pytest.raises(RunError, match="holds a run already"):
            fit(page=False)
        shutil.rmtree("run")
    assert cuts == len(contents(whole.path)) + 1


def test_a_damaged_list_of_moves_is_refused_in_one_sentence(here, monkeypatch):
    assert killed_in_the_moves(monkeypatch, 1)
    (staging,) = (path for path in (here / "run").iterdir() if path.is_dir() and path.name.startswith("."))
    (staging / "moves.json").write_text("[1")

    with pytest.raises(RunError, match=r"moves\.json is damaged: .*; remove .*\.tmp, and fit the run again$"):
        fit()


def test_a_fit_killed_after_its_last_move_leaves_nothing(here, monkeypatch):
    with monkeypatch.context() as killed:
        killed.setattr("rae.run_folder.shutil.rmtree", lambda *_, **__: None)
        fit(page=False)
    assert [path for path in (here / "run").iterdir() if path.name.startswith(".")]

    assert finish_moves("run")
    assert not [path for path in (here / "run").iterdir() if path.name.startswith(".")]
    assert Run.open("run").counts["nodes"] == 40


@pytest.mark.parametrize("nth", [2, 3])  # after the first, by which the cache began
def test_the_cache_of_a_complete_run_is_removed_wherever_its_removal_was_cut_off(here, monkeypatch, nth):
    calls, unlink = [], Path.unlink

    def cut_off(path: Path, missing_ok: bool = False) -> None:
        if path.parent == here and path.name in (".run.json", ".run.parquet"):
            calls.append(path)
            if len(calls) == nth:
                raise Killed
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as killed:
        killed.setattr(Path, "unlink", cut_off)
        with pytest.raises(Killed):
            fit(page=False, memory=BUDGET)
    assert [name for name in names(here) if name.startswith(".run")]

    with pytest.raises(RunError, match="holds a run already"):
        fit(page=False, memory=BUDGET)
    assert not [name for name in names(here) if name.startswith(".run")]


# ----------------------------------------------------------------------------------- files and folders


def test_what_a_killed_writer_left_is_taken_by_the_next_one(tmp_path):
    with atomic_path(tmp_path / "z.txt") as hidden:
        hidden.write_text("x")
    hidden.write_text("half of a much longer text")

    write_text(tmp_path / "z.txt", "whole")
    assert names(tmp_path) == ["z.txt"]
    assert (tmp_path / "z.txt").read_text() == "whole"


def test_a_killed_embedding_whose_file_is_whole_leaves_no_parts(here, monkeypatch):
    fit(page=False)
    command = ["embed", "run", "edges.csv", "--out", "z.parquet", "--memory", BUDGET]
    killed_at(monkeypatch, "rae.storage.parts.Parts.remove", lambda: main(command))
    whole = (here / "z.parquet").read_bytes()
    assert (here / f"z.parquet{FOLDER}").is_dir()

    assert main(command) == 2  # it is there
    assert (here / "z.parquet").read_bytes() == whole
    assert not (here / f"z.parquet{FOLDER}").exists()
    (here / f"z.parquet{FOLDER}").mkdir()
    assert main(command) == 2
    assert not (here / f"z.parquet{FOLDER}").exists()


def test_parts_of_another_file_than_the_one_that_is_there_are_kept(here, monkeypatch):
    fit(page=False)
    command = ["embed", "run", "edges.csv", "--out", "z.parquet", "--memory", BUDGET]
    killed_at(monkeypatch, "rae.storage.parts.Parts.remove", lambda: main(command))
    (here / "z.parquet").unlink()
    (here / "z.parquet").write_text("mine")

    assert main(command) == 2
    assert (here / f"z.parquet{FOLDER}").is_dir()


@pytest.mark.parametrize("again", [[], ["--memory", BUDGET]])
def test_a_run_killed_while_it_reads_in_bounded_memory_leaves_no_hidden_folder(here, again):
    hidden = here / "..run.graph.building"
    hidden.mkdir()
    (hidden / ENDS).write_text("half")
    (here / "..run.graph.building.lock").touch()
    (here / ".run.graph").mkdir()
    (here / ".run.graph" / "offsets.npy").write_text("half")

    assert main(["fit", "edges.csv", "--out", "run", "--no-page", "--quiet", *FLAGS, *again]) == 0
    assert [name for name in names(here) if "/" not in name] == ["edges.csv", "run"]


def test_temporary_folders_of_killed_processes_are_removed_and_those_of_others_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = """
        import os, tempfile, sys
        tempfile.tempdir = sys.argv[1]
        from rae.storage.scratch import scratch_folder
        with scratch_folder() as folder:
            (folder / "graph").mkdir()
            os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)])
    left = names(tmp_path)
    assert len(left) == 3

    with scratch_folder() as first, scratch_folder() as second:
        (first / "a").write_text("x")
        assert not set(left) & set(names(tmp_path))
        assert first.is_dir()
        assert second.is_dir()
    assert names(tmp_path) == []


def test_an_interrupted_plan_leaves_no_temporary_folder(here, monkeypatch):
    (here / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(here / "temporary"))
    monkeypatch.setattr("rae.graph.folder_builder.write_info", lambda *_, **__: signal.raise_signal(signal.SIGINT))

    assert main(["plan", "edges.csv", "--memory", BUDGET]) == 130
    assert names(here / "temporary") == []


def test_a_build_killed_after_its_folder_has_its_name_leaves_no_lock_file(here):
    command = ["graph", "build", "edges.csv", "--out", "graph"]
    assert main(command) == 0
    (here / ".graph.building.lock").touch()

    assert main(command) == 2  # it is there
    assert not (here / ".graph.building.lock").exists()


def test_a_build_that_is_hung_up_leaves_no_hidden_folder(here, monkeypatch):
    monkeypatch.setattr("rae.graph.folder_builder.write_info", lambda *_, **__: signal.raise_signal(signal.SIGHUP))

    assert main(["graph", "build", "edges.csv", "--out", "graph"]) == 129
    assert names(here) == ["edges.csv"]


@pytest.mark.parametrize("target", ["file", "nowhere"])
def test_embed_force_replaces_a_link_and_not_the_file_behind_it(here, target):
    fit(page=False)
    (here / "file").write_text("mine")
    (here / "z.parquet").symlink_to(here / target)
    command = ["embed", "run", "edges.csv", "--out", "z.parquet"]

    assert main(command) == 2
    assert main([*command, "--force"]) == 0
    assert not (here / "z.parquet").is_symlink()
    assert (here / "file").read_text() == "mine"
    assert not (here / "nowhere").exists()


def test_a_graph_that_was_being_replaced_is_put_back_or_removed(here):
    command = ["graph", "build", "edges.csv", "--out", "graph"]
    assert main(command) == 0
    before = contents(here / "graph")
    (here / "graph").rename(here / ".graph.replaced")  # killed before the new one was in its place

    assert main(command) == 2  # it is there again, and not replaced without --force
    assert contents(here / "graph") == before
    shutil.copytree(here / "graph", here / ".graph.replaced")  # killed after that
    assert main([*command, "--force"]) == 0
    assert contents(here / "graph") == before
    assert not [name for name in names(here) if name.startswith(".graph")]


# ----------------------------------------------------------------------------------- other limits


def test_more_text_ids_than_can_be_numbered_are_refused_in_words(here, monkeypatch):
    monkeypatch.setattr("rae.graph.ids.MOST", 30)
    monkeypatch.setattr("rae.graph.builder.BATCH", 8)
    with pytest.raises(GraphError, match=r"^ids that are text, .* can be 30 at most, got \d+; give edges whose ids"):
        Graph.from_edges([line.split(",") for line in EDGES.split()])
    graph = Graph.from_edges([(i, (i + 1) % 40) for i in range(40)])  # whole numbers have no such limit
    with pytest.raises(GraphError, match="features and names are joined by, can be 30 at most, got 40;"):
        graph.rows(pa.array([3]))


def test_a_worker_process_ends_with_its_killed_parent(tmp_path):
    (tmp_path / "parent.py").write_text(
        textwrap.dedent("""
            import multiprocessing, os
            from rae.evaluation.runner import _end_with_parent
            if __name__ == "__main__":
                multiprocessing.get_context("spawn").Process(target=_end_with_parent).start()
                os.kill(os.getpid(), 9)
        """)
    )
    process = subprocess.run([sys.executable, str(tmp_path / "parent.py")], stdout=subprocess.PIPE, timeout=120)

    assert process.returncode == -signal.SIGKILL
    assert process.stdout == b""  # the end of the pipe, so the worker is gone
