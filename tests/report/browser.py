"""What a real browser, Chromium without a window, sees of a page."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PHONE = 400  # CSS pixels
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def shown_in_a_browser(page: str, folder: Path) -> dict[str, Any]:
    """What headless Chromium sees of a page 400 pixels wide."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    script = """
        const errors = [];
        addEventListener("error", event => errors.push(event.message), true);
        addEventListener("load", () => {
          const inside = document.querySelector("iframe").contentDocument;
          const root = inside.documentElement;
          const wide = [...inside.querySelectorAll("body *")].filter(element =>
            !element.closest(".scroll > *, svg, .skip") &&
            element.getBoundingClientRect().right > root.clientWidth + 1);
          const sizes = [...inside.querySelectorAll("figure svg")].map(svg => {
            const box = svg.getBoundingClientRect();
            return Math.min(box.width, box.height);
          });
          document.body.textContent = "FOUND" + JSON.stringify({
            errors, width: root.clientWidth, scroll: root.scrollWidth,
            wide: wide.map(element => element.outerHTML.slice(0, 80)), sizes
          }) + "END";
        });
    """
    frame = (
        f"<script>{script}</script><iframe srcdoc='{html.escape(page, quote=True)}' "
        f"style='width:{PHONE}px;height:900px;border:0'></iframe>"
    )
    outer = folder / "outer.html"
    outer.write_text(f"<!doctype html><meta charset=utf-8><body>{frame}", encoding="utf-8")
    quiet = "sandbox no-first-run disable-gpu disable-quic disable-background-networking"
    switches = [f"--{name}" for name in quiet.replace("sandbox", "no-sandbox").split()]
    command = [
        *(browser, "--headless", *switches, "--disable-component-update", "--disable-sync"),
        *(f"--user-data-dir={folder / 'profile'}", "--window-size=800,1000"),
        *("--virtual-time-budget=2000", "--dump-dom", outer.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    match = re.search(r"FOUND(.*)END", html.unescape(done.stdout), flags=re.DOTALL)
    assert match is not None, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(match[1])
    return found
