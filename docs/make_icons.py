"""Draw the icons of the home screen from icon.svg, in the browser of the tests.

The corners are filled: a phone cuts its own shape out of them (maskable).
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

STATIC = Path(__file__).parents[1] / "src" / "cbcl" / "web" / "static"
SIDES = (192, 512)
COLOURS = 32
SAFE = 0.8  # of the side, which every phone shows


def main() -> None:
    """Write icon-192.png and icon-512.png."""
    drawing = (STATIC / "icon.svg").read_text().replace(' rx="8"', "")
    body, _, _ = drawing.partition("<rect")
    inside = drawing[len(body) :].removesuffix("</svg>\n").replace("</svg>", "")
    rect, _, rest = inside.partition("/>")
    scaled = f'{rect}/><g transform="translate(16 16) scale({SAFE}) translate(-16 -16)">{rest}</g>'
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for side in SIDES:
            page = browser.new_page(viewport={"width": side, "height": side})
            page.set_content(
                f"<style>body{{margin:0}}svg{{display:block}}</style>{body}{scaled}</svg>"
            )
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
            picture.save(STATIC / f"icon-{side}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
