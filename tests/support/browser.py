"""Headless Chromium, to open pages and look at them as a reader would.

`with browser() as page:` starts it; the fixture `page` of `conftest.py` keeps one for a module.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)

BROWSERS = ("chromium", "google-chrome", "chromium-browser")

INNER = ("data:", "blob:", "about:", "chrome-error:")
"""What a page asks of itself."""

IDLE = """
const done = arguments[arguments.length - 1]
const still = () => (window.Bokeh?.documents ?? []).every((document) => document.is_idle)
const look = () => still() ? requestAnimationFrame(() => requestAnimationFrame(() => done(true))) : setTimeout(look, 20)
look()
"""

TEXTS = """
const found = []
const windows = new Map()
function window_of(element) {
  if (element == null) return [-Infinity, Infinity]
  if (!windows.has(element)) {
    const [left, right] = window_of(element.assignedSlot ?? element.parentElement ?? element.getRootNode().host)
    const [from, to] = own_window(element)
    windows.set(element, [Math.max(left, from), Math.min(right, to)])
  }
  return windows.get(element)
}
function own_window(element) {
  const clip = element.getAttribute("clip-path")?.match(/#([^")]+)/)?.[1]
  if (clip != null) {
    const {x, width} = element.getRootNode().getElementById(clip).firstElementChild.getBBox()
    const start = element.ownerSVGElement.getBoundingClientRect().left + x
    return [start, start + width]
  }
  if (element instanceof SVGElement || ["visible", "auto"].includes(getComputedStyle(element).overflowX))
    return [-Infinity, Infinity]
  const {left, right} = element.getBoundingClientRect()
  return [left, right]
}
function shown(element) {
  const {fill, stroke, strokeOpacity} = getComputedStyle(element)
  const painted = !(element instanceof SVGElement) || fill != "none" || (stroke != "none" && strokeOpacity != "0")
  return painted && element.checkVisibility({opacityProperty: true, visibilityProperty: true})
}
function walk(root) {
  for (const node of root.childNodes) {
    if (node.nodeType == Node.TEXT_NODE) {
      const parent = node.parentElement ?? root.host
      if (!node.data.trim() || !shown(parent)) continue
      const range = document.createRange()
      range.selectNodeContents(node)
      const [from, to] = window_of(parent)
      for (const {left, top, right, bottom} of range.getClientRects())
        if (right > left && bottom > top)
          found.push({
            text: node.data.trim(), left, top: top + scrollY, right, bottom: bottom + scrollY,
            cut: left < from - 1 || right > to + 1,
          })
    } else if (node.nodeType == Node.ELEMENT_NODE && !["SCRIPT", "STYLE", "TITLE"].includes(node.tagName)) {
      if (node.shadowRoot) walk(node.shadowRoot)
      walk(node)
    }
  }
}
walk(document.body)
return found
"""


@dataclass(frozen=True)
class Text:
    """A line of visible text, and where on the page it is, in pixels."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    cut: bool
    """Whether something hides its beginning or end."""

    def meets(self, other: Text, slack: float) -> bool:
        """Whether two texts have more than `slack` pixels in common, both across and down."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across > slack and down > slack


class Page:
    """One tab of a browser."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self._url = ""
        self._errors: list[str] = []
        self._requests: list[str] = []

    def open(self, path: str | os.PathLike[str]) -> Page:
        """Open a file, or a URL, and wait till all is drawn; errors and requests count from here."""
        self.driver.get("about:blank")
        self._read_logs()
        self._errors, self._requests = [], []
        name = os.fspath(path)
        self._url = name if "://" in name else Path(name).resolve().as_uri()
        self.driver.get(self._url)
        return self.wait()

    def wait(self) -> Page:
        """Wait till Bokeh, if it is there, has nothing left to draw."""
        self.driver.execute_async_script(IDLE)
        return self

    def wait_for(self, js: str, seconds: float = 10) -> Page:
        """Wait till an expression in JavaScript is true."""
        end = time.monotonic() + seconds
        while not self.run(f"return Boolean({js})"):
            assert time.monotonic() < end, f"{js} is not true after {seconds} s"
            time.sleep(0.02)
        return self

    def size(self, width: int, height: int = 900) -> Page:
        """Give the page a size in pixels, however narrow."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", metrics)
        return self.wait()

    def run(self, js: str, *arguments: Any) -> Any:
        """What JavaScript returns: the body of a function, whose arguments are `arguments`."""
        return self.driver.execute_script(js, *arguments)

    def errors(self) -> list[str]:
        """What the console has told since `open`, errors and warnings; refused by the content policy among them."""
        self._read_logs()
        return list(self._errors)

    def requests(self) -> list[str]:
        """What was asked for since `open`, from any place, the page itself apart."""
        self._read_logs()
        return list(self._requests)

    def screenshot(self, path: str | os.PathLike[str], whole: bool = True) -> None:
        """Save what is seen as PNG; the whole page, or the window."""
        options: dict[str, Any] = {"format": "png"}
        if whole:
            size = self._command("Page.getLayoutMetrics", {})["cssContentSize"]
            options |= {"captureBeyondViewport": True, "clip": {**size, "scale": 1}}
        Path(path).write_bytes(b64decode(self._command("Page.captureScreenshot", options)["data"]))

    def hover(self, x: float, y: float) -> Page:
        """Move the mouse to a place of the window."""
        self._command("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
        return self.wait()

    def texts(self) -> list[Text]:
        """All lines of visible text, those inside shadow roots and SVG among them."""
        return [Text(**found) for found in self.run(TEXTS)]

    def overlaps(self, slack: float = 1.0) -> list[tuple[str, str]]:
        """Pairs of visible texts that lie upon each other."""
        texts = sorted(self.texts(), key=lambda text: text.top)
        found = []
        for place, text in enumerate(texts):
            for other in texts[place + 1 :]:
                if other.top >= text.bottom:
                    break
                if text.meets(other, slack):
                    found.append((text.text, other.text))
        return found

    def sticking_out(self) -> list[str]:
        """Texts that are cut off or lie beyond the left or right edge; `"the page"` if it must be scrolled sideways."""
        width = self.run("return document.documentElement.clientWidth")
        wide = self.run("return document.documentElement.scrollWidth") > width
        texts = [text.text for text in self.texts() if text.cut or text.left < -1 or text.right > width + 1]
        return texts + ["the page"] * wide

    def _command(self, name: str, options: dict[str, Any]) -> Any:
        return self.driver.execute_cdp_cmd(name, options)

    def _read_logs(self) -> None:
        """Take what the browser has logged, which it tells once."""
        for entry in self.driver.get_log("browser"):  # type: ignore[no-untyped-call]
            if entry["level"] in ("SEVERE", "WARNING"):
                self._errors.append(entry["message"])
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if url != self._url and not url.startswith(INNER):
                    self._requests.append(url)


def missing_browser() -> str:
    """What is not installed and needed, in words; empty if all is there."""
    wanted = {"chromium": BROWSERS, "chromedriver": ("chromedriver",)}
    absent = [name for name, commands in wanted.items() if not any(map(shutil.which, commands))]
    return f"{' and '.join(absent)} not on the PATH" if absent else ""


@contextmanager
def browser(width: int = 1280, height: int = 900) -> Iterator[Page]:
    """A page in a new browser, which ends with the block."""
    profile = tempfile.mkdtemp(prefix="browser-")
    options = ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_script_timeout(120)
        yield Page(driver).size(width, height)
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)
