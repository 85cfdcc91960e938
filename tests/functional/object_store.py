"""Object stores on this machine: one that stock TensorFlow reads as `gs://`, with the JSON and media answers of Google's, and a
plain web server. What they hold is in memory.

Of the first, TensorFlow asks fixed hosts by TLS and takes a proxy and a certificate from the environment: the proxy is this
server, and it answers itself what it is asked to pass on.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

HOSTS = ("www.googleapis.com", "storage.googleapis.com")


@dataclass
class Store:
    """`objects`: contents by `bucket/name`. `environ`: what a process that is to read them needs; `asked`: paths, in order."""

    objects: Mapping[str, bytes]
    is_open: bool
    latency_s: float
    environ: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@contextmanager
def serving_http(objects: Mapping[str, bytes], latency_s: float = 0.0) -> Iterator[str]:
    """Objects by their paths on a plain web server that answers ranges, each answer `latency_s` late; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            time.sleep(latency_s)
            content = objects.get(urlsplit(self.path).path.lstrip("/"))
            if content is None:
                return self.send_error(404)
            first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
            part = content[int(first or 0) : int(last) + 1 if last else None]
            self.send_response(206 if first else 200)
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Accept-Ranges", "bytes")
            if first:
                self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(part)
            return None

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with _listening(Handler) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def serving(folder: Path, objects: Mapping[str, bytes], *, is_open: bool = True, latency_s: float = 0.0) -> Iterator[Store]:
    """The store, until the end. Unless it `is_open`, it refuses everybody who has no credentials, and nobody has.

    `latency_s`: before the first byte of each content.
    """
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    names = ",".join(f"DNS:{host}" for host in HOSTS)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOSTS[0]}"),
            *("-addext", f"subjectAltName={names}", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    store = Store(objects, is_open, latency_s)
    with _listening(_handler(store, tls)) as port:
        proxy = f"http://127.0.0.1:{port}"
        store.environ |= {"https_proxy": proxy, "HTTPS_PROXY": proxy, "CURL_CA_BUNDLE": str(certificate), "NO_GCE_CHECK": "true"}
        yield store


def _handler(store: Store, tls: ssl.SSLContext) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_CONNECT(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.connection = tls.wrap_socket(self.connection, server_side=True)
            self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            store.asked.append(self.path)
            parts = unquote(url.path).lstrip("/").split("/")
            if not store.is_open:
                self._send(401, {"error": {"code": 401, "message": "Anonymous caller does not have storage.objects.get access."}})
            elif parts[:3] != ["storage", "v1", "b"]:
                self._send_media("/".join(parts))
            elif len(parts) == 5:
                self._send(200, _listing(store.objects, parts[3], parse_qs(url.query)))
            else:
                self._send_facts("/".join([parts[3], *parts[5:]]))

        def _send_facts(self, name: str) -> None:
            if name not in store.objects:
                return self._send(404, {"error": {"code": 404, "message": f"No such object: {name}"}})
            size = str(len(store.objects[name]))
            return self._send(200, {"size": size, "generation": "1", "updated": "2024-01-01T00:00:00.000Z"})

        def _send_media(self, name: str) -> None:
            content = store.objects.get(name)
            if content is None:
                return self._send(404, {"error": {"code": 404, "message": f"No such object: {name}"}})
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            if int(first) >= len(content):
                return self._send(416, {})
            time.sleep(store.latency_s)
            return self._send(206, content[int(first) : int(last) + 1 if last else None])

        def _send(self, code: int, content: bytes | Mapping[str, object]) -> None:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return Handler


def _listing(objects: Mapping[str, bytes], bucket: str, query: Mapping[str, list[str]]) -> dict[str, object]:
    prefix = query.get("prefix", [""])[0]
    names = [name.removeprefix(f"{bucket}/") for name in sorted(objects) if name.startswith(f"{bucket}/{prefix}")]
    folder = os.path.dirname(prefix)
    direct = [name for name in names if os.path.dirname(name) == folder]
    below = sorted({f"{folder}/{name.removeprefix(folder).lstrip('/').split('/')[0]}/".lstrip("/") for name in names} - set(direct))
    if "delimiter" not in query:
        direct, below = names, []
    return {"items": [{"name": name} for name in direct], "prefixes": [one for one in below if one.strip("/") != prefix.strip("/")]}
