"""Administration of access: plain ACL files, then users and policies."""

from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, ResponseHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAclConfig(RequestHeader):
    """Creates or changes an account; permissions are comma lists of `name=PUB|SUB`."""

    CODE: ClassVar = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclConfig(RequestHeader):
    """Deletes an account."""

    CODE: ClassVar = RequestCode.DELETE_ACL_CONFIG

    access_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerClusterAclInfoResponse(ResponseHeader):
    """The version of the accounts on a broker."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateGlobalWhiteAddrsConfig(RequestHeader):
    """Sets the addresses that need no account."""

    CODE: ClassVar = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG

    global_white_addrs: str
    acl_file_full_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateUser(RequestHeader):
    """Creates a user, who is in the body; with code 3002 changes one."""

    CODE: ClassVar = RequestCode.AUTH_CREATE_USER

    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteUser(RequestHeader):
    """Deletes a user."""

    CODE: ClassVar = RequestCode.AUTH_DELETE_USER

    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetUser(RequestHeader):
    """Asks for a user."""

    CODE: ClassVar = RequestCode.AUTH_GET_USER

    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListUsers(RequestHeader):
    """Asks for the users whose names contain a text."""

    CODE: ClassVar = RequestCode.AUTH_LIST_USER

    filter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAcl(RequestHeader):
    """Creates policies, which are in the body; with code 3007 changes them."""

    CODE: ClassVar = RequestCode.AUTH_CREATE_ACL

    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAcl(RequestHeader):
    """Deletes policies of a subject."""

    CODE: ClassVar = RequestCode.AUTH_DELETE_ACL

    subject: str
    policy_type: str | None = None
    resource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAcl(RequestHeader):
    """Asks for the policies of a subject."""

    CODE: ClassVar = RequestCode.AUTH_GET_ACL

    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAcls(RequestHeader):
    """Asks for the policies whose subjects and resources contain a text."""

    CODE: ClassVar = RequestCode.AUTH_LIST_ACL

    subject_filter: str = ""
    resource_filter: str = ""
