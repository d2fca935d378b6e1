"""A camera that shows pictures of the test's choice, in a hand that is not quite steady."""

from __future__ import annotations

import base64
from pathlib import Path

from playwright.sync_api import Page, expect

SCRIPTED_CAMERA = """
if (navigator.mediaDevices) {
  let scene = null;
  let sway = 0;
  let seed = 1;
  const chance = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  navigator.mediaDevices.getUserMedia = async () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [640, 480];
    const context = canvas.getContext("2d");
    setInterval(() => {
      if (!scene) return;
      context.filter = `brightness(${0.98 + chance() * 0.04})`;
      const [x, y] = [chance() * sway, chance() * sway];
      const [width, height] = [scene.width - sway, scene.height - sway];
      context.drawImage(scene, x, y, width, height, 0, 0, 640, 480);
    }, 50);
    return canvas.captureStream();
  };
  window.showScene = async (data, pixels) => {
    const bytes = Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0));
    scene = await createImageBitmap(new Blob([bytes]));
    sway = pixels;
    await new Promise((done) => setTimeout(done, 150));
  };
}
"""


def show(page: Page, photo: Path, sway: int = 8) -> None:
    """Let the camera see a photo from now on, in a hand that sways by so many pixels."""
    data = base64.b64encode(photo.read_bytes()).decode()
    page.evaluate("([data, sway]) => window.showScene(data, sway)", [data, sway])


def turn_on(page: Page, photo: Path) -> None:
    """Turn the camera on, before a photo."""
    show(page, photo)
    page.get_by_role("button", name="Turn on camera").click()
    expect(page.locator("#camera")).to_have_attribute("data-state", "on")
