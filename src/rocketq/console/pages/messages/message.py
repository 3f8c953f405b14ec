"""One message: body, properties, what became of it, and its way as a timeline."""

from typing import Final

from nicegui import ui

from rocketq.admin import browsing, messages, traces
from rocketq.admin.messages import MessageTrack, TrackType
from rocketq.admin.traces import MessageTrace
from rocketq.common.errors import RocketqError
from rocketq.console.access import Role
from rocketq.console.pages.messages.bodies import (
    SHOWN_BYTES,
    as_hex,
    as_json,
    as_text,
    exported,
)
from rocketq.console.view import View, link
from rocketq.console.widgets import formats
from rocketq.console.widgets.dialogs import Form, confirmed
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.parts import button, card, facts, grid, state, toolbar
from rocketq.message.message import MessageExt
from rocketq.message.names import DLQ_PREFIX, is_dlq_topic

_TONES: Final = {
    TrackType.CONSUMED: "good",
    TrackType.CONSUMED_BUT_FILTERED: "calm",
    TrackType.PULL: "info",
    TrackType.NOT_CONSUME_YET: "warn",
    TrackType.NOT_ONLINE: "calm",
    TrackType.CONSUME_BROADCASTING: "info",
    TrackType.UNKNOWN: "bad",
}


async def build(view: View) -> None:
    t = view.t
    title = view.query.get("uid") or view.query.get("id", "")
    back = link("/messages", topic=view.query.get("topic", ""))
    with page(view, title, parent=(t("Messages"), back)) as this:
        place = ui.element("div").classes("r-stack")
        this.once(lambda: _load(this, place))


async def _load(this: Page, place: ui.element) -> None:
    view, t = this.view, this.view.t
    message = await find(view)
    place.clear()
    with place:
        if message is None:
            with card():
                ui.label(t("This message is not there (any more).")).classes("r-empty")
            return
        _actions(this, message)
        with grid("r-wide-left"):
            with card(t("Body")):
                _body(view, message)
            with card(t("Facts")):
                facts(_facts(view, message))
        with grid("r-two"):
            with card(t("What became of it")):
                became = ui.element("div").classes("r-stack r-tracks")
            with card(t("Properties")):
                facts(sorted(message.properties.items()), mark="properties")
        with card(t("Its way")):
            way = ui.element("div").classes("r-stack r-way")
    tracks = await messages.track(view.api, message)
    with became:
        _tracks(view, tracks)
    try:
        trace = await traces.of_message(view.api, message.msg_id)
    except RocketqError:
        trace = MessageTrace()
    with way:
        _timeline(view, trace)


async def find(view: View) -> MessageExt | None:
    topic = view.query.get("topic", "")
    found = await messages.by_id(view.api, topic, view.query.get("id", ""))
    if found is None and view.query.get("uid"):
        found = await messages.by_id(view.api, topic, view.query["uid"])
    return found


def _facts(view: View, message: MessageExt) -> list[tuple[str, str]]:
    t = view.t
    return [
        (t("Topic"), message.topic),
        (t("Tag"), message.tags or "–"),
        (t("Keys"), " ".join(message.keys) or "–"),
        (t("Queue"), f"{message.queue_id} @ {message.queue_offset:,}"),
        (t("Stored"), formats.moment_ms(message.store_timestamp)),
        (t("Stored at"), ":".join(map(str, message.store_host))),
        (t("Born"), formats.moment_ms(message.born_timestamp)),
        (t("Born at"), ":".join(map(str, message.born_host))),
        (t("Retries"), str(message.reconsume_times)),
        (t("Size"), formats.size(len(message.body))),
        (t("Log offset"), f"{message.physical_offset:,}"),
        (t("Offset id"), message.offset_msg_id),
    ]


def _body(view: View, message: MessageExt) -> None:
    """Shown as text by the browser: nothing in it is HTML to it."""
    t, body = view.t, message.body
    forms = {"text": as_text(body), "hex": as_hex(body)}
    laid_out = as_json(body)
    if laid_out is not None:
        forms = {"json": laid_out, **forms}
    names = {"json": "JSON", "text": t("Text"), "hex": "Hex"}
    with ui.tabs().props("dense no-caps align=left").classes("r-tabs") as tabs:
        for name in forms:
            ui.tab(name, label=names[name]).classes(f"r-tab-{name}")
    with ui.tab_panels(tabs, value=next(iter(forms)), animated=False).classes("r-panels"):
        for name, text in forms.items():
            with ui.tab_panel(name), ui.element("pre").classes(f"r-pre r-body-{name}"):
                ui.label(text)
    if len(body) > SHOWN_BYTES:
        ui.label(
            t("The first {shown} of {size} are shown; the export holds everything.",
              shown=formats.size(SHOWN_BYTES), size=formats.size(len(body)))
        ).classes("r-note")  # fmt: skip


def _tracks(view: View, tracks: list[MessageTrack]) -> None:
    t = view.t
    if not tracks:
        ui.label(t("No group reads this topic")).classes("r-empty")
    for track in tracks:
        with ui.element("div").classes("r-line"):
            ui.link(track.group, link("/group", name=track.group)).classes("r-link")
            state(t(track.kind.value.lower().replace("_", " ")), _TONES[track.kind])
            if track.reason:
                ui.label(track.reason).classes("r-note")


def _timeline(view: View, trace: MessageTrace) -> None:
    """Steps on one scale of time, from the first to the end of the last."""
    t = view.t
    steps = [(t("sent by {group}", group=step.group), step, "send") for step in trace.sent]
    steps += [
        (t("consumed by {group}", group=group), step, "consume")
        for group, of_group in sorted(trace.consumed.items())
        for step in of_group
    ]
    if not steps:
        ui.label(t("No trace: producers and consumers trace when they are told to.")).classes(
            "r-empty"
        )
        return
    steps.sort(key=lambda each: each[1].time_ms)
    begin = steps[0][1].time_ms
    span = max(max(step.time_ms + max(step.cost_ms, 0) for _, step, _ in steps) - begin, 1)
    with ui.element("div").classes("r-timeline"):
        for title, step, kind in steps:
            tone = kind if step.success else "failed"
            left = (step.time_ms - begin) / span * 100
            width = max(step.cost_ms, 0) / span * 100
            with ui.element("div").classes("r-step"):
                with ui.element("div").classes("r-step-name"):
                    ui.label(title)
                    ui.label(f"{step.client_host} · {formats.moment_ms(step.time_ms)}").classes(
                        "r-note"
                    )
                with ui.element("div").classes("r-step-track"):
                    ui.element("i").classes(f"r-step-bar r-step-{tone}").style(
                        f"left: {left:.2f}%; width: max(4px, {width:.2f}%)"
                    )
                ui.label(
                    f"+{formats.duration(step.time_ms - begin)} · {formats.duration(step.cost_ms)}"
                ).classes("r-step-cost")


# What can be done


def _actions(this: Page, message: MessageExt) -> None:
    view, t = this.view, this.view.t

    async def resend() -> None:
        if await resend_message(view, message):
            await this.again()

    with toolbar():
        button(
            t("Export"),
            "download",
            lambda: ui.download.content(exported([message]), f"{message.msg_id}.json"),
            mark="export",
        )
        if view.may(Role.OPERATOR):
            button(t("Send again"), "redo", resend, mark="resend")
            button(
                t("Consume directly"),
                "play_arrow",
                lambda: consume_directly(view, message),
                mark="consume",
            )


async def resend_message(view: View, message: MessageExt) -> bool:
    t = view.t
    new = browsing.again(message)
    text = t("A copy goes to {topic}, with an id of its own.", topic=new.topic)
    if not await confirmed(t, t("Send it again?"), text, action=t("Send")):
        return False
    return await view.change(
        "Message sent again",
        f"{message.msg_id} to {new.topic}",
        lambda: view.send(new),
        role=Role.OPERATOR,
    )


async def consume_directly(view: View, message: MessageExt) -> None:
    """Have one member of a group consume it now."""
    t = view.t
    if is_dlq_topic(message.topic):
        names = [message.topic.removeprefix(DLQ_PREFIX)]
    else:
        names = [each.group for each in await messages.track(view.api, message)]
    connections = await view.collector.members_of(names, 5.0)
    clients = {
        f"{name}\n{client.client_id}": f"{name}: {client.client_id}"
        for name, connection in zip(names, connections, strict=True)
        if connection is not None
        for client in connection.connection_set
    }
    if not clients:
        ui.notify(t("No group that reads it is online"), type="warning")
        return
    title = t("Who shall consume it now?")
    with Form(t, title, action=t("Consume"), text=t("Offsets stay as they are.")) as form:
        who = form.choice(t("Client"), clients, next(iter(clients)), mark="client")
    if not await form.answered():
        return
    group, client_id = str(who.value).split("\n")

    async def consume() -> None:
        result = await messages.consume_directly(view.api, message, group, client_id)
        ui.notify(
            f"{result.consume_result} ({result.spent_time_mills} ms) {result.remark or ''}",
            timeout=8000,
        )

    await view.change(
        "Message consumed directly",
        f"{message.msg_id} by {client_id} of {group}",
        consume,
        role=Role.OPERATOR,
    )
