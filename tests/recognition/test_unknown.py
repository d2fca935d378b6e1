"""The setting of how often something unknown is shown, and the report of what it decides."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cells import CELLS, grids
from support.heads import judged_answers
from support.statistics import draw_classes

from cbcl import MemoryFileError, Recognizer
from cbcl.memory.check import check
from cbcl.method.discriminant.forecast import Forecast, UnknownReport, report_unknown
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.method.discriminant.open_set import PRIOR_ODDS, Cosines
from cbcl.method.discriminant.statistics import learn_class, unlearn_view

D = 128
COSINES = Cosines(0.5, 0.13, 0.07, 0.1, 0.07)
POOL = grids(30)
KINDS = pytest.mark.parametrize(
    ("t", "n", "spread", "cosines"),
    [(5, 5, 1.0, COSINES), (10, 3, 2.0, COSINES), (10, 10, 2.0, COSINES), (6, 12, 1.5, None)],
)


def learn(t: int, n: int, d: int = D, *, spread: float = 1.0, **options: Any) -> Any:
    draws = draw_classes(t, n, d, 3, spread=spread)[1]
    classes = {f"thing {number:02}": learn_class(own)[0] for number, own in enumerate(draws)}
    return DiscriminantModel(classes, **{"cosines": COSINES, **options})


def told(known: DiscriminantModel) -> UnknownReport:
    """Return the report on a model of which there is one."""
    report = report_unknown(known)
    assert report is not None
    return report


def unknown_without_the_photo(known: DiscriminantModel) -> int:
    """Count the views that are unknown where they, and nothing else, were not learned."""
    count = 0
    for label, own in known.statistics.items():
        for row in range(len(own.views)):
            less = unlearn_view(own, row)
            assert less is not None
            without = replace(known, statistics={**known.statistics, label: less})
            count += judged_answers(own.directions[row : row + 1], without)[0].label is None
    return count


def unknown_without_the_thing(known: DiscriminantModel) -> int:
    count = 0
    for label, own in known.statistics.items():
        without = known.without(label)
        assert without is not None
        count += sum(one.label is None for one in judged_answers(own.directions, without))
    return count


@KINDS
def test_a_forecast_counts_what_learning_without_each_photo_or_thing_answers(
    t: int, n: int, spread: float, cosines: Cosines | None
) -> None:
    knowledge = learn(t, n, spread=spread, cosines=cosines)
    report = told(knowledge)
    for strangers, forecast in report.forecasts.items():
        asked = replace(knowledge, strangers=strangers)
        assert (forecast.known, forecast.strange) == (t * n, t * n)
        assert abs(forecast.refused - unknown_without_the_photo(asked)) <= 0.15 * t * n
        # Too hopeful near the limit: without a thing, the others' scores tell less of strangers.
        assert abs(forecast.found - unknown_without_the_thing(asked)) <= 0.25 * t * n


@KINDS
def test_more_is_refused_and_found_the_more_often_strangers_are_expected(
    t: int, n: int, spread: float, cosines: Cosines | None
) -> None:
    knowledge = learn(t, n, spread=spread, cosines=cosines)
    reports = [told(replace(knowledge, strangers=one)) for one in PRIOR_ODDS]
    assert [one.strangers for one in reports] == ["often", "sometimes", "rarely"]
    limits = [one.limit for one in reports]
    assert limits == sorted(limits, reverse=True)
    for report in reports:
        forecasts = [*report.forecasts.values()]
        assert forecasts == sorted(forecasts, reverse=True)
        assert [one.found for one in forecasts] == sorted(one.found for one in forecasts)[::-1]
        assert report.forecasts == reports[0].forecasts


def test_known_photos_score_higher_than_strange_ones() -> None:
    report = told(learn(6, 8))
    assert report.strange[0] < report.limit < report.known[0]
    assert len(report.known_scores) == len(report.strange_scores) == 48
    assert np.mean(report.known_scores) > report.limit > np.mean(report.strange_scores)


def test_of_one_thing_nothing_is_known_of_strangers_but_the_backbone_is() -> None:
    report = told(learn(1, 4))
    assert report.strange == (COSINES.other, COSINES.other_deviation)
    assert (len(report.known_scores), report.strange_scores) == (4, [])
    assert report.forecasts["often"].known == 4
    assert report.forecasts["often"].strange == 0


def test_a_single_photo_is_left_out_as_nothing_else_is_known_of_its_thing() -> None:
    report = told(learn(1, 1))
    assert (report.known_scores, report.strange_scores) == ([], [])
    assert {*report.forecasts.values()} == {Forecast(0, 0, 0, 0)}
    report = told(learn(4, 1))
    assert (len(report.known_scores), len(report.strange_scores)) == (0, 4)
    assert report.known[0] == COSINES.same


def test_of_measurements_there_is_a_report_as_soon_as_something_was_learned() -> None:
    assert report_unknown(learn(1, 1, 5)) is None
    assert report_unknown(learn(3, 1, 5)) is None
    report = told(learn(3, 10, 5, spread=0.2))
    assert max(report.known_scores) <= 0.0  # they are distances, negative
    assert report.forecasts["sometimes"].refused < 10


def test_measurements_shown_once_are_no_strangers_in_the_report() -> None:
    drawn = draw_classes(3, 9, 5, 3, spread=0.2)[1]
    classes = {"a": learn_class(drawn[0][:1])[0], "b": learn_class(drawn[1])[0]}
    report = told(DiscriminantModel({**classes, "c": learn_class(drawn[2])[0]}))
    assert len(report.strange_scores) == report.forecasts["often"].strange == 18


def test_the_vote_and_nothing_have_no_report(tmp_path: Path) -> None:
    with Recognizer(tmp_path / "vote.cbcl", CELLS, head="vote") as things:
        things.learn("cup", POOL[:3])
        assert things.snapshot().unknown() is None
        with pytest.raises(MemoryFileError, match=r"by the vote.* `cbcl upgrade` may help"):
            things.expect_strangers("often")
    with Recognizer(tmp_path / "none.cbcl", CELLS) as things:
        assert things.snapshot().unknown() is None
        with pytest.raises(MemoryFileError, match="does not exist"):
            things.expect_strangers("often")
        assert not things.path.exists()
        things.learn("cup", POOL[:3])
        assert things.snapshot().unknown() is not None
        things.forget("cup")
        assert things.snapshot().unknown() is None


@pytest.fixture
def things(tmp_path: Path) -> Any:
    with Recognizer(tmp_path / "things.cbcl", CELLS) as recognizer:
        recognizer.learn_many({"cup": POOL[:4], "key": POOL[4:8], "pen": POOL[8:11]})
        yield recognizer


def test_the_setting_is_one_step_that_can_be_undone(things: Recognizer) -> None:
    before = things.snapshot().revision
    things.expect_strangers("rarely")
    assert things.snapshot().settings.strangers == "rarely"
    report = things.snapshot().unknown()
    assert report is not None
    assert report.strangers == "rarely"
    step = things.history()[0]
    assert (step.action, step.summary, step.labels) == ("strangers", "rarely", [])
    assert things.snapshot().revision == before + 1
    undone = things.undo()
    assert (undone.action, undone.summary) == ("strangers", "rarely")
    assert things.snapshot().settings.strangers == "sometimes"
    assert things.history()[0].summary == "strangers rarely"
    assert check(things.path) == []


def test_no_step_where_nothing_changes(things: Recognizer) -> None:
    before = things.snapshot().revision
    things.expect_strangers("sometimes")
    assert things.snapshot().revision == before
    things.expect_strangers("often")
    things.expect_strangers("often")
    assert things.snapshot().revision == before + 1


def test_another_word_is_refused(things: Recognizer) -> None:
    before = things.snapshot().revision
    for word in ("never", "", "Often", None):
        with pytest.raises(ValueError, match="is none of often, sometimes, rarely"):
            things.expect_strangers(word)  # type: ignore[arg-type]
    assert things.snapshot().revision == before


def test_it_decides_the_answers(things: Recognizer) -> None:
    known = []
    for setting in PRIOR_ODDS:
        things.expect_strangers(setting)  # type: ignore[arg-type]
        answers = things.recognize_many(POOL[11:])
        known.append([1.0 - answer.strangeness / 2.0 for answer in answers])
    often, sometimes, rarely = np.array(known)
    assert (often < sometimes).all()
    assert (sometimes < rarely).all()


def test_every_step_keeps_it(things: Recognizer) -> None:
    things.expect_strangers("often")
    steps: dict[str, Callable[[], object]] = {
        "learn": lambda: things.learn("saw", POOL[11:13]),
        "learn none": lambda: things.learn(None, POOL[13:15]),
        "rename": lambda: things.rename("saw", "axe"),
        "merge": lambda: things.merge("axe", "pen"),
        "unlearn": lambda: things.unlearn(things.snapshot().examples("pen")[0].number),
        "move": lambda: things.move([things.snapshot().examples("pen")[0].number], "key"),
        "forget": lambda: things.forget("cup"),
        "forget none": lambda: things.forget(None),
        "undo": things.undo,
        "for good": lambda: things.forget("key", for_good=True),
    }
    for name, step in steps.items():
        step()
        assert things.snapshot().settings.strangers == "often", name
    for _ in range(25):  # more than can be undone
        things.learn("cup", POOL[:2])
        things.rename("cup", "mug")
        things.rename("mug", "cup")
    assert things.snapshot().settings.strangers == "often"
    assert check(things.path) == []


def test_copies_and_exports_have_it_and_a_full_memory_keeps_its_own(
    things: Recognizer, tmp_path: Path
) -> None:
    things.expect_strangers("rarely")
    things.save_copy(tmp_path / "copy.cbcl")
    things.export(tmp_path / "out.safetensors")
    asked = POOL[11:]
    wanted = things.recognize_many(asked)
    for name in ("copy", "new", "adopting"):
        with Recognizer(tmp_path / f"{name}.cbcl", CELLS) as other:
            if name == "new":
                other.import_(tmp_path / "out.safetensors")
            if name == "adopting":  # which knows nothing yet
                other.adopt(things.path)
            assert other.snapshot().settings.strangers == "rarely"
            answers = other.recognize_many(asked)
            assert [one.label for one in answers] == [one.label for one in wanted]
            assert [one.strangeness for one in answers] == [one.strangeness for one in wanted]
    with Recognizer(tmp_path / "full.cbcl", CELLS) as other:
        other.learn("saw", POOL[11:13])
        other.adopt(things.path)
        assert other.snapshot().settings.strangers == "sometimes"


def test_another_process_sees_it_at_its_next_call(things: Recognizer) -> None:
    script = "import sys, cbcl; cbcl.Recognizer(sys.argv[1]).expect_strangers('often')"
    assert things.snapshot().settings.strangers == "sometimes"
    before = things.recognize(POOL[12]).strangeness
    subprocess.run([sys.executable, "-c", script, things.path], check=True)
    assert things.snapshot().settings.strangers == "often"
    assert things.recognize(POOL[12]).strangeness > before


def test_a_memory_of_the_vote_has_it_once_it_is_upgraded(tmp_path: Path) -> None:
    with Recognizer(tmp_path / "vote.cbcl", CELLS, head="vote") as things:
        things.learn("cup", POOL[:3])
        things.upgrade()
        things.expect_strangers("often")
        things.undo()
        things.undo()
        assert things.snapshot().settings[3:] == ("vote", "sometimes")
