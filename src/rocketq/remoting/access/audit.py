"""The audit log: one record for each refused request and each change of who may do what."""

import logging
from typing import Final

from rocketq.remoting.access.signature import ACCESS_KEY
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.wire.command import Command

audit = logging.getLogger("rocketq.audit")

_LONGEST_NAME: Final = 256


def refused_line(peer: str, request: Command, cause: RequestRejected) -> None:
    audit.warning(
        "refused",
        extra={
            "code": request.code,
            "peer": peer,
            "user": request.ext_fields.get(ACCESS_KEY, "")[:_LONGEST_NAME],
            "reason": cause.remark,
        },
    )


def change_line(change: str, peer: str, request: Command, subject: str) -> None:
    audit.info(
        change,
        extra={
            "subject": subject,
            "peer": peer,
            "user": request.ext_fields.get(ACCESS_KEY, "")[:_LONGEST_NAME],
        },
    )
