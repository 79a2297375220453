"""Chromium as the reader of the chat page, and the server behind it."""

import contextlib
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

MODEL = pathlib.Path(__file__).resolve().parents[3] / "shared/data/stories260K.gguf"


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


try:
    from axe_selenium_python import Axe
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError as missing:
    skip(f"{missing.name} is not installed")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, program, *options, port=None):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [program, "serve", str(MODEL), "--port", str(self.port), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(300):
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(self.url + "/ready", timeout=1).status == 200:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit("the server did not become ready")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


class Page:
    def __init__(self, folder):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.add_experimental_option("prefs", {"download.default_directory": folder})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(30)
        self.folder = pathlib.Path(folder)
        self.size(1280, 800)
        self.scheme("light")

    def size(self, width, height):
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        )

    def scheme(self, value):
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": value}]}
        )

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, what, condition, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(Exception):  # an element may be replaced while it is looked at
                value = condition()
                if value:
                    return value
            time.sleep(0.03)
        raise AssertionError(f"waited {seconds} s for: {what}")

    def texts(self, role):
        return [node.text for node in self.all(f"#log .{role} .body")]

    def idle(self):
        self.until("the answer's end", lambda: self.one("#send").is_displayed())

    def ask(self, text, waits=True):
        self.one("#input").send_keys(text, Keys.ENTER)
        self.until("the message in the log", lambda: self.texts("user")[-1] == text)
        if waits:
            self.idle()

    def open(self, title):
        self.run(
            """for (const one of document.querySelectorAll('#list .open'))
                 if (one.querySelector('.title').textContent === arguments[0]) one.click();""",
            title,
        )
        self.until(title, lambda: self.one("#title").text == title)

    def menu(self, what):
        self.one("#more").click()
        self.until("the menu", lambda: self.one(f"#menu [data-do={what}]").is_displayed())
        self.one(f"#menu [data-do={what}]").click()

    def set(self, **values):
        self.one("#open-settings").click()
        for name, value in values.items():
            field = self.one("#" + name.replace("_", "-", 1))
            field.clear()
            field.send_keys(value)
        self.one("#settings [value=save]").click()

    def downloaded(self, name):
        path = self.folder / name
        self.until(name, path.exists)
        text = path.read_text()
        path.unlink()
        return text

    def take_in(self, tree):
        path = self.folder / "import.json"
        path.write_text(json.dumps(tree) if not isinstance(tree, str) else tree)
        self.one("#file").send_keys(str(path))

    def check_accessibility(self, state):
        axe = Axe(self.driver)
        axe.inject()
        found = axe.run()["violations"]
        assert not found, (
            state,
            [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found],
        )

    def check_console(self, allowed=None):
        lines = [entry["message"] for entry in self.driver.get_log("browser")]
        lines = [line for line in lines if not (allowed and re.search(allowed, line))]
        assert not lines, lines
