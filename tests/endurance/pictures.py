"""Pictures: every format, mutated; the memory and the seconds that each takes."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator

from PIL import Image

from cbcl.errors import PictureError
from cbcl.vision.decoding import MAX_DECODING_SECONDS, ORDINARY_BYTES, load
from cbcl.vision.decoding_budget import MAX_DECODED_BYTES
from cbcl.vision.extraction import embed_pictures
from cbcl_study.backbones.pixels import PIXELS
from endurance.mutation import edited_bytes, rearranged
from endurance.picture_seeds import seeds
from endurance.trial import Attack, Outcome, Trial
from endurance.workers import MB, Batch, Input, Limits, attack_in_workers, wants_memory

LIMITS = Limits((MAX_DECODED_BYTES + ORDINARY_BYTES) / MB, MAX_DECODING_SECONDS)
BATCH = 1000
WHOLE_WAY = 10  # of so many pictures one goes all the way to its vector and its thumbnail
SIDES = (8, 48, 224, 336)  # that a backbone may ask the decoder for


def read_picture(data: bytes, number: int) -> str:
    """Read a picture as the recognizer does; refuse nothing but in a sentence."""
    try:
        if number % WHOLE_WAY:
            picture = load(data, "the picture", SIDES[number % len(SIDES)])
            if picture.mode != "RGB" or 0 in picture.size:
                raise AssertionError(f"it is a picture of {picture.mode} {picture.size}")
            picture.getpixel((0, 0))
        else:
            (result,) = embed_pictures(PIXELS, [data], thumbnails=[0])
            if isinstance(result, PictureError):
                raise result
            if len(result.vector) != PIXELS.dimension or not result.jpeg.startswith(b"\xff\xd8"):
                raise AssertionError("its vector or its thumbnail is not whole")
    except PictureError as error:
        if wants_memory(error.__cause__):
            raise AssertionError(f"it asks for more memory than there is: {error}") from error
        if "\n" in str(error) or not str(error).endswith("."):
            raise AssertionError(f"it is refused in no sentence: {error!r}") from error
        return "refused"
    return "read"


class MutatedPictures:
    """Pictures of one format a batch, each mutated by random numbers of its own."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def inputs(self, batch: Batch) -> Iterator[Input]:
        warnings.simplefilter("ignore")  # Pillow's, about what is odd in a file
        originals = seeds()[batch.kind]
        for number in range(batch.start, batch.stop):
            rng = random.Random(f"{self.seed} {batch.kind} {number}")
            if number < len(originals):
                data = originals[number]
            elif rng.random() < 0.5:
                data = edited_bytes(rng.choice(originals), originals, rng)
            else:
                data = rearranged(batch.kind, rng.choice(originals), originals, rng)
            yield Input(f"seed {self.seed}, {batch.kind} {number}", data)

    def examine(self, batch: Batch, given: Input) -> str:
        number = int(given.name.rpartition(" ")[2])
        came = read_picture(given.data, number)
        is_original = batch.kind != "others" and number < len(seeds()[batch.kind])
        if is_original and came == "refused" and not given.data.startswith((b"PyP", b"P7")):
            raise AssertionError("a valid picture is refused")
        return came


def mutate_pictures(attack: Attack) -> Outcome:
    """Mutate pictures of each format, equally many."""
    Image.init()
    kinds = [*seeds()]
    batches = []
    for start in range(0, attack.count, BATCH * len(kinds)):
        size = min(BATCH, -(-(attack.count - start) // len(kinds)))
        first = start // len(kinds)
        batches += [Batch(kind, first, first + size) for kind in kinds]
    return attack_in_workers(attack, MutatedPictures(attack.seed), batches, LIMITS)


TRIALS: tuple[Trial, ...] = (Trial("mutated pictures", "pictures", 8000, 500_000, mutate_pictures),)
