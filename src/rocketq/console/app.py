"""The console put together: pages, guard, collector, and the HTTP server they live in.

NiceGUI keeps its application in a global, so there is one console in a process.
"""

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import uvicorn
from fastapi import FastAPI, Request
from nicegui import ui
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from rocketq.admin import connected
from rocketq.admin.session import own_identity
from rocketq.common.loop.service import running
from rocketq.console import login
from rocketq.console.access import COOKIE, Access, Session
from rocketq.console.collector import Collector
from rocketq.console.config import ConsoleConfig
from rocketq.console.guard import Guard, session_token
from rocketq.console.pages import PAGES
from rocketq.console.texts import Texts, preferred
from rocketq.console.view import View, audit
from rocketq.console.widgets import frame

_STYLE: Final = Path(__file__).with_name("style.css")
_WILDCARDS: Final = ("0.0.0.0", "::", "")
_ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    '<rect width="32" height="32" rx="8" fill="#4c7dff"/>'
    '<path d="M9 21.5 16 8l7 13.5-7-3.6z" fill="#fff"/></svg>'
)


@asynccontextmanager
async def serving(config: ConsoleConfig) -> AsyncIterator["Console"]:
    """Serve a console for the length of a block."""
    audit.setLevel("INFO")  # what was changed is written down whatever else is logged
    with _listening(config) as listener:
        async with connected(config.name_servers) as api:
            access = Access(
                api,
                read_only=config.read_only,
                always_login=config.always_login,
                has_keys=bool(own_identity().access_key),
            )
            collector = Collector(access.eyes)
            server = _Server(_application(config, collector, access), listener)
            console = Console(config, listener, server)
            async with running("console collector", collector.run):
                serve = asyncio.create_task(server.serve(sockets=[listener]))
                try:
                    await server.answering(serve)
                    yield console
                finally:
                    server.should_exit = True
                    server.force_exit = True  # open pages do not keep it from stopping
                    await serve
                    await access.close()


class Console:
    """A running console."""

    def __init__(self, config: ConsoleConfig, listener: socket.socket, server: "_Server") -> None:
        host = "127.0.0.1" if config.host in _WILDCARDS else config.host
        named = f"[{host}]" if ":" in host else host
        self.url = f"http://{named}:{listener.getsockname()[1]}"
        self._server = server

    async def stopped(self) -> None:
        """Wait until it has ended by itself."""
        await self._server.ended.wait()


def _listening(config: ConsoleConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config.host, config.port))
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


class _Server(uvicorn.Server):
    """Leaves signals to whoever started it."""

    def __init__(self, app: FastAPI, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                ws_max_size=1024 * 1024,
                ws="websockets-sansio",
                timeout_graceful_shutdown=1,
            )
        )
        self.ended = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        finally:
            self.ended.set()

    async def answering(self, serve: "asyncio.Task[None]") -> None:
        while not self.started:
            if serve.done():
                serve.result()
                raise RuntimeError("the console did not start")
            await asyncio.sleep(0.01)


def _application(config: ConsoleConfig, collector: Collector, access: Access) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    style = _STYLE.read_bytes()
    style_url = f"/console-assets/{hashlib.sha256(style).hexdigest()[:16]}.css"

    @app.get(style_url)
    async def stylesheet() -> Response:
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(style, media_type="text/css", headers=headers)

    @app.get("/healthz")
    async def healthy() -> Response:
        return PlainTextResponse("ok")

    @app.get("/logout")
    async def logout(request: Request) -> Response:
        session = await access.session(session_token(request.headers))
        if session is not None and session.user:
            audit.info("console: logged out: %r from %s", session.user, _peer(request))
            await access.logout(session)
        response = RedirectResponse("/login", status_code=303)
        response.delete_cookie(COOKIE)
        return response

    login.add_to(app, access, style_url)
    head = frame.head(style_url)

    def view_of(request: Request, session: Session) -> View:
        return View(
            collector=collector,
            access=access,
            session=session,
            t=Texts(language_of(request)),
            path=request.url.path,
            query=dict(request.query_params),
            peer=_peer(request),
        )

    for path, title, build in PAGES:
        _add_page(path, title, build, head, access, view_of)
    ui.run_with(
        app,
        title="rocketq",
        favicon=_ICON,
        dark=None,
        tailwind=False,
        show_welcome_message=False,
        binding_refresh_interval=None,
        reconnect_timeout=10.0,
    )
    hosts = [*config.hosts, "*" if config.host in _WILDCARDS else config.host]
    app.add_middleware(Guard, find_session=access.session, hosts=hosts)
    return app


def _add_page(
    path: str,
    title: str,
    build: Callable[[View], Awaitable[None]],
    head: str,
    access: Access,
    view_of: Callable[[Request, Session], View],
) -> None:
    @ui.page(path, title=f"{title} · rocketq")
    async def shown(request: Request) -> Response | None:
        session = await access.session(session_token(request.headers))
        if session is None:
            return RedirectResponse("/login", status_code=303)
        view = view_of(request, session)
        ui.add_head_html(head)
        ui.context.client.title = f"{view.t(title)} · rocketq"
        await build(view)
        return None


def language_of(request: Request) -> str:
    chosen = request.cookies.get("rocketq_lang")
    return chosen or preferred(request.headers.get("accept-language", ""))


def _peer(request: Request) -> str:
    return request.client.host if request.client else "?"
