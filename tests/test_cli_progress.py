"""Progress: one line that fits on a terminal, few lines in a pipe, nothing left unfinished."""

from __future__ import annotations

import io

from rae.cli.progress import Reporter, clock, finished, running, seconds, terminal_width


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def work(reporter: Reporter, ticks: Clock, *, steps: int = 200, each: float = 0.5, stage: str = "train within") -> None:
    for step in range(1, steps + 1):
        ticks.now += each
        reporter(stage, step, steps, {"loss": 1.0 / step})


def test_in_a_pipe_a_line_comes_every_few_seconds_and_one_at_the_end():
    stream, ticks = io.StringIO(), Clock()
    work(Reporter(stream, live=False, clock=ticks), ticks)  # 100 seconds of work
    lines = stream.getvalue().splitlines()

    assert 15 <= len(lines) <= 21
    assert "\r" not in stream.getvalue()
    assert lines[0].startswith("train within  ")
    assert "loss" in lines[0]
    assert lines[-1] == "train within  200 done in 99.5 s  loss 0.005"


def test_on_a_terminal_one_line_is_rewritten_and_never_wider_than_the_window():
    for width in (20, 40, 60, 120):
        stream, ticks = io.StringIO(), Clock()
        work(Reporter(stream, live=True, width=lambda w=width: w, clock=ticks), ticks)
        text = stream.getvalue()

        assert text.count("\n") == 1
        assert text.endswith("\n")
        assert max(len(part) for part in text.strip("\n").split("\r")) < width


def test_a_shorter_line_wipes_the_longer_one_before_it():
    stream, ticks = io.StringIO(), Clock()
    reporter = Reporter(stream, live=True, width=lambda: 80, clock=ticks)
    reporter("a long stage name that fills the line", 1, 1000, {"loss": 0.123456})
    before = len(stream.getvalue())
    ticks.now += 1
    reporter("a long stage name that fills the line", 1000, 1000, {})

    assert len(stream.getvalue()) - before >= before - 1  # padded to at least the length of the first


def test_a_stage_that_is_left_early_leaves_a_fresh_line():
    stream, ticks = io.StringIO(), Clock()
    reporter = Reporter(stream, live=True, clock=ticks)
    reporter("embed", 1, 9, {})
    assert not stream.getvalue().endswith("\n")
    reporter.close()
    assert stream.getvalue().endswith("\n")
    reporter.close()
    assert stream.getvalue().count("\n") == 1


def test_a_new_stage_begins_a_new_line_and_a_new_clock():
    stream, ticks = io.StringIO(), Clock()
    reporter = Reporter(stream, live=False, clock=ticks)
    work(reporter, ticks, steps=2, each=1.0)
    work(reporter, ticks, steps=2, each=2.0, stage="embed")

    assert stream.getvalue().splitlines() == [
        "train within  2 done in 1.0 s  loss 0.5",
        "embed  2 done in 2.0 s  loss 0.5",
    ]


def test_what_does_not_fit_is_left_out_least_needed_first():
    full = running("train within", 50, 200, 10.0, {"loss": 0.693}, 100, bar=True)
    assert full == "train within  [#####---------------]  50/200  loss 0.693  5.0/s  0:30 left"
    narrow = running("train within", 50, 200, 10.0, {"loss": 0.693}, 60, bar=True)
    assert narrow == "train within  [#----]  50/200  loss 0.693  5.0/s  0:30 left"
    assert running("train within", 50, 200, 10.0, {"loss": 0.693}, 45, bar=True).endswith("loss 0.693  5.0/s")
    assert running("train within", 50, 200, 10.0, {"loss": 0.693}, 36, bar=True) == "train within  50/200  loss 0.693"
    assert running("train within", 50, 200, 10.0, {"loss": 0.693}, 25, bar=True) == "train within  50/200"


def test_before_any_time_has_passed_there_is_no_rate():
    assert running("embed", 0, 4, 0.0, {}, 80, bar=False) == "embed  0/4"
    assert "1,000/s" in running("embed", 1000, 2000, 1.0, {"rows": 3}, 80, bar=False)
    assert finished("embed", 2, 0.0, {}) == "embed  2 done in 0 ms"


def test_durations_read_well():
    assert [clock(s) for s in (0, 59.6, 3600)] == ["0:00", "1:00", "1:00:00"]
    assert [seconds(s) for s in (0.5, 60, 600, 10_000)] == ["500 ms", "60.0 s", "10 min", "2.8 h"]


def test_the_width_comes_from_the_environment_then_the_terminal_then_eighty(monkeypatch):
    monkeypatch.setenv("COLUMNS", "61")
    assert terminal_width(io.StringIO()) == 61
    monkeypatch.setenv("COLUMNS", "wide")
    assert terminal_width(io.StringIO()) == 80
