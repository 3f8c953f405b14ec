"""From accounts of RocketMQ 4 to users and policies, as RocketMQ 5 takes them over.

    accessKey, secretKey, admin        a user, super where it was an administrator
    topicPerms, groupPerms             Custom entries for exactly these
    defaultTopicPerm, defaultGroupPerm Default entries for all topics, all groups

White lists are not taken over: there is no user to whom they would belong. Who is a user
already is left alone.
"""

from rocketq.common.access import (
    Acl,
    Action,
    Decision,
    Entry,
    PolicyType,
    Resource,
    ResourceType,
    User,
    UserType,
)
from rocketq.remoting.access.directory import AccessDirectory
from rocketq.remoting.access.plain.accounts import PlainAccount
from rocketq.remoting.access.plain.files import PlainFiles

_ACTIONS = {
    "PUB": frozenset({Action.PUB}),
    "SUB": frozenset({Action.SUB}),
    "PUB|SUB": frozenset({Action.PUB, Action.SUB}),
    "SUB|PUB": frozenset({Action.PUB, Action.SUB}),
}


def migrate(files: PlainFiles, directory: AccessDirectory) -> list[str]:
    """Make users of accounts; the names of those that were made."""
    made = []
    for account in files.accounts:
        name = account.access_key
        if directory.user(name) is not None:
            continue
        kind = UserType.SUPER if account.is_admin else UserType.NORMAL
        directory.put_user(User(name, account.secret_key, kind))
        acl = _acl(account)
        if not acl.is_empty:
            directory.put_acl(name, acl)
        made.append(name)
    return made


def _acl(account: PlainAccount) -> Acl:
    custom = [
        _entry(Resource(kind, perm.partition("=")[0].strip()), perm.partition("=")[2].strip())
        for kind, perms in (
            (ResourceType.TOPIC, account.topic_perms),
            (ResourceType.GROUP, account.group_perms),
        )
        for perm in perms
    ]
    default = [
        _entry(Resource(kind), right)
        for kind, right in (
            (ResourceType.TOPIC, account.default_topic_perm),
            (ResourceType.GROUP, account.default_group_perm),
        )
        if right
    ]
    acl = Acl()
    if custom:
        acl = acl.merged(PolicyType.CUSTOM, custom)
    if default:
        acl = acl.merged(PolicyType.DEFAULT, default)
    return acl


def _entry(resource: Resource, right: str) -> Entry:
    """A text that is no right meant DENY in RocketMQ 4, and stays one here."""
    if right in _ACTIONS:
        return Entry(resource, _ACTIONS[right], Decision.ALLOW)
    return Entry(resource, frozenset({Action.ALL}), Decision.DENY)
