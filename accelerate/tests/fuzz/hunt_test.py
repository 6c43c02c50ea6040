"""The hunter of slow programs: what is slower is found, all else is not."""

import hunt
import pytest

NAME = "sort"


class Process:
    """Stands for one in which a rule is met."""

    def __init__(self, *_):
        self.close = lambda: None
        self.first = lambda *_: {"replaced": {NAME: 1}}


@pytest.fixture
def turns(monkeypatch):
    """Seconds of a call in each mode; what is timed takes the first."""
    found = []
    monkeypatch.setattr(hunt, "Worker", Process)
    monkeypatch.setattr(
        hunt,
        "take_turns",
        lambda modes, *_: dict(zip(modes, found.pop(0), strict=True)),
    )
    return found


def test_what_is_slower_is_printed_with_what_makes_it_again(turns, capsys):
    program = hunt.drawn(NAME, 0)
    turns += [(1, 1, 2)] * 4 + [(1, 1, 4)]
    with hunt.processes() as workers:
        assert hunt.judged(workers, program) == [0.5] and not turns
    said = capsys.readouterr().out
    assert "all: 2000000.0 us, 0.50, 0.50, 0.25 x" in said and "sort" in said
    again = hunt.given(*said.split()[1:3])
    assert again.source() == program.source() and again.source() in said
    for x, y in zip(again.arguments(0), program.arguments(0), strict=True):
        assert x.dtype == y.dtype and x.tobytes() == y.tobytes()


FAST, EXACT, ALL = (1, 1, 1), (1, 2, 1), (1, 1, 2)


@pytest.mark.parametrize(
    "found",
    [[FAST], [ALL, FAST], [ALL, ALL, FAST, ALL, ALL], [ALL] * 4 + [EXACT]],
)
def test_what_no_mode_loses_each_time_is_none(turns, capsys, found):
    turns += found
    with hunt.processes() as workers:
        assert hunt.judged(workers, hunt.drawn(NAME, 0)) == [1]
    assert not turns and not capsys.readouterr().out


@pytest.mark.parametrize("seconds,least", [("0", 1), ("0.3", 2)])
def test_what_was_kept_is_first(
    turns, capsys, tmp_path, monkeypatch, seconds, least
):
    monkeypatch.setattr(hunt, "SLOW", tmp_path / "slow.txt")
    hunt.SLOW.write_text(f"{NAME} 1,2  # slower once\nargmax 1  # another\n")
    turns += [FAST] * 1000
    hunt.main(["--seconds", seconds, "--only", NAME])
    said = capsys.readouterr().out.split()
    assert int(said[0]) == 1000 - len(turns) >= least
    assert said[1:6] == ["programs", "of", f"{NAME},", "least", "1.00"]


def test_processes_time_a_program_in_each_mode_until_it_ends_one():
    programs = [hunt.drawn(NAME, seed) for seed in range(20)]
    with hunt.processes() as workers:
        found = (hunt.measured(workers, program, 1) for program in programs)
        times = next(times for times in found if "exact" in times)
        assert all(0 < times[mode] < 1 for mode in ("plain", "exact", "all"))
        programs[0].name = "none"
        with pytest.raises(EOFError, match="the process of none "):
            hunt.measured(workers, programs[0], 1)
