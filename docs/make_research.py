"""Draw the figures of docs/research.md, and write its table, from the records in study/results/."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from cbcl_study.experiments import PAIRS, SHOTS
from cbcl_study.learners import LOGISTIC, LOGISTIC_PENALTIES
from cbcl_study.records import read
from cbcl_study.report import aggregate, default
from cbcl_study.report.aggregate import Records, RunGroup
from cbcl_study.report.figures import Colour, CostPoint, draw_costs
from cbcl_study.report.rendering import STYLE
from cbcl_study.scores import Summary

ROOT = Path(__file__).parent.parent
RESULTS, FIGURES = ROOT / "study" / "results", ROOT / "docs" / "figures"
TONES = dict(re.findall(r"--(\w+):(#\w+)", STYLE.split("@media")[0]))  # of the light page
FAMILIES: dict[str, Colour] = {  # of backbones, by what their names begin with
    "efficientnet-lite0": "blue",
    "efficientnet-lite1": "green",
    "efficientnet-lite2": "purple",
}
SHAPES = ("o", "s", "D", "v", "^", "P", "X", "*")


def main() -> None:
    FIGURES.mkdir(exist_ok=True)
    runs = aggregate.deduplicate(read(RESULTS))
    page = ROOT / "docs" / "research.md"
    table = re.compile(r"(?<=<!-- penalties -->\n).*?(?=<!-- /penalties -->)", re.DOTALL)
    page.write_text(table.sub(lambda _: penalties(runs), page.read_text()))
    records = default.pick_penalties(runs)
    for name, shots in (("bytes", None), ("bytes-5-shots", 5)):
        save(name, default.draw_sizes(records, [shots]))
    if (RESULTS / "vectors.jsonl").exists():
        save("milliseconds", draw_milliseconds(5))


def penalties(records: Records) -> str:
    """Return the average of logistic regression under each penalty, the best in bold."""
    columns = [f"{penalty:g}" for penalty in LOGISTIC_PENALTIES]
    lines = [
        f"| data, pictures of each class | {' | '.join(columns)} |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for data, backbone in PAIRS.items():
        for shots in SHOTS:
            groups = [
                RunGroup(data, backbone, f"{LOGISTIC}-{column}", shots=shots) for column in columns
            ]
            means = [aggregate.mean_of(records, group, aggregate.average) for group in groups]
            most = max(mean.n for mean in means)
            best = max((mean.mean for mean in means if mean.n == most), default=math.nan)
            cells = [_cell(mean, most, best) for mean in means]
            lines.append(f"| {aggregate.DATA[data]}, {shots or 'all'} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(mean: Summary, most: int, best: float) -> str:
    text = aggregate.format_number(mean.mean)
    if mean.n == most and mean.mean == best:
        return f"**{text}**"
    return text if mean.n in (0, most) else f"{text} ({mean.n} orders)"


def draw_milliseconds(shots: int) -> list[str]:
    """Draw the accuracy of the default over the time of one photo, a panel a data set."""
    timed = defaultdict(list)
    for line in (RESULTS / "backbones.jsonl").read_text().splitlines():
        for result in json.loads(line)["results"]:
            timed[result["backbone"]].append(result["seconds"]["one"])
    seconds = {backbone: median(runs) for backbone, runs in timed.items()}
    lines = [json.loads(line) for line in (RESULTS / "vectors.jsonl").read_text().splitlines()]
    panels = []
    for data, title in aggregate.DATA.items():
        points: list[CostPoint] = []
        for line in lines:
            backbone = line["backbone"]
            if (line["data"], line["shots"]) == (data, shots) and backbone in seconds:
                family = "orange" if "+" in backbone else _family(backbone)
                shape = SHAPES[len(points) % len(SHAPES)]
                milliseconds, accuracy = 1e3 * seconds[backbone], 100.0 * line["average"]
                name = backbone.replace("efficientnet-", "")
                points.append(CostPoint(name, milliseconds, accuracy, family, shape))
        if points:
            points.sort(key=lambda point: point.cost)
            title = f"{title}, {shots} pictures of each class"
            panels.append(draw_costs(title, "milliseconds a photo", points))
    return panels


def _family(backbone: str) -> Colour:
    return next((tone for name, tone in FAMILIES.items() if backbone.startswith(name)), "ink")


def save(name: str, panels: Sequence[str]) -> None:
    """Write panels side by side, as an SVG that stands by itself, on white."""
    sizes = [
        [float(n) for n in box.split()] for box in re.findall(r'viewBox="([^"]*)"', "".join(panels))
    ]
    width, height = sum(size[2] for size in sizes), max(size[3] for size in sizes)
    parts, x = [], 0.0
    for panel, size in zip(panels, sizes, strict=True):
        place = f'<svg x="{x:g}" width="{size[2]:g}" height="{size[3]:g}" '
        parts.append(panel.replace("<svg ", place, 1))
        x += size[2]
    for tone, colour in TONES.items():
        parts = [part.replace(f"var(--{tone})", colour) for part in parts]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"'
    ground = f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>'
    text = f'{head} font-family="sans-serif">{ground}{"".join(parts)}</svg>\n'
    (FIGURES / f"{name}.svg").write_text(text)


if __name__ == "__main__":
    main()
