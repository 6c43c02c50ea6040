"""Serves the site: `tools/bazel run //docs:serve [-- PORT]`."""

import functools
import http.server
import sys

site, *rest = sys.argv[1:]
port = int(rest[0]) if rest else 8000
handler = functools.partial(
    http.server.SimpleHTTPRequestHandler, directory=site
)
print(f"http://localhost:{port}/", flush=True)
http.server.ThreadingHTTPServer(("localhost", port), handler).serve_forever()
