#!/usr/bin/env python3
"""Opens report pages in Chromium and uses them as a reader does, on a desktop and on a phone, in light and in dark.

    scripts/pages.py [--pictures FOLDER] [--axe FILE] PAGE.html …

Each page: no error in the console, nothing wider than the window, no words of a chart on others, no caption cut off, a pointer
shows values, no chart is enlarged to the page's width, no table is wider than a page on a desktop, dragging zooms all charts of a
trial, names switch lines, headings sort, a trial is laid over another, a link to a folded chart opens it, and a saved CSV has the
page's values. With axe-core (`scripts/need.sh axe` fetches it): no finding that it calls serious or critical for accessibility.
Exits with 1 if a check fails. Needs Chromium and Python's standard library.
"""

import argparse
import base64
import csv
import io
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

SIZES = {1400: 900, 390: 860}
AXE = pathlib.Path(__file__).parents[1] / "target/tools/axe/node_modules/axe-core/axe.min.js"
GRAVE = ("serious", "critical")


class Browser:
    """A tab of Chromium, controlled by its DevTools protocol over a WebSocket (RFC 6455)."""

    def __init__(self):
        program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if program is None:
            sys.exit("pages: no Chromium: apt-get install chromium")
        self.profile = tempfile.mkdtemp(prefix="plimsoll-pages-")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"]
        self.process = subprocess.Popen(
            [program, *options, f"--user-data-dir={self.profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        port = self.port()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as answer:
            path = next(tab for tab in json.load(answer) if tab["type"] == "page")["webSocketDebuggerUrl"]
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        path = path.split(str(port), 1)[1]
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.bytes = self.socket.makefile("rb")
        while self.bytes.readline().strip():
            pass
        self.number = 0
        self.events = []
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def port(self):
        file = pathlib.Path(self.profile) / "DevToolsActivePort"
        until = time.monotonic() + 60
        while time.monotonic() < until:
            lines = file.read_text().split() if file.exists() else []
            if len(lines) > 1:
                return int(lines[0])
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit("pages: Chromium does not start")

    def send(self, text):
        data = text.encode()
        size = len(data)
        head = bytes([0x81, 0x80 | size]) if size < 126 else (
            bytes([0x81, 0xFE]) + struct.pack(">H", size) if size < 65536 else bytes([0x81, 0xFF]) + struct.pack(">Q", size)
        )
        # A mask of zeros is allowed.
        self.socket.sendall(head + bytes(4) + data)

    def receive(self):
        message = b""
        while True:
            first, second = self.bytes.read(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", self.bytes.read(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self.bytes.read(8))
            message += self.bytes.read(size)
            if first & 0x80:
                return json.loads(message)

    def ask(self, method, **parameters):
        self.number += 1
        self.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def run(self, script):
        """Returns the value of a script. Waits for a promise."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description", script))
        return found["result"].get("value")

    def open(self, page, width, dark):
        self.events.clear()
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=SIZES[width], deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=page.resolve().as_uri())
        until = time.monotonic() + 60
        while self.run("document.readyState") != "complete" or self.run("location.href") == "about:blank":
            if time.monotonic() > until:
                raise RuntimeError("the page does not load")
            time.sleep(0.02)

    def errors(self):
        self.run("0")
        words = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                words.append(event["params"]["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                words.append(event["params"]["entry"]["text"])
        return words

    def pointer(self, kind, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def picture(self, file):
        whole = self.run("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": whole[0], "height": min(whole[1], 16_000), "scale": 1}
        shot = self.ask("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)


def moments(lines):
    """Returns the times of each line, as packed in the page's data."""
    found, before = [], []
    for line in lines:
        if "x" in line:
            before = line["x"]
        if "s" in line:
            steps, before = 0, []
            for index in range(len(line["y"])):
                steps += line["d"][index] if "d" in line else min(index, 1)
                before.append(line["s"][0] + steps * line["s"][1])
        found.append(before)
    return found


def saved_is_drawn(browser, figure):
    """Checks that the CSV that a chart saves has exactly the chart's values."""
    text = browser.run(
        """(async () => {
          let blob; const real = URL.createObjectURL;
          URL.createObjectURL = (given) => { blob = given; return real(given); };
          HTMLAnchorElement.prototype.click = () => {};
          document.getElementById(%s).querySelector('[data-save=csv]').dispatchEvent(new MouseEvent('click', { cancelable: true }));
          return blob.text();
        })()"""
        % json.dumps(figure)
    )
    chart = browser.run(f"JSON.parse(document.getElementById('data').textContent)[{json.dumps(figure)}]")
    rows = list(csv.reader(io.StringIO(text)))
    wanted = {}
    for index, (line, at) in enumerate(zip(chart["lines"], moments(chart["lines"]))):
        for moment, value in zip(at, line["y"]):
            if value is not None:
                place = chart["names"][int(moment)] if "names" in chart else round(moment, 6)
                wanted[(place, index)] = value
    got = {}
    for row in rows[1:]:
        place = row[0] if "names" in chart else round(float(row[0]), 6)
        for index, value in enumerate(row[1:]):
            if value:
                got[(place, index)] = float(value)
    return len(rows[0]) == len(chart["lines"]) + 1 and got == wanted


def used(browser):
    """Returns the controls of the page that do not work. Each check is a script in the page."""
    wrong = []
    hold = lambda ok, words: ok or wrong.append(words)
    chart = browser.run(
        """(() => { const all = [...document.querySelectorAll('figure[data-hover]')].filter((one) => one.offsetParent !== null);
          const one = all.find((one) => one.querySelector('.entry') && !JSON.parse(document.getElementById('data').textContent)[one.id].names);
          if (!one) return null;
          one.scrollIntoView({ block: 'center' });
          const chart = JSON.parse(document.getElementById('data').textContent)[one.id];
          const box = one.querySelector('.sheet > svg').getBoundingClientRect();
          const panel = chart.panels.find((panel) => panel); const scale = box.width / chart.width;
          const [low, high] = panel.y.slice(2);
          return { id: one.id, x: box.x + chart.left * box.width, y: box.y + scale * (low + high) / 2,
            width: (chart.right - chart.left) * box.width }; })()"""
    )
    if chart:
        one = f"document.getElementById({json.dumps(chart['id'])})"
        x, y, width = chart["x"], chart["y"], chart["width"]
        browser.pointer("mouseMoved", x + width / 2, y)
        hold(browser.run(f"!{one}.querySelector('.readout').hidden"), "a pointer shows no values")
        ticks = browser.run(f"{one}.querySelector('.ticks.x').textContent")
        browser.pointer("mousePressed", x + width * 0.3, y, button="left", buttons=1, clickCount=1)
        for share in (0.4, 0.5, 0.6):
            browser.pointer("mouseMoved", x + width * share, y, button="left", buttons=1)
        browser.pointer("mouseReleased", x + width * 0.6, y, button="left", clickCount=1)
        hold(browser.run(f"{one}.classList.contains('zoomed')"), "dragging does not zoom")
        hold(browser.run(f"{one}.querySelector('.ticks.x').textContent") != ticks, "a zoom leaves the ticks as they were")
        share = browser.run(f"(() => {{ const b = {one}.querySelector('.plot').viewBox.baseVal, w = {one}.querySelector('.plot').getAttribute('width'); return b.width / w; }})()")
        hold(0.2 < share < 0.4, f"a zoom onto 30 % shows {share}")
        browser.run(f"{one}.querySelector('.whole').click()")
        hold(browser.run(f"!{one}.classList.contains('zoomed')"), "a zoom does not go back")
        hold(browser.run(f"{one}.querySelector('.ticks.x').textContent") == ticks, "the ticks do not come back")
        for clicks in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                browser.pointer(kind, x + width / 2, y, button="left", clickCount=clicks)
        hold(browser.run(f"{one}.classList.contains('zoomed')"), "two clicks do not zoom")
        browser.run(f"{one}.querySelector('.whole').click()")
        hidden = browser.run(
            f"""(() => {{ const entry = {one}.querySelector('.entry');
              entry.dispatchEvent(new MouseEvent('click', {{ bubbles: true }}));
              const line = {one}.querySelector(`.plot [data-line="${{entry.dataset.line.split(' ')[0]}}"]`);
              const off = getComputedStyle(line).display;
              entry.dispatchEvent(new MouseEvent('click', {{ bubbles: true }}));
              return off + ' ' + getComputedStyle(line).display; }})()"""
        )
        hold(hidden.startswith("none ") and not hidden.endswith("none"), f"a name does not switch its line: {hidden}")
    sorted_too = browser.run(
        """(() => { const head = [...document.querySelectorAll('th.sortable')].find((one) => one.classList.contains('n'));
          if (!head) return true;
          const body = head.closest("table").tBodies[0]; const rows = () => [...body.rows].map((row) => row.textContent).join(); const before = rows();
          head.click(); const up = head.getAttribute('aria-sort'); head.click(); const down = head.getAttribute('aria-sort'); head.click();
          return up === 'ascending' && down === 'descending' && rows() === before; })()"""
    )
    hold(sorted_too, "a heading does not sort")
    laid = browser.run(
        """(() => { const picks = [...document.querySelectorAll('.picker [data-pick]')];
          if (picks.length < 2) return true;
          picks[1].click(); const shown = [...document.querySelectorAll('.trial')].filter((one) => one.offsetParent !== null);
          if (shown.length !== 1 || shown[0].dataset.trial !== picks[1].dataset.pick) return false;
          document.querySelector('.overlay').click(); picks[0].click();
          const ghosts = shown[0].querySelectorAll('.ghost').length;
          document.querySelector('.overlay').click();
          const none = shown[0].querySelectorAll('.ghost').length;
          picks[0].click();
          return ghosts > 2 && none === 0; })()"""
    )
    hold(laid, "trials are not picked and laid over each other")
    for figure in browser.run("[...document.querySelectorAll('figure[data-hover]')].slice(0, 12).map((one) => one.id)"):
        hold(saved_is_drawn(browser, figure), f"the CSV of {figure} is not what is drawn")
    return wrong


def laid_out(browser):
    """Returns unreadable text: chart labels that overlap or leave the chart, and cut captions."""
    return browser.run(
        """(() => {
          const found = [];
          const folds = [...document.querySelectorAll('details')].filter((one) => !one.open);
          const unpicked = [...document.querySelectorAll('.unpicked')];
          folds.forEach((one) => { one.open = true; });
          unpicked.forEach((one) => one.classList.remove('unpicked'));
          for (const figure of document.querySelectorAll('figure.chart')) {
            const sheet = figure.querySelector('.sheet > svg');
            const paper = sheet.getBoundingClientRect();
            const box = (one) => [one.closest('.entry') && !one.matches('text') ? `swatch of ${one.parentNode.textContent}` : one.textContent, one.getBoundingClientRect()];
            const all = [...sheet.querySelectorAll('text, .entry > path, .entry > rect')].map(box);
            all.forEach(([words, a], index) => {
              if (a.right > paper.right + 3 || a.left < paper.left - 3) found.push(`${figure.id}: "${words}" sticks out`);
              all.slice(index + 1).forEach(([other, b]) => {
                const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                // The box of a text has room for accents.
                if (wide > 0 && high > 4) found.push(`${figure.id}: "${words}" lies on "${other}"`);
              });
            });
            const note = figure.querySelector('.about');
            if (note && getComputedStyle(note).textOverflow === 'ellipsis') found.push(`${figure.id}: its caption is cut off`);
          }
          const enlarged = [...document.querySelectorAll('.chart[data-hover] .sheet > svg')].find((one) => one.getBoundingClientRect().width > 700);
          if (enlarged) found.unshift(`${enlarged.closest('figure').id}: ${Math.round(enlarged.getBoundingClientRect().width)} px wide`);
          if (innerWidth > 1000) {
            const wide = [...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1);
            wide.forEach((one) => found.unshift(`the table "${one.getAttribute('aria-label')}" is ${one.scrollWidth} px wide, its place ${one.clientWidth}`));
          }
          folds.forEach((one) => { one.open = false; });
          unpicked.forEach((one) => one.classList.add('unpicked'));
          return found.slice(0, 5);
        })()"""
    )


def linked(browser):
    """Checks that a link to the last hidden chart works: a folded one, or one of a trial that is not selected."""
    return browser.run(
        """(async () => {
          const hidden = [...document.querySelectorAll('figure.chart')].filter((one) => !one.checkVisibility());
          const one = hidden[hidden.length - 1];
          if (!one) return true;
          const moved = new Promise((done) => window.addEventListener('hashchange', () => setTimeout(done), { once: true }));
          location.hash = one.id;
          await moved;
          const top = one.getBoundingClientRect().top;
          return one.checkVisibility() && top >= 0 && top < innerHeight;
        })()"""
    )


def barriers(browser, axe):
    """Returns the serious problems that axe-core finds with everything unfolded."""
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.run(axe + "; 0")
    found = browser.run(
        "axe.run(document, { resultTypes: ['violations'] }).then((all) => all.violations.map((one) => "
        "[one.impact, one.id, one.nodes.length, one.nodes[0].target.join(' '), one.help]))"
    )
    return [f"{count} of {rule} ({impact}): {words}; the first: {where}" for impact, rule, count, where, words in found if impact in GRAVE]


def looked_at(browser, page, pictures, axe):
    """Returns the problems of a page. Prints its length and its size."""
    wrong, heights = [], {}
    for width in SIZES:
        for dark in (False, True):
            browser.open(page, width, dark)
            heights[width] = browser.run("document.documentElement.scrollHeight")
            wide = browser.run("document.documentElement.scrollWidth")
            if wide > width:
                out = browser.run(
                    f"[...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > {width} + 1 "
                    "&& !one.closest('.scroll, svg, .bar, pre')).slice(0, 3).map((one) => one.tagName + '.' + one.className).join(', ')"
                )
                wrong.append(f"at {width} px it is {wide} px wide: {out}")
            if pictures:
                browser.picture(pictures / f"{page.stem}-{width}-{'dark' if dark else 'light'}.png")
            if not dark:
                wrong += [f"at {width} px {words}" for words in laid_out(browser)]
                wrong += [f"at {width} px {words}" for words in used(browser)]
                if not linked(browser):
                    wrong.append(f"at {width} px a link to a folded chart does not lead to it")
            if axe:
                wrong += [f"at {width} px, {'dark' if dark else 'light'}: {words}" for words in barriers(browser, axe)]
            wrong += [f"at {width} px the console says: {words}" for words in browser.errors()]
    kb = page.stat().st_size / 1000
    print(f"{page}: {heights[1400]} px long at 1400, {heights[390]} px at 390; {kb:.0f} kB; {'WRONG' if wrong else 'ok'}")
    for words in wrong:
        print(f"  {words}")
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=pathlib.Path, metavar="PAGE.html")
    parser.add_argument("--pictures", type=pathlib.Path, help="folder for pictures of the whole pages")
    parser.add_argument("--axe", type=pathlib.Path, default=AXE, help="axe.min.js of axe-core")
    given = parser.parse_args()
    axe = given.axe.read_text() if given.axe.exists() else ""
    if not axe:
        print(f"no {given.axe}: accessibility was not checked")
    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
    browser = Browser()
    try:
        right = [looked_at(browser, page, given.pictures, axe) for page in given.pages]
    finally:
        browser.close()
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
