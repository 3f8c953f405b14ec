"""Which HTTP requests and web sockets are let in at all.

    Host      must be a name the console answers to: a page of another site cannot reach it
              through a name of its own that resolves to this machine
    Origin    must be the console's own, where a browser says one: other sites' pages can
              neither open a web socket here nor send a form
    cookie    must be that of a session, where a login is needed

Browsers are told to load nothing from anywhere else, and not to show the console in a frame.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rocketq.console.access import COOKIE, Session

# The page is one script that compiles templates in the browser, hence eval; where it may load
# things from and whom it may talk to is what keeps a hostile message harmless.
_CONTENT_POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval';"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:;"
    " connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
_OPEN: Final = ("/login", "/_nicegui/", "/console-assets/", "/favicon.ico", "/healthz")
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_NOT_ALLOWED_CODE: Final = 4403

FindSession = Callable[[str | None], Awaitable[Session | None]]


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, find_session: FindSession, hosts: Iterable[str]) -> None:
        """`hosts` are names in a URL that mean this console, beside local ones."""
        self._app = app
        self._find_session = find_session
        self._hosts = {*_LOCAL_NAMES, *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._is_ours(headers):
            await _refuse(scope, receive, send, PlainTextResponse("not here", status_code=403))
            return
        path: str = scope["path"]
        if not path.startswith(_OPEN):
            session = await self._find_session(session_token(headers))
            if session is None:
                wanted = RedirectResponse("/login", status_code=303)
                await _refuse(scope, receive, send, wanted)
                return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _is_ours(self, headers: Headers) -> bool:
        host = headers.get("host", "").lower()
        name = host.rpartition(":")[0] if _has_port(host) else host
        if name not in self._hosts and not ("*" in self._hosts and _is_address(name)):
            return False
        origin = headers.get("origin")
        return origin is None or urlsplit(origin).netloc.lower() == host


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdecimal() and not host.endswith("]")


def _is_address(name: str) -> bool:
    """An address cannot be made to mean another machine, as a name can."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def session_token(headers: Headers) -> str | None:
    cookie = SimpleCookie()
    try:
        cookie.load(headers.get("cookie", ""))
    except CookieError:
        return None
    found = cookie.get(COOKIE)
    return None if found is None else found.value


async def _refuse(scope: Scope, receive: Receive, send: Send, response: Response) -> None:
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    await receive()  # the request to connect
    await send({"type": "websocket.close", "code": _NOT_ALLOWED_CODE})
