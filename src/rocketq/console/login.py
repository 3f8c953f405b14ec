"""The page to log in on: a plain form, there before any script."""

import html
from typing import Final

from fastapi import FastAPI, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rocketq.common.errors import RocketqError
from rocketq.console.access import COOKIE, IDLE_S, Access
from rocketq.console.texts import Texts, preferred
from rocketq.console.view import audit
from rocketq.console.widgets import frame

_LONGEST: Final = 256

_PAGE: Final = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><title>{title} · rocketq</title>
<meta name="viewport" content="width=device-width, initial-scale=1">{head}</head>
<body class="r-body r-login-body"><form class="r-card r-login" method="post" action="/login">
<div class="r-brand"><span class="r-logo"></span><span>rocketq</span></div>
<label>{name}<input name="user" autocomplete="username" autofocus required maxlength="256"></label>
<label>{password}<input name="password" type="password" autocomplete="current-password" required
 maxlength="256"></label>
<p class="r-problem">{problem}</p>
<button type="submit">{title}</button></form></body></html>
"""


def add_to(app: FastAPI, access: Access, style_url: str) -> None:
    """Add the form and what takes it."""
    head = frame.head(style_url)

    def page(request: Request, problem: str = "", status: int = 200) -> Response:
        language = request.cookies.get("rocketq_lang") or preferred(
            request.headers.get("accept-language", "")
        )
        t = Texts(language)
        text = _PAGE.format(
            language=t.language,
            head=head,
            title=html.escape(t("Log in")),
            name=html.escape(t("Name")),
            password=html.escape(t("Password")),
            problem=html.escape(t(problem)),
        )
        return HTMLResponse(text, status_code=status, headers={"Cache-Control": "no-store"})

    @app.get("/login")
    async def shown(request: Request) -> Response:
        if not await access.is_required():
            return RedirectResponse("/", status_code=303)
        return page(request)

    @app.post("/login")
    async def taken(
        request: Request,
        user: str = Form("", max_length=_LONGEST),
        password: str = Form("", max_length=_LONGEST),
    ) -> Response:
        peer = request.client.host if request.client else "?"
        try:
            session = await access.login(user, password, peer)
        except RocketqError as error:
            audit.warning("console: login refused: %r from %s: %s", user, peer, error)
            return page(request, str(error), 401)
        audit.info("console: logged in: %r from %s", user, peer)
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(
            COOKIE,
            session.token,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
            max_age=int(IDLE_S),
        )
        return response
