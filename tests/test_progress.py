"""Progress: a bar that fits the terminal, few lines in a pipe, a fresh line at the end."""

from __future__ import annotations

import io
import re

import pytest

from rae.progress import Reporter, clock, finished, running, seconds, terminal_width


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


@pytest.mark.parametrize("width", [20, 40, 60, 120])
def test_on_a_terminal_one_line_is_rewritten_and_never_wider_than_the_window(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    stream, ticks = io.StringIO(), Clock()
    work(Reporter(stream, live=True, clock=ticks), ticks)
    text = stream.getvalue()

    assert text.count("\n") == 1
    assert text.endswith("\rtrain within  200 done in 99.5 s  loss 0.005\n")
    lines = text.removesuffix("\n").split("\r")
    assert max(map(len, lines[:-1])) < width
    assert any(line.startswith("train within") and "1/200" in line for line in lines) == (width > 20)


def test_the_finished_line_replaces_the_longer_bar(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    reporter = Reporter(stream, live=True)
    reporter("a long stage name", 1, 1000, {"loss": 0.123456})
    bar = stream.getvalue().split("\r")[-1]
    reporter("a long stage name", 1000, 1000, {})

    assert len(bar) == 79
    assert f"\r{' ' * 79}\r" in stream.getvalue()
    assert re.search(r"\ra long stage name  1,000 done in \d+ (ms|s)\n$", stream.getvalue())


def test_a_stage_that_is_left_early_leaves_a_fresh_line():
    stream = io.StringIO()
    reporter = Reporter(stream, live=True)
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


def test_a_bar_shows_what_is_done_the_loss_the_rate_and_the_time_left(monkeypatch):
    monkeypatch.setenv("COLUMNS", "75")
    stream, ticks = io.StringIO(), Clock()
    reporter = Reporter(stream, live=True, clock=ticks)
    reporter("train within", 0, 200, {})
    ticks.now += 10
    reporter._bar.mininterval = 0
    reporter("train within", 50, 200, {"loss": 0.693})

    assert stream.getvalue().split("\r")[1].startswith("train within  [-----")
    assert (
        stream.getvalue().split("\r")[2] == "train within  [#####---------------]  50/200  loss 0.693  5.0/s  0:30 left"
    )


def test_before_any_time_has_passed_there_is_no_rate():
    assert running(0, 4, 0.0, {}) == "0/4"
    assert running(1000, 0, 1.0, {"rows": 3}) == "1,000  1,000/s"
    assert finished("embed", 2, 0.0, {}) == "embed  2 done in 0 ms"


def test_durations_read_well():
    assert [clock(s) for s in (0, 59.6, 3600)] == ["0:00", "1:00", "1:00:00"]
    assert [seconds(s) for s in (0.5, 60, 600, 10_000)] == ["500 ms", "60.0 s", "10 min", "2.8 h"]


def test_the_width_comes_from_the_environment_then_the_terminal_then_eighty(monkeypatch):
    monkeypatch.setenv("COLUMNS", "61")
    assert terminal_width(io.StringIO()) == 61
    monkeypatch.setenv("COLUMNS", "wide")
    assert terminal_width(io.StringIO()) == 80
