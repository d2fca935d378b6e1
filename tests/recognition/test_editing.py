"""Examples that are kept, unlearning one, copies, and memories that are put together."""

from __future__ import annotations

import io
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from support.memory_contents import known, pair
from support.memory_files import execute, rewrite
from support.nearest_head import NEAREST
from support.photos import NAMES, encoded, views

from cbcl import BackboneError, LabelError, MemoryFileError, PictureError, Recognizer, load_backbone
from cbcl.heads.base import FIRST, find_head
from cbcl.heads.centroids.changes import PER_CENTROID
from cbcl.memory.check import check
from cbcl.memory.packing import checksum, pack_class
from cbcl.memory.schema import MIGRATIONS, VERSION
from cbcl.vision.decoding import Pixels
from cbcl.vision.extraction import EmbeddedPicture


def colours(pictures: Any) -> Any:
    return [np.asarray(picture.resize((4, 4)), dtype=np.float32).ravel() for picture in pictures]


COLOURS = load_backbone(colours, name="colours", at_least=8)


def noise(count: int, seed: int, around: int = 100) -> list[Pixels]:
    """Small pictures of about one brightness."""
    rng = np.random.default_rng([seed, around])
    return [(around + rng.integers(-40, 40, (12, 12, 3))).astype(np.uint8) for _ in range(count)]


def made(path: Path, **options: Any) -> Recognizer:
    return Recognizer(path, COLOURS, **options)


@pytest.fixture(params=["discriminant", "vote", NEAREST.name])
def head(request: pytest.FixtureRequest) -> Any:
    """Both heads: what any memory promises is tested with each."""
    return request.param


def pictures_in(path: Path) -> int:
    ((count,),) = execute(path, "SELECT count(*) FROM pictures")
    return int(count)


def n_centroids(recognizer: Recognizer) -> int:
    return sum(len(known.counts) for known in recognizer.snapshot().concepts().values())


@given(
    count=st.integers(2, 8),
    gone=st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True),
    radius=st.sampled_from([0.0, 150.0, 260.0, float("inf")]),
    seed=st.integers(0, 1000),
)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_an_example_taken_back_was_never_shown(
    tmp_path_factory: pytest.TempPathFactory,
    head: str,
    count: int,
    gone: list[int],
    radius: float,
    seed: int,
) -> None:
    options: dict[str, Any] = {"radius": radius} if head == "vote" else {"head": head}
    folder = tmp_path_factory.mktemp("unlearn")
    pictures = noise(count, seed)
    gone = [number for number in gone if number < count][: count - 1]
    with pair(folder, COLOURS, **options) as (taken, never):
        for recognizer in (taken, never):
            recognizer.learn("other", noise(3, seed, around=180))
        taken.learn("thing", pictures)
        numbers = [example.number for example in taken.snapshot().examples("thing")]
        for which in gone:
            assert taken.unlearn(numbers[which]) == {"thing": 1}
        never.learn(
            "thing", [picture for number, picture in enumerate(pictures) if number not in gone]
        )
        assert known(taken) == known(never)
        before = known(taken)
        for _ in gone:
            assert taken.undo().action == "unlearn"
        assert [example.number for example in taken.snapshot().examples("thing")] == numbers
        assert (known(taken) == before) == (not gone)


def test_where_not_all_examples_are_kept_one_is_taken_out_of_its_mean(tmp_path: Path) -> None:
    pictures = noise(FIRST + 40, 0)
    with made(tmp_path / "many.cbcl", radius=float("inf")) as recognizer:
        recognizer.learn("thing", pictures)
        kept = recognizer.snapshot().examples("thing")
        assert FIRST <= len(kept) <= FIRST + PER_CENTROID
        recognizer.unlearn(kept[7].number)
        concepts = recognizer.snapshot().concepts()["thing"]
        rest = recognizer.embed([picture for number, picture in enumerate(pictures) if number != 7])
    assert concepts.counts.tolist() == [FIRST + 39]
    np.testing.assert_allclose(concepts.centroids[0], rest.mean(axis=0), rtol=1e-5)


def test_where_not_all_are_kept_a_concept_of_one_example_goes_with_it(tmp_path: Path) -> None:
    with made(tmp_path / "things.cbcl", radius=300.0) as recognizer:
        recognizer.learn("thing", [*noise(1, 0, around=200), *noise(FIRST + 10, 1, around=60)])
        assert recognizer.snapshot().concepts()["thing"].counts.tolist() == [1, FIRST + 10]
        recognizer.unlearn(recognizer.snapshot().examples("thing")[0].number)
        assert recognizer.snapshot().concepts()["thing"].counts.tolist() == [FIRST + 10]


def test_the_last_example_takes_its_label_along(tmp_path: Path, head: Any) -> None:
    with made(tmp_path / "things.cbcl", head=head) as recognizer:
        recognizer.learn("thing", noise(1, 0))
        number = recognizer.snapshot().examples("thing")[0].number
        recognizer.unlearn(number)
        assert recognizer.labels() == {}
        with pytest.raises(LabelError, match=rf"example {number} does not exist, or no longer"):
            recognizer.unlearn(number)
        recognizer.undo()
        assert recognizer.labels() == {"thing": 1}
        assert recognizer.snapshot().thumbnail(number)


def test_an_example_keeps_its_number_whatever_its_label_is(tmp_path: Path, head: Any) -> None:
    with made(tmp_path / "things.cbcl", head=head) as recognizer:
        recognizer.learn("cup", noise(2, 0))
        cups = [example.number for example in recognizer.snapshot().examples("cup")]
        recognizer.learn("mug", noise(2, 1))
        recognizer.learn("cup", noise(1, 2))
        recognizer.rename("cup", "beaker")
        recognizer.merge("beaker", into="mug")
        assert [example.number for example in recognizer.snapshot().examples("mug")][2:4] == cups
        assert pictures_in(recognizer.path) == 5
        recognizer.forget("mug", for_good=True)
        assert pictures_in(recognizer.path) == 0


def test_pictures_that_nothing_refers_to_do_not_pile_up(tmp_path: Path, head: Any) -> None:
    with made(tmp_path / "things.cbcl", head=head) as recognizer:
        recognizer.learn("thing", noise(3, 0))
        for seed in range(1, 31):
            recognizer.learn("thing", noise(1, seed))
            recognizer.unlearn(recognizer.snapshot().examples("thing")[0].number)
        # three are known, and twenty steps can be undone
        assert len(recognizer.snapshot().examples("thing")) == 3
        assert pictures_in(recognizer.path) <= 3 + 20
    assert check(tmp_path / "things.cbcl") == []


def test_what_was_looked_at_is_learned_and_recognized_as_the_picture_itself(
    tmp_path: Path, head: Any
) -> None:
    files = [encoded(view) for name in NAMES[:2] for view in views(name, 4)]
    with pair(tmp_path, None, head=head) as (one, other):
        seen = other.look(files)
        assert all(max(Image.open(io.BytesIO(picture.jpeg)).size) == 128 for picture in seen)
        for recognizer, pictures in ((one, files), (other, seen)):
            recognizer.learn(NAMES[0], pictures[:3])
            recognizer.learn(NAMES[1], pictures[4:7])
        same, expected = (who.snapshot().concepts()[NAMES[0]] for who in (other, one))
        assert same.centroids.tobytes() == expected.centroids.tobytes()
        told = [answer.as_dict() for answer in other.recognize_many(seen)]
        assert told == [answer.as_dict() for answer in one.recognize_many(files)]
        mixed = other.recognize_many([seen[3], files[7]])
        assert mixed == other.recognize_many([files[3], seen[7]])
        assert other.look(seen) == seen


def test_a_broken_picture_is_told_or_raised_when_looked_at(tmp_path: Path) -> None:
    good = encoded(views(NAMES[0], 1)[0])
    with made(tmp_path / "things.cbcl") as recognizer:
        first, broken, last = recognizer.look([good, b"no picture", good], broken="report")
        assert isinstance(first, EmbeddedPicture)
        assert isinstance(last, EmbeddedPicture)
        assert first.vector.tobytes() == last.vector.tobytes()
        assert isinstance(broken, PictureError)
        assert str(broken).startswith("picture 2 is not a picture")
        with pytest.raises(PictureError, match="picture 2"):
            recognizer.look([good, b"no picture"])
    with (
        Recognizer(tmp_path / "other.cbcl", "visual-words") as other,
        pytest.raises(PictureError, match="another"),
    ):
        other.learn("a", [first, good])


def test_a_private_memory_makes_nothing_small(tmp_path: Path, head: Any) -> None:
    with made(tmp_path / "private.cbcl", private=True, head=head) as recognizer:
        seen = recognizer.look(noise(2, 0))
        assert [picture.jpeg for picture in seen] == [b"", b""]
        recognizer.learn("thing", seen)
        assert recognizer.snapshot().examples("thing") == []
        (thing,) = recognizer.snapshot().things()
        assert (thing.label, thing.examples, thing.kept, thing.shown) == ("thing", 2, 0, [])


def test_things_are_shown_with_an_example_of_each_concept_first(tmp_path: Path) -> None:
    with made(tmp_path / "things.cbcl", radius=300.0) as recognizer:
        empty = recognizer.snapshot()
        assert (empty.things(), empty.revision, empty.about) == ([], 0, None)
        assert recognizer.history() == []
        recognizer.learn("thing", noise(4, 0, around=60) + noise(1, 1, around=200))
        (thing,) = recognizer.snapshot().things()
        assert (thing.label, thing.examples, thing.concepts) == ("thing", 5, 2)
        assert (thing.kept, len(thing.shown)) == (5, 4)
        places = {one.number: one.place for one in recognizer.snapshot().examples(thing.label)}
        assert {places[number] for number in thing.shown[:2]} == {0, 1}
        assert recognizer.snapshot().revision == 1
        with made(recognizer.path) as another:
            another.forget("thing")
        assert (recognizer.snapshot().revision, recognizer.snapshot().things()) == (2, [])


def test_shares_of_the_vote_add_up(tmp_path: Path) -> None:
    with made(tmp_path / "things.cbcl", radius=0.0, n_voters=3) as recognizer:
        pictures = noise(3, 0)
        recognizer.learn("a", pictures)
        recognizer.learn("b", noise(2, 1, around=120))
        answer = recognizer.recognize(noise(1, 5)[0])
        weights = [reason.weight for reason in answer.evidence]
        np.testing.assert_allclose(answer.shares, np.array(weights) / sum(weights))
        taught = recognizer.recognize(pictures[0])  # just that
        assert taught.shares == pytest.approx((1.0, 0.0, 0.0))


def test_a_copy_knows_the_same_and_nothing_that_was_forgotten(tmp_path: Path, head: Any) -> None:
    with made(tmp_path / "things.cbcl", head=head) as recognizer:
        recognizer.learn("cup", noise(3, 0))
        recognizer.learn("secret", noise(2, 1))
        recognizer.forget("secret")
        recognizer.save_copy(tmp_path / "copy.cbcl")
        with pytest.raises(MemoryFileError, match="there already"):
            recognizer.save_copy(tmp_path / "copy.cbcl")
        with made(tmp_path / "copy.cbcl", head=head) as copy:
            assert known(copy) == known(recognizer)
            assert copy.snapshot().settings == recognizer.snapshot().settings
            with pytest.raises(MemoryFileError, match="nothing to undo"):
                copy.undo()
        recognizer.undo()
        assert [*recognizer.labels()] == ["cup", "secret"]
    assert check(tmp_path / "copy.cbcl") == []
    assert pictures_in(tmp_path / "copy.cbcl") == 3
    assert b"secret" not in (tmp_path / "copy.cbcl").read_bytes()


@pytest.mark.parametrize("options", [{}, {"radius": 150.0, "max_centroids": 50}])
def test_a_memory_taken_over_by_an_empty_one_is_the_same(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with (
        made(tmp_path / "a.cbcl", **options) as one,
        made(tmp_path / "b.cbcl") as other,
    ):
        one.learn("cup", noise(4, 0))
        one.learn("key", noise(2, 1, around=180))
        assert other.adopt(one.path) == (["cup", "key"], [])
        assert known(other) == known(one)
        assert other.snapshot().settings == one.snapshot().settings
        assert other.undo().action == "adopt"
        assert other.labels() == {}


def test_two_memories_are_put_together_label_by_label(tmp_path: Path, head: Any) -> None:
    with pair(tmp_path, COLOURS, head=head) as (one, other):
        one.learn("cup", noise(3, 0))
        one.learn("key", noise(2, 1, around=180))
        other.learn("cup", noise(2, 2))
        other.learn("pen", noise(2, 3, around=220))
        pens = known(other)["pen"]
        assert other.adopt(one.path) == (["key"], ["cup"])
        assert other.labels() == {"cup": 5, "key": 2, "pen": 2}
        assert known(other)["pen"] == pens
        assert known(other)["key"] == known(one)["key"]
        assert len(other.snapshot().examples("cup")) == 5
        mean = other.embed([*noise(2, 2), *noise(3, 0)]).mean(axis=0)
        np.testing.assert_allclose(other.snapshot().concepts()["cup"].centroids[0], mean, rtol=1e-6)
    assert check(tmp_path / "b.cbcl") == []


def test_a_limit_on_centroids_holds_when_memories_are_put_together(tmp_path: Path) -> None:
    with (
        made(tmp_path / "a.cbcl", radius=0.0) as one,
        made(tmp_path / "b.cbcl", radius=0.0, max_centroids=6) as other,
    ):
        one.learn("cup", noise(5, 0))
        other.learn("pen", noise(5, 1))
        other.adopt(one.path)
        assert n_centroids(other) <= 6
        assert other.labels() == {"cup": 5, "pen": 5}


def test_what_cannot_be_taken_over_is_told_and_nothing_changes(tmp_path: Path, head: Any) -> None:
    with made(tmp_path / "things.cbcl", head=head) as recognizer:
        recognizer.learn("cup", noise(2, 0))
        with Recognizer(tmp_path / "words.cbcl", backbone="identity") as other:
            other.learn("x", [[1.0, 2.0]])
        with pytest.raises(BackboneError, match=r"identity .*: they cannot be put together"):
            recognizer.adopt(tmp_path / "words.cbcl")
        (tmp_path / "no.cbcl").write_text("no memory")
        for name in ("no.cbcl", "missing.cbcl"):
            with pytest.raises(MemoryFileError, match="not a memory of cbcl"):
                recognizer.adopt(tmp_path / name)
        with made(tmp_path / "empty.cbcl", head=head) as empty:
            empty.learn("a", noise(1, 0))
            empty.undo()
        with pytest.raises(MemoryFileError, match="knows nothing"):
            recognizer.adopt(tmp_path / "empty.cbcl")
        assert (recognizer.labels(), recognizer.snapshot().revision) == ({"cup": 2}, 1)


def aged(path: Path) -> None:
    """Make of a memory what the first format had."""
    tables = [statement for statement in MIGRATIONS[0].split(";") if "thumbnails" in statement]
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.create_function("checksum_of", -1, checksum)
        file.execute("BEGIN")
        for index in ("of_class", "of_step"):
            file.execute(f"DROP INDEX {index}")
        later = ("steps head", "steps strangers", "classes sketches", "classes statistics")
        for table, column in map(str.split, later):
            file.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        for statement in tables:
            file.execute(statement)
        file.execute(
            "INSERT INTO thumbnails"
            " SELECT class, centroid, jpeg, vector,"
            " checksum_of(CAST(centroid AS TEXT), jpeg, vector)"
            " FROM examples JOIN pictures USING (picture)"
            f" WHERE rank < {PER_CENTROID} ORDER BY class, rank, centroid"
        )
        file.execute("DROP TABLE examples")
        file.execute("DROP TABLE pictures")
        file.execute("PRAGMA user_version = 1")
        file.execute("COMMIT")


def test_a_memory_of_the_first_format_is_read_as_it_is_and_renewed_by_the_first_step(
    tmp_path: Path,
) -> None:
    path = tmp_path / "old.cbcl"
    with made(path, head="vote") as recognizer:
        recognizer.learn("cup", noise(3, 0))
        recognizer.learn("key", noise(2, 1, around=180))
        recognizer.learn("cup", noise(1, 2))
        before = {label: row[0] for label, row in known(recognizer).items()}
    aged(path)
    old = path.read_bytes()
    with made(path) as recognizer:
        assert {label: row[0] for label, row in known(recognizer).items()} == before
        assert [thing.kept for thing in recognizer.snapshot().things()] == [3, 2]
        assert len(recognizer.recognize(noise(1, 9)[0]).evidence[0].examples) == 3
        recognizer.save_copy(tmp_path / "copy.cbcl")
    assert path.read_bytes() == old
    assert check(path) == []
    with made(path) as recognizer:
        recognizer.rename("key", "latch")
        assert recognizer.labels() == {"cup": 4, "latch": 2}
        assert [thing.kept for thing in recognizer.snapshot().things()] == [3, 2]
        recognizer.undo()
        recognizer.undo()
        assert recognizer.labels() == {"cup": 3, "key": 2}
    assert execute(path, "PRAGMA user_version") == [(VERSION,)]
    assert check(path) == []


def test_a_damaged_thumbnail_of_the_first_format_is_still_found(tmp_path: Path) -> None:
    path = tmp_path / "old.cbcl"
    with made(path, head="vote") as recognizer:
        recognizer.learn("cup", noise(3, 0))
    aged(path)
    execute(path, "UPDATE thumbnails SET jpeg = x'00' WHERE rowid = 2")
    assert [finding.problem for finding in check(path)] == ["a thumbnail of 'cup' is damaged"]
    with made(path) as recognizer:
        recognizer.learn("key", noise(1, 1))
    assert [finding.problem for finding in check(path)] == ["a thumbnail of 'cup' is damaged"]


def test_in_a_memory_of_the_first_format_a_picture_belongs_to_one_label(tmp_path: Path) -> None:
    path = tmp_path / "old.cbcl"
    pictures = noise(3, 0)
    with made(path, head="vote") as recognizer:
        recognizer.learn("cup", pictures[:2])
        recognizer.learn("mug", pictures[1:])
        recognizer.learn("key", [pictures[0], pictures[0], pictures[2]])
        recognizer.learn("cup", noise(1, 5))
    aged(path)
    with made(path) as recognizer:
        recognizer.rename("mug", "beaker")
        numbers = {
            label: [one.number for one in recognizer.snapshot().examples(label)]
            for label in recognizer.labels()
        }
        assert len({number for some in numbers.values() for number in some}) == 3 + 2 + 3
        assert recognizer.unlearn(numbers["beaker"][0]) == {"beaker": 1}
        assert recognizer.unlearn(numbers["key"][0]) == {"key": 1}
        assert recognizer.labels() == {"beaker": 1, "cup": 3, "key": 2}
        for _ in range(4):  # the last is a lesson in the old format
            recognizer.undo()
        assert recognizer.labels() == {"cup": 2, "key": 3, "mug": 2}
    assert check(path) == []


@pytest.mark.parametrize("seed", range(20))
def test_taking_one_back_never_takes_more_room_than_there_is(tmp_path: Path, seed: int) -> None:
    with made(tmp_path / "things.cbcl", radius=250.0, max_centroids=2) as recognizer:
        recognizer.learn("a", noise(6, seed))
        recognizer.learn("b", noise(2, seed, around=180))
        for example in recognizer.snapshot().examples("a")[:-1]:
            recognizer.unlearn(example.number)
            assert n_centroids(recognizer) <= 2
        assert recognizer.labels() == {"a": 1, "b": 2}


@pytest.mark.parametrize("options", [{}, {"radius": 200.0}])
def test_after_a_merge_a_label_is_learned_anew_from_the_examples_left(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with pair(tmp_path, COLOURS, **options) as (merged, never):
        merged.learn("a", noise(4, 0))
        merged.learn("b", noise(3, 1))
        merged.merge("a", into="b")
        for example in merged.snapshot().examples("b")[3:]:
            merged.unlearn(example.number)
        never.learn("b", noise(3, 1))
        assert known(merged) == known(never)


def test_a_limit_that_was_given_holds_for_what_is_taken_over(tmp_path: Path) -> None:
    with made(tmp_path / "a.cbcl", radius=0.0) as one:
        one.learn("cup", noise(5, 0))
        one.learn("key", noise(5, 1))
        with made(tmp_path / "b.cbcl", max_centroids=4) as other:
            other.adopt(one.path)
            assert n_centroids(other) == 4
            other.learn("pen", noise(3, 2))
            assert n_centroids(other) <= 4


def test_what_another_backbone_saw_is_not_taken_over_unless_none_was_given(tmp_path: Path) -> None:
    with Recognizer(tmp_path / "a.cbcl", "efficientnet-lite0-int8") as one:
        one.learn("cat", views("chelsea", 2))
    with Recognizer(tmp_path / "b.cbcl", "efficientnet-lite0") as other:
        with pytest.raises(BackboneError, match="they cannot be put together"):
            other.adopt(one.path)
        assert not other.path.exists()
    with Recognizer(tmp_path / "c.cbcl") as free:
        free.look(views("chelsea", 1))  # through the default, which it need not keep to
        free.adopt(one.path)
        assert free.recognize(views("chelsea", 1, seed=1)[0]).label == "cat"


def refuse_to_adopt(path: Path, head: Any, problem: str) -> None:
    """Adopt a memory that cannot be; nothing changes where other things are known."""
    with made(path.with_name("ours.cbcl"), head=head) as ours:
        ours.learn("key", noise(2, 1))
        with pytest.raises(MemoryFileError, match=problem):
            ours.adopt(path)
        assert (ours.labels(), ours.snapshot().revision) == ({"key": 2}, 1)


@pytest.mark.parametrize("label", ["unknown", "a\nb", "", "evil\u202e", "x" * 300, " cup "])
def test_labels_that_cannot_be_are_not_taken_over(tmp_path: Path, head: Any, label: str) -> None:
    with made(tmp_path / "bad.cbcl", head=head) as bad:
        bad.learn("cup", noise(2, 0))
        stored = bad._memory.load(bad._memory.view())["cup"]
        right = pack_class(label, stored, find_head(head))[-1]
        execute(bad.path, "UPDATE classes SET label = ?, checksum = ?", label, right)
    # The empty label is that of negatives, which are no label: then nothing is known.
    negatives = label == "" and head == "discriminant"
    refuse_to_adopt(bad.path, head, "knows nothing" if negatives else "not written by cbcl")


def test_more_examples_than_can_be_counted_are_refused(tmp_path: Path) -> None:
    with made(tmp_path / "bad.cbcl", head="vote") as bad:
        bad.learn("cup", noise(2, 0))
        rewrite(bad.path, "cup", counts=np.array([2**62], "<i8").tobytes())
    with made(bad.path) as bad, pytest.raises(MemoryFileError, match="contains invalid data"):
        bad.labels()


def test_only_a_new_or_private_memory_is_private(tmp_path: Path, head: Any) -> None:
    with made(tmp_path / "a.cbcl", head=head) as one:
        one.learn("cup", noise(2, 0))
        one.save_copy(tmp_path / "copy.cbcl")
        with made(tmp_path / "copy.cbcl", private=True, head=head) as copy:
            for use in (lambda: copy.adopt(one.path), lambda: copy.learn("key", noise(1, 1))):
                with pytest.raises(BackboneError, match=r"not begun as .* cannot become one"):
                    use()
        with made(tmp_path / "new.cbcl", private=True, head=head) as new:
            new.adopt(one.path)
            assert new.snapshot().examples("cup") == []


def test_looking_fits_nothing(tmp_path: Path) -> None:
    with Recognizer(tmp_path / "words.cbcl", "visual-words") as recognizer:
        with pytest.raises(
            BackboneError, match="made from the first pictures that are learned: learn some before"
        ):
            recognizer.look(noise(1, 0))
        recognizer.learn_many({name: views(name, 3) for name in NAMES[:2]})
        (seen,) = recognizer.look([views(NAMES[0], 1)[0]])
        assert recognizer.recognize(seen).ranking[0].label == NAMES[0]


def test_looking_sees_what_learning_sees_however_little_a_backbone_needs(tmp_path: Path) -> None:
    def sizes(pictures: Any) -> Any:
        return [[*picture.size] for picture in pictures]

    large = encoded(Image.fromarray(views(NAMES[0], 1)[0]).resize((1024, 1024)))
    with Recognizer(
        tmp_path / "sizes.cbcl", load_backbone(sizes, name="sizes", at_least=32)
    ) as recognizer:
        (seen,) = recognizer.look([large])
        assert seen.vector.tobytes() == recognizer.embed([large]).tobytes()


def test_a_copy_that_fails_leaves_nothing_and_one_that_succeeds_is_like_any_memory(
    tmp_path: Path, head: Any
) -> None:
    with made(tmp_path / "things.cbcl", head=head) as recognizer:
        with pytest.raises(MemoryFileError, match="does not exist: learn something first"):
            recognizer.save_copy(tmp_path / "copy.cbcl")
        for seed in range(20):  # whose rows leave free pages, as a copy has no history
            recognizer.learn("cup", noise(2, seed))
        with pytest.raises(MemoryFileError):
            recognizer.save_copy(tmp_path / "no such folder" / "copy.cbcl")
        recognizer.save_copy(tmp_path / "copy.cbcl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.cbcl", "things.cbcl"]
    assert execute(tmp_path / "copy.cbcl", "PRAGMA journal_mode") == [("wal",)]
    assert execute(tmp_path / "copy.cbcl", "PRAGMA freelist_count") == [(0,)]


def add_rows(path: Path, count: int, *, repeat: bool) -> None:
    """Let the first class have many examples: of one picture, or each of a picture of its own."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        row = "SELECT class, picture, centroid, rank FROM examples LIMIT 1"
        number, picture, *place = file.execute(row).fetchone()
        file.execute("BEGIN")
        for _ in range(count):
            if not repeat:
                added = file.execute(
                    "INSERT INTO pictures (jpeg, vector, checksum)"
                    " SELECT jpeg, vector, checksum FROM pictures WHERE picture = ?",
                    (picture,),
                )
                picture = added.lastrowid
            file.execute("INSERT INTO examples VALUES (?, ?, ?, ?)", (number, picture, *place))
        file.execute("COMMIT")


@pytest.mark.parametrize("repeat", [True, False])
def test_a_memory_with_more_pictures_than_any_keeps_is_refused_before_they_are_read(
    tmp_path: Path, head: Any, repeat: bool
) -> None:
    with made(tmp_path / "big.cbcl", head=head) as big:
        big.learn("cup", noise(3, 0))
    large = "jpeg = zeroblob(60000), checksum = checksum_of(zeroblob(60000), vector)"
    execute(tmp_path / "big.cbcl", f"UPDATE pictures SET {large} WHERE picture = 1")
    add_rows(tmp_path / "big.cbcl", 1000, repeat=repeat)
    tracemalloc.start()
    refuse_to_adopt(tmp_path / "big.cbcl", head, "more thumbnails of 'cup' than")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize("add", ["row", "copy of another label"])
def test_a_memory_that_repeats_a_picture_is_not_adopted(
    tmp_path: Path, head: Any, add: str
) -> None:
    with made(tmp_path / "bad.cbcl", head=head) as bad:
        bad.learn("cup", noise(3, 0))
        bad.learn("key", noise(3, 1))
    if add == "row":
        add_rows(bad.path, 1, repeat=True)
    else:
        execute(bad.path, "UPDATE examples SET picture = 1 WHERE picture = 6")
    with made(tmp_path / "new.cbcl", head=head) as new:
        with pytest.raises(MemoryFileError, match="repeats a picture"):
            new.adopt(bad.path)
        assert not new.path.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE examples SET centroid = 3 WHERE picture = 1", "invalid thumbnails of 'cup'"),
        ("UPDATE pictures SET jpeg = zeroblob(70000) WHERE picture = 1", "thumbnail"),
    ],
)
def test_a_thumbnail_that_cannot_be_is_not_adopted(
    tmp_path: Path, head: Any, change: str, message: str
) -> None:
    with made(tmp_path / "bad.cbcl", head=head) as bad:
        bad.learn("cup", noise(3, 0))
    for statement in (change, "UPDATE pictures SET checksum = checksum_of(jpeg, vector)"):
        execute(bad.path, statement)
    refuse_to_adopt(bad.path, head, message)


def test_backbones_are_compared_before_anything_is_read(tmp_path: Path, head: Any) -> None:
    with Recognizer(tmp_path / "other.cbcl", "identity", head=head) as other:
        other.learn("cup", np.eye(8)[:3])
    execute(other.path, "UPDATE classes SET checksum = x''")
    with made(tmp_path / "ours.cbcl", head=head) as ours:
        with pytest.raises(BackboneError):
            ours.adopt(other.path)
        ours.learn("key", noise(2, 1))
        with pytest.raises(BackboneError, match="cannot be put together"):
            ours.adopt(other.path)
