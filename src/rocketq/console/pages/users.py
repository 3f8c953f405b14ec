"""Users and what policies allow them."""

from collections.abc import Awaitable, Callable
from typing import Final

from rocketq.admin import access
from rocketq.admin.cluster import brokers
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerRejected
from rocketq.common.access.policy import Entry, InvalidPolicy
from rocketq.console.access import Role
from rocketq.console.view import View
from rocketq.console.widgets.dialogs import Form, confirmed
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.parts import button, card
from rocketq.console.widgets.table import Action, Ask, Column, DataTable, Found, Row, page_of
from rocketq.remoting.bodies.access import AclInfo, PolicyEntry, UserInfo

_REFRESH_S: Final = 15.0
_ACTIONS: Final = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
_SHORTEST_PASSWORD: Final = 3

Change = Callable[[BrokerApi, str], Awaitable[None]]
"""What is done at one broker."""


async def build(view: View) -> None:
    t = view.t
    with page(view, t("Users")) as this:
        shown = _Users(this)
        with card(t("Users")) as tools:
            if view.may(Role.ADMIN):
                with tools:
                    button(t("New user"), "person_add", shown.create_user, mark="new-user")
            shown.users()
        with card(t("Policies")) as tools:
            if view.may(Role.ADMIN):
                with tools:
                    button(t("New policy"), "add", shown.create_policy, mark="new-policy")
            shown.policies()
        this.every(_REFRESH_S, shown.refresh)


class _Users:
    """Read from the first broker; whoever keeps users is told of changes."""

    def __init__(self, this: Page) -> None:
        self._page = this
        self._view = this.view
        self._users: list[UserInfo] = []
        self._acls: list[AclInfo] = []

    # Parts

    def users(self) -> None:
        t = self._view.t
        actions = [
            Action("password", "key", t("New password")),
            Action("toggle", "power_settings_new", t("Switch on or off")),
            Action("delete", "delete_outline", t("Delete")),
        ]
        self._user_table = DataTable(
            t,
            [
                Column(name="name", title=t("Name"), sortable=True, cut=True),
                Column(name="kind", title=t("Kind"), kind="state"),
                Column(name="state", title=t("State"), kind="state"),
                *self._action_column(actions),
            ],
            self._find_users,
            mark="users",
            empty=t("No users: the brokers let everybody in"),
        )
        self._user_table.on_action("password", self._new_password)
        self._user_table.on_action("toggle", self._toggle)
        self._user_table.on_action("delete", self._delete_user)

    def policies(self) -> None:
        t = self._view.t
        actions = [Action("delete", "delete_outline", t("Delete"))]
        self._policy_table = DataTable(
            t,
            [
                Column(name="subject", title=t("Who"), sortable=True, cut=True),
                Column(name="resource", title=t("What"), kind="mono", sortable=True, cut=True),
                Column(name="actions", title=t("Actions"), cut=True),
                Column(name="decision", title=t("Decision"), kind="state"),
                Column(name="sources", title=t("From where"), minor=True, cut=True),
                Column(name="kind", title=t("Kind"), minor=True),
                *self._action_column(actions),
            ],
            self._find_policies,
            mark="policies",
            empty=t("No policies"),
        )
        self._policy_table.on_action("delete", self._delete_policy)

    def _action_column(self, actions: list[Action]) -> list[Column]:
        if not self._view.may(Role.ADMIN):
            return []
        return [Column(name="act", title="", kind="actions", actions=actions)]

    # Data

    async def refresh(self) -> None:
        view = self._view
        addresses = await brokers.addresses(view.api)
        if addresses:
            try:
                self._users = await access.users(view.api, addresses[0])
                self._acls = await access.acls(view.api, addresses[0])
            except BrokerRejected:
                self._users, self._acls = [], []
                # A broker that lets everybody in may not know of users at all.
                if view.session.user:
                    raise
            finally:
                await self._user_table.refresh()
                await self._policy_table.refresh()

    async def _find_users(self, ask: Ask) -> Found:
        t = self._view.t
        rows: list[Row] = []
        for each in self._users:
            is_super = (each.user_type or "").lower() == "super"
            is_on = (each.user_status or "enable").lower() == "enable"
            rows.append(
                {
                    "key": each.username or "",
                    "name": each.username or "",
                    "kind": t("super user") if is_super else t("user"),
                    "kind__tone": "info" if is_super else "calm",
                    "state": t("on") if is_on else t("off"),
                    "state__tone": "good" if is_on else "bad",
                }
            )
        return page_of(rows, ask)

    async def _find_policies(self, ask: Ask) -> Found:
        rows: list[Row] = [
            {
                "key": f"{acl.subject}\n{policy.policy_type or ''}\n{entry.resource or ''}",
                "subject": acl.subject or "",
                "resource": entry.resource or "",
                "actions": ", ".join(entry.actions),
                "decision": entry.decision or "",
                "decision__tone": "bad" if (entry.decision or "").lower() == "deny" else "good",
                "sources": ", ".join(entry.source_ips or ()) or "*",
                "kind": policy.policy_type or "",
            }
            for acl in self._acls
            for policy in acl.policies
            for entry in policy.entries
        ]
        return page_of(rows, ask)

    # Changes

    async def create_user(self) -> None:
        t = self._view.t
        with Form(t, t("New user"), action=t("Create")) as form:
            name = form.text(t("Name"), mark="user-name")
            password = form.text(t("Password"), mark="password")
            password.props("type=password autocomplete=new-password")
            kind = form.choice(
                t("Kind"), {"Normal": t("user"), "Super": t("super user")}, "Normal", mark="kind"
            )
            form.require(lambda: bool((name.value or "").strip()), t("A name"))
            form.require(
                lambda: len(password.value or "") >= _SHORTEST_PASSWORD,
                t("A password of {count} characters or more", count=_SHORTEST_PASSWORD),
            )
        if not await form.answered():
            return
        info = UserInfo(
            username=name.value.strip(), password=password.value, user_type=str(kind.value)
        )
        await self._everywhere(
            "User created", info.username or "", lambda api, at: access.create_user(api, at, info)
        )

    async def _new_password(self, name: str) -> None:
        t = self._view.t
        with Form(t, t("New password of {name}", name=name), action=t("Change")) as form:
            password = form.text(t("Password"), mark="password")
            password.props("type=password autocomplete=new-password")
            form.require(
                lambda: len(password.value or "") >= _SHORTEST_PASSWORD,
                t("A password of {count} characters or more", count=_SHORTEST_PASSWORD),
            )
        if not await form.answered():
            return
        info = UserInfo(username=name, password=password.value)
        await self._everywhere(
            "Password changed", name, lambda api, at: access.update_user(api, at, info)
        )

    async def _toggle(self, name: str) -> None:
        t = self._view.t
        user = next((each for each in self._users if each.username == name), None)
        if user is None:
            return
        is_on = (user.user_status or "enable").lower() == "enable"
        title = t("Switch {name} off?", name=name) if is_on else t("Switch {name} on?", name=name)
        text = t("All requests of this user are refused.") if is_on else ""
        if await confirmed(t, title, text, action=t("Yes"), dangerous=is_on):
            info = UserInfo(username=name, user_status="disable" if is_on else "enable")
            await self._everywhere(
                "User switched off" if is_on else "User switched on",
                name,
                lambda api, at: access.update_user(api, at, info),
            )

    async def _delete_user(self, name: str) -> None:
        t = self._view.t
        title = t("Delete the user {name}?", name=name)
        if await confirmed(t, title, "", action=t("Delete"), dangerous=True):
            await self._everywhere(
                "User deleted", name, lambda api, at: access.delete_user(api, at, name)
            )

    async def create_policy(self) -> None:
        t = self._view.t
        names = [each.username or "" for each in self._users]
        with Form(t, t("New policy"), action=t("Create")) as form:
            who = form.choice(t("Who"), dict(zip(names, names, strict=True)),
                              next(iter(names), None), mark="who")  # fmt: skip
            what = form.text(t("What: Topic:orders, Group:bill*, Cluster:*, or *"), mark="what")
            actions = form.choice(
                t("Actions"), {each: each for each in _ACTIONS}, ["Get"], mark="actions", many=True
            )
            decision = form.choice(
                t("Decision"), {"Allow": t("Allow"), "Deny": t("Deny")}, "Allow", mark="decision"
            )
            sources = form.text(t("From where: addresses or networks, empty for all"), mark="from")

            def is_policy() -> bool:
                try:
                    Entry.parse(
                        (what.value or "").strip(),
                        actions.value,
                        str(decision.value),
                        _words(sources.value),
                    )
                except InvalidPolicy:
                    return False
                return True

            form.require(lambda: bool(who.value), t("A user"))
            form.require(is_policy, t("This is no policy"))
        if not await form.answered():
            return
        entry = PolicyEntry(
            resource=what.value.strip(),
            actions=list(actions.value),
            source_ips=_words(sources.value),
            decision=str(decision.value),
        )
        subject = access.subject_of(str(who.value))
        await self._everywhere(
            "Policy created",
            f"{subject} {entry.decision} {','.join(entry.actions)} {entry.resource}",
            lambda api, at: access.create_acl(api, at, subject, entry),
        )

    async def _delete_policy(self, key: str) -> None:
        t = self._view.t
        subject, kind, resource = key.split("\n")
        text = f"{subject} {resource}"
        if await confirmed(t, t("Delete the policy?"), text, action=t("Delete"), dangerous=True):
            await self._everywhere(
                "Policy deleted",
                text,
                lambda api, at: access.delete_acl(api, at, subject, resource, kind or None),
            )

    async def _everywhere(self, what: str, target: str, change: Change) -> None:
        view = self._view

        async def every_holder() -> None:
            for address in await access.holders(view.api):
                await change(view.api, address)

        if await view.change(what, target, every_holder, role=Role.ADMIN):
            await self._page.again()


def _words(text: str | None) -> list[str]:
    return (text or "").replace(",", " ").split()
