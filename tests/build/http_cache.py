"""A remote cache for Bazel on 127.0.0.1: GET and PUT of files, nothing else."""

from __future__ import annotations

import http.server
import pathlib
import shutil
import threading


class HttpCache:
    """Serves `folder` while it is entered.

    Attributes:
      address: for --remote_cache.
      puts: how many files were stored.
      gets: how many were found.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.puts = self.gets = 0
        cache = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # Bazel keeps connections open

            def log_message(self, *_: object) -> None:
                """Says nothing."""

            def _path(self) -> pathlib.Path:
                return folder / self.path.strip("/")

            def _answer(self, code: int, size: int = 0) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(size))
                self.end_headers()

            def do_GET(self) -> None:  # noqa: N802
                if not self._path().is_file():
                    self._answer(404)
                    return
                cache.gets += 1
                self._answer(200, self._path().stat().st_size)
                with open(self._path(), "rb") as file:
                    shutil.copyfileobj(file, self.wfile)

            def do_PUT(self) -> None:  # noqa: N802
                data = self.rfile.read(int(self.headers["Content-Length"]))
                self._path().parent.mkdir(parents=True, exist_ok=True)
                # Renamed when complete: another thread may be reading.
                part = self._path().with_suffix(f".{threading.get_ident()}")
                part.write_bytes(data)
                part.rename(self._path())
                cache.puts += 1
                self._answer(200)

        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), Handler
        )
        self.port = self._server.server_address[1]
        self.address = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> HttpCache:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
