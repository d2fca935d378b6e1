"""Ten handwritten digits, learned two at a time from five examples each, while every example seen before is gone.

Run it with `make demo`. The data, 1,797 scanned digits of 8 x 8 pixels, comes with scikit-learn.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_digits

from cbcl import CBCLClassifier

SHOTS = 5
PER_INCREMENT = 2
SEED = 0


def main() -> None:
    console = Console()
    pixels, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(SEED)
    order = rng.permutation(10)
    shots = {digit: rng.choice(np.flatnonzero(digits == digit), SHOTS, replace=False) for digit in order}
    test = np.setdiff1d(np.arange(len(digits)), np.concatenate(list(shots.values())))

    learner = CBCLClassifier()
    increments = [order[start : start + PER_INCREMENT] for start in range(0, len(order), PER_INCREMENT)]
    lines = []
    for new in track(increments, description="learning", console=console, transient=True):
        rows = np.concatenate([shots[digit] for digit in new])
        learner.partial_fit(pixels[rows], digits[rows])
        seen = test[np.isin(digits[test], learner.classes_)]
        right = learner.predict(pixels[seen]) == digits[seen]
        of_new = np.isin(digits[seen], new)
        first = np.isin(digits[seen], increments[0])
        lines.append(
            f"{' and '.join(map(str, sorted(new.tolist()))):>7}   {len(learner.classes_):>7}   {right.mean():>8.1%}"
            f"   {right[of_new].mean():>8.1%}   {right[first].mean():>9.1%}   {learner.n_centroids_:>9}"
        )
    console.print(
        f"{SHOTS} examples of each digit, {PER_INCREMENT} new digits at a time, {len(test)} others to test on"
    )
    console.print("learned   classes   accuracy   of these   of the 1st   centroids")
    console.print("\n".join(lines), highlight=False)
    forgotten = int(order[-1])
    before = dict(learner.concepts_)
    after = learner.forget(forgotten).concepts_
    same = all(np.array_equal(before[digit].centroids, concepts.centroids) for digit, concepts in after.items())
    console.print(
        f"forgot {forgotten}: {len(after)} classes left, every bit of them unchanged: {same}", highlight=False
    )


if __name__ == "__main__":
    main()
