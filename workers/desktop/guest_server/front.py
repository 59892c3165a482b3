"""How is the guest reached? HTTP on the standard library's threads, one table of routes."""

from __future__ import annotations

import sys
import traceback
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .answers import DESKTOP, Answer, Refused, Request, Routes, failed

OWN = "/legato/"
"""How the routes begin that OSWorld's server has not."""

ERROR_PAGE = """<!doctype html>
<html lang=en>
<title>{status} {title}</title>
<h1>{title}</h1>
"""
TITLES = {404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error"}


def error_page(status: int) -> Answer:
    """The page that OSWorld's server sends where a route raised, or where there is none."""
    return Answer(ERROR_PAGE.format(status=status, title=TITLES[status]).encode(), status, "text/html; charset=utf-8")


def answer(routes: Routes, request: Request, token: str = "") -> Answer:
    """What the route of `request` says. `token` is this desktop's; empty where it was given none.

    A request that names another desktop is refused, nothing done: a port may be another container's by the time that a
    worker asks there. One that names this desktop is told that it was heard here; one that names none is simply served.
    """
    if not request.desktop:
        return _routed(routes, request)
    if request.desktop != token:
        return failed("this is another desktop", 421)
    said = _routed(routes, request)
    return replace(said, headers={**said.headers, DESKTOP: token})


def _routed(routes: Routes, request: Request) -> Answer:
    """What the route says; an exception in it is a 500, by OSWorld's page or, on a route of ours, with the cause."""
    route = routes.get((request.method, request.path))
    if route is None:
        return error_page(405 if any(path == request.path for _, path in routes) else 404)
    try:
        return route(request)
    except Refused as refused:
        return refused.answer
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return failed(f"{type(error).__name__}: {error}") if request.path.startswith(OWN) else error_page(500)


class Front(ThreadingHTTPServer):
    """The listening socket. Each connection has a thread of its own and may be kept."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], routes: Routes, token: str) -> None:
        super().__init__(address, Handler)
        self.routes = routes
        self.token = token


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Front
    protocol_version = "HTTP/1.1"
    server_version = "legato-guest"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        kind = self.headers.get("Content-Type") or ""
        asked = Request(self.command, self.path.partition("?")[0], kind, body, self.headers.get(DESKTOP) or "")
        said = answer(self.server.routes, asked, self.server.token)
        self.send_response(said.status)
        self.send_header("Content-Type", said.kind)
        self.send_header("Content-Length", str(len(said.body)))
        for name, value in said.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said.body)

    do_GET = do_POST = _serve

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing for each request."""
