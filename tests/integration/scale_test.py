#!/usr/bin/env python3
"""The hook before a pod stops, with real processes and an HTTPS server that stands for the Kubernetes API: shards that their
StatefulSet has no place for drain as one set while a job counts, those that come back move nothing, and without the right to
ask, or without an answer, the hook hands over and says so."""
import http.server
import json
import os
import ssl
import subprocess
import threading
import unittest
from pathlib import Path

import elastic_test

BIN = os.environ["PACELINE_BIN"]
HOOK = Path(__file__).resolve().parents[2] / "docker/hand-over"
TOKEN = "a-token-of-this-test"


class KubernetesApi:
    """Answers for the scale of the StatefulSet ml/shard, to whoever has the token."""

    def __init__(self, test, folder):
        self.replicas, self.status, self.asked = 4, 200, 0
        account = Path(folder) / "account"
        account.mkdir()
        account.joinpath("token").write_text(TOKEN + "\n")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kubernetes", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-keyout", account / "key", "-out", account / "ca.crt"], check=True,
                       capture_output=True)
        self.account = account
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                api.asked += 1
                known = self.path == "/apis/apps/v1/namespaces/ml/statefulsets/shard/scale"
                allowed = self.headers["Authorization"] == f"Bearer {TOKEN}"
                status = 401 if not allowed else 404 if not known else api.status
                body = json.dumps({"kind": "Scale", "spec": {"replicas": api.replicas}, "status": {"replicas": 4}}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(account / "ca.crt", account / "key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        test.addCleanup(thread.join)
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)
        self.port = server.server_address[1]


class Cluster(elastic_test.Cluster):
    """Of four shards; the coordinator asks the API."""

    def __init__(self, test):
        self.api = None
        super().__init__(test, replicas=1)
        self.start_shard(3)
        elastic_test.until("four shards have their shares", lambda: len(self.shards()) == 4 and self.at_rest() and self.holds("shard-3"))

    def start(self, name, program, *arguments):
        if program == "paceline-coordinator":
            self.api = KubernetesApi(self.test, self.folder)
            os.environ.update(KUBERNETES_SERVICE_HOST="127.0.0.1", KUBERNETES_SERVICE_PORT=str(self.api.port))
            arguments = (*arguments, "--statefulset", "ml/shard", "--service-account", self.api.account)
        super().start(name, program, *arguments)

    def hook(self, name, seconds=60):
        """Begins it; what it says goes to a file."""
        log = self.folder / f"{name}.hook"
        log.unlink(missing_ok=True)
        environment = dict(os.environ, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}", POD_NAME=name, PACELINE_LOG=str(log),
                           PACELINE_COORDINATOR=self.coordinator)
        process = subprocess.Popen(["sh", HOOK, str(seconds)], env=environment)
        self.test.addCleanup(process.wait)
        self.test.addCleanup(process.kill)
        return process, log

    def stop(self, name):
        self.processes[name].terminate()
        self.test.assertEqual(self.processes[name].wait(elastic_test.WAIT), 0)


class ScaleTest(unittest.TestCase):
    def test_a_stateful_set_that_shrinks_and_grows(self):
        cluster = Cluster(self)
        cluster.start_workers()
        cluster.counts()
        self.restart_moves_no_rows(cluster)
        # 4 → 2: both go at once, and neither takes what the other one gives.
        cluster.api.replicas = 2
        hooks = {name: cluster.hook(name) for name in ("shard-2", "shard-3")}
        for name, (process, log) in hooks.items():
            self.assertEqual(process.wait(elastic_test.WAIT), 0)
            self.assertIn("shard-2, shard-3 beyond these: they drain together", log.read_text())
            self.assertIn("it may go", log.read_text())
            cluster.stop(name)
        elastic_test.until("they are forgotten", lambda: set(cluster.shards()) == {"shard-0", "shard-1"})
        elastic_test.until("the rest is well", cluster.at_rest)
        cluster.counts()
        # 2 → 3, with the folder that the shard had.
        cluster.api.replicas = 3
        cluster.start_shard(2)
        elastic_test.until("shard-2 has a share again", lambda: "shard-2" in cluster.shards() and cluster.holds("shard-2"))
        elastic_test.until("all is even", cluster.at_rest)
        cluster.counts()
        self.without_the_right(cluster)

    def restart_moves_no_rows(self, cluster):
        before = cluster.holds("shard-1")
        process, log = cluster.hook("shard-1")
        self.assertEqual(process.wait(elastic_test.WAIT), 0)
        self.assertIn("4 shards are wanted, shard-1 among them: it comes back", log.read_text())
        self.assertEqual(cluster.holds("shard-1"), before, "it has handed over, and is a replica of all")
        self.assertNotIn("drain", cluster.shards()["shard-1"])
        cluster.stop("shard-1")
        cluster.start_shard(1)
        elastic_test.until("all is even", lambda: cluster.at_rest() and cluster.holds("shard-1") == before)

    def without_the_right(self, cluster):
        cluster.api.status, cluster.api.replicas = 403, 2
        process, log = cluster.hook("shard-2")
        self.assertEqual(process.wait(elastic_test.WAIT), 0)
        self.assertIn("a Role with the verb get on statefulsets/scale", log.read_text())
        self.assertTrue([problem for problem in cluster.status()["problems"] if "statefulsets/scale" in problem])
        self.assertNotIn("drain", cluster.shards()["shard-2"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
