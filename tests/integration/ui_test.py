#!/usr/bin/env python3
"""The page /ui of a coordinator: shards, a job, its clients, and a problem once a shard is killed; it is read only, and asks for
itself anew, as a browser shows where one is."""
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

from waiting import until

BIN = os.environ["PACELINE_BIN"]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
WAIT = 60


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Page(HTMLParser):
    """Tables by their headings, as rows of texts, and whether elements are nested as they should be."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tables, self.heading, self.text = [], {}, "", ""
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        if tag != "meta":
            self.open.append(tag)
        self.text = ""
        if tag == "tr":
            self.tables.setdefault(self.heading, []).append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
        if tag == "h2":
            self.heading = self.text
        if tag in ("td", "th"):
            self.tables[self.heading][-1].append(self.text)

    def handle_data(self, data):
        self.text += data


class Relay(http.server.ThreadingHTTPServer):
    """Leads to the page, and knows how often it was asked for what."""

    def __init__(self, address):
        self.address, self.asked = address, []
        super().__init__(("127.0.0.1", 0), RelayedCall)


class RelayedCall(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        try:
            with urllib.request.urlopen(f"http://{self.server.address}{self.path}", timeout=WAIT) as reply:
                code, headers, body = reply.status, reply.headers, reply.read()
        except urllib.error.HTTPError as refused:
            with refused:
                code, headers, body = refused.code, refused.headers, refused.read()
        self.send_response(code)
        for name in ("Content-Type", "Content-Security-Policy", "Cache-Control"):
            if headers[name]:
                self.send_header(name, headers[name])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class UiTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.processes = {}
        self.addCleanup(self.end)
        self.address = f"127.0.0.1:{free_port()}"
        port = self.folder / "port"
        self.start("coordinator", "paceline-coordinator", "--data-dir", self.folder / "data", "--shards", 2, "--replicas", 1,
                   "--listen", "127.0.0.1:0", "--port-file", port, "--metrics-listen", self.address, "--metrics-cluster", "test")
        self.coordinator = until("the coordinator serves", lambda: port.exists() and port.read_text().strip())
        for name in ("shard-0", "shard-1"):
            self.start(name, "paceline-shard", "--coordinator", self.coordinator, "--name", name, "--threads", 1)

    def start(self, name, program, *arguments):
        log = self.enterContext(open(self.folder / f"{name}.log", "w"))
        self.processes[name] = subprocess.Popen([f"{BIN}/{program}", *map(str, arguments)], stdout=log, stderr=log)

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def fetch(self, path="/ui", method="GET"):
        request = urllib.request.Request(f"http://{self.address}{path}", method=method)
        return urllib.request.urlopen(request, timeout=WAIT)

    def page(self):
        return self.fetch().read().decode()

    def test_it_shows_what_status_knows(self):
        until("both shards are alive", lambda: self.page().count(">alive<") == 2)
        self.start("count", "paceline-count", "--coordinator", self.coordinator, "--job", "count", "--rows", 1000, "--clocks",
                   1_000_000)
        until("the job is at work", lambda: Page(self.page()).tables.get("Clients", [[], [""]])[1][0] == "count")
        with self.fetch() as reply:
            html = reply.read().decode()
            self.assertEqual(reply.headers["Content-Type"], "text/html; charset=utf-8")
            self.assertIn("default-src 'none'", reply.headers["Content-Security-Policy"])
        self.assertIn("<title>Paceline: test</title>", html)
        self.assertRegex(html, 'http-equiv="refresh"')
        self.assertNotRegex(html, "<script|<form|<img|https?://")
        tables = Page(html).tables
        self.assertEqual([row[0] for row in tables["Shards"][1:]], ["shard-0", "shard-1"])
        self.assertEqual([row[0] for row in tables["Jobs"][1:]], ["count"])
        status = json.loads(subprocess.run([f"{BIN}/paceline", "status", "--json", "--coordinator", self.coordinator],
                                           capture_output=True, text=True, check=True).stdout)
        primaries = {shard["info"]["name"]: str(shard.get("primaries", 0)) for shard in status["shards"]}
        self.assertEqual({row[0]: row[2] for row in Page(self.page()).tables["Shards"][1:]}, primaries)
        self.processes["shard-1"].kill()
        until("the problem", lambda: re.search(r'<li class="bad">shard-1[^<]*silent', self.page()))

    def test_it_is_read_only_and_beside_the_metrics(self):
        until("the page", self.page)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.fetch(method="POST")
        self.assertEqual(refused.exception.code, 405)
        refused.exception.close()
        with self.fetch("/metrics") as reply:
            self.assertIn('paceline_coordinator_leads{paceline_cluster="test"} 1', reply.read().decode())

    @unittest.skipUnless(BROWSER, "no chromium")
    def test_a_browser_shows_it_and_asks_for_it_anew(self):
        until("both shards are alive", lambda: self.page().count(">alive<") == 2)
        relay = self.enterContext(Relay(self.address))
        thread = threading.Thread(target=relay.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(relay.shutdown)
        browser = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                   f"--user-data-dir={self.folder / 'browser'}"]
        url = f"http://127.0.0.1:{relay.server_address[1]}/ui"
        done = subprocess.run([*browser, "--dump-dom", url], capture_output=True, text=True, timeout=WAIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row[0] for row in Page(done.stdout).tables["Shards"][1:]], ["shard-0", "shard-1"], done.stdout)
        self.assertNotRegex(done.stderr, "Refused to|Content Security Policy", "its style is shown")
        # Left open it asks again by itself.
        before = relay.asked.count("/ui")
        with subprocess.Popen([*browser, "--remote-debugging-port=0", url], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as window:
            try:
                until("the page was asked for again and again", lambda: relay.asked.count("/ui") >= before + 3)
            finally:
                window.kill()


if __name__ == "__main__":
    unittest.main(verbosity=2)
