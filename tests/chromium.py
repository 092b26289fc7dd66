"""A real Chromium without a head, driven over its debugging pipe: no driver, no port, no network."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--remote-debugging-pipe",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
)
KEYS = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36}


def find_chromium() -> str | None:
    """The path of a Chromium: RAE_CHROMIUM, else one of the usual names on PATH; None if there is none."""
    return os.environ.get("RAE_CHROMIUM") or next((p for n in NAMES if (p := shutil.which(n))), None)


class Chromium:
    """One tab, driven by keyboard and mouse; `errors` and `requests` record what it logs and fetches."""

    def __init__(self, program: str, *, width: int = 1366, height: int = 768, dark: bool = False, flags=()) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="rae-chromium-"))
        self.downloads = self.home / "downloads"
        self.downloads.mkdir()
        to_browser, from_browser = os.pipe(), os.pipe()

        def connect_pipes() -> None:  # Chromium reads from 3 and writes to 4
            os.dup2(to_browser[0], 103)
            os.dup2(from_browser[1], 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, *flags, f"--user-data-dir={self.home}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=connect_pipes,
            close_fds=False,
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        self._to, self._from, self._left = to_browser[1], from_browser[0], b""
        self._number = 0
        self.session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        wishes = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[{"name": n, "value": v} for n, v in wishes.items()])
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(20)
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self.home, ignore_errors=True)

    # --------------------------------------------------------------------------- the pipe

    def call(self, method: str, **params: Any) -> Any:
        """The result of one command; events that come before it are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self.session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            answer = self._next(60)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _next(self, seconds: float) -> dict[str, Any]:
        while b"\0" not in self._left:
            if not select.select([self._from], [], [], seconds)[0]:
                raise TimeoutError("Chromium does not answer")
            more = os.read(self._from, 1 << 20)
            if not more:
                raise RuntimeError("Chromium has ended")
            self._left += more
        first, _, self._left = self._left.partition(b"\0")
        return json.loads(first)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"].get("exception", params).get("description", params)))
        elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a)) for a in params["args"]))
        elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    # --------------------------------------------------------------------------- the page

    def open(self, page: Path | str) -> None:
        """Load the page and wait until it says that it is ready."""
        address = page if isinstance(page, str) else page.resolve().as_uri()
        self.call("Page.navigate", url=address)
        self.until("document.documentElement?.dataset.ready === 'yes'")

    def forget(self) -> None:
        """Start anew: nothing logged, nothing fetched, nothing saved."""
        self.call("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank'")
        self.errors.clear()
        self.requests.clear()
        for file in self.downloads.iterdir():
            file.unlink()

    def value(self, script: str) -> Any:
        """What a line of JavaScript comes to."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", script))
        return answer["result"].get("value")

    def until(self, script: str, seconds: float = 60) -> None:
        """Wait until a line of JavaScript is true."""
        end = time.monotonic() + seconds
        while not self.value(script):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {script}; errors: {self.errors}")
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        return str(self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def count(self, selector: str) -> int:
        return int(self.value(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def click(self, selector: str) -> None:
        """Click the middle of an element with the mouse."""
        script = """(s => { const e = document.querySelector(s); e.scrollIntoView({block: "center"});
            const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })"""
        x, y = self.value(f"{script}({json.dumps(selector)})")
        self.click_at(x, y)

    def click_at(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, buttons=0 if kind != "mousePressed" else 1)

    def mouse(self, kind: str, x: float, y: float, *, buttons: int = 0, shift: bool = False) -> None:
        button = {} if kind == "mouseMoved" and not buttons else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, buttons=buttons, modifiers=8 * shift, **button)

    def press(self, key: str) -> None:
        more = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = {"windowsVirtualKeyCode": KEYS[key]} if key in KEYS else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **more, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def download(self, ending: str, seconds: float = 20) -> Path:
        """The file that was saved last with this ending, once it is whole."""
        end = time.monotonic() + seconds
        while not (files := list(self.downloads.glob(f"*{ending}"))):
            self.value("1")
            if time.monotonic() > end:
                raise TimeoutError(f"nothing ending in {ending} was saved: {list(self.downloads.iterdir())}")
            time.sleep(0.05)
        return files[0]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
