"""A registry of OCI artifacts in memory, as much of one as `helm push` and `helm pull` need."""

import hashlib
import http.server
import re
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, code, body=b"", **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_GET(self):
        if self.path == "/v2/":
            return self.answer(200)
        kind, body = self.server.content.get(self.path, (None, b""))
        if kind is None:
            return self.answer(404)
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        return self.answer(200, body, Content_Type=kind, Docker_Content_Digest=digest)

    do_HEAD = do_GET

    def do_POST(self):
        self.body()
        self.answer(202, Location=self.path)

    def do_PUT(self):
        body, digest = self.body(), None
        if upload := re.fullmatch(r"(/v2/.*/blobs/)uploads/\?digest=(sha256)(?::|%3A)(\w+)", self.path):
            where, digest = upload[1], f"sha256:{upload[3]}"
        elif manifest := re.fullmatch(r"(/v2/.*/manifests/)([^/]+)", self.path):
            where, digest = manifest[1], f"sha256:{hashlib.sha256(body).hexdigest()}"
            self.server.content[self.path] = self.headers["Content-Type"], body
        else:
            return self.answer(404)
        self.server.content[where + digest] = self.headers.get("Content-Type") or "application/octet-stream", body
        return self.answer(201, Location=where + digest, Docker_Content_Digest=digest)

    def log_message(self, *_):
        pass


class Registry:
    """Serves on a free port of this machine, as a context; `address` is HOST:PORT."""

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.content = {}  # by path: the type and the bytes
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
