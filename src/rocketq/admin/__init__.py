"""mqadmin's sub-commands as functions that return data.

Every function takes the RPC layer of a client first; `connected` opens one. Printing is left
to whoever calls: the command line makes tables of what comes back, the console pages.

    async with connected("127.0.0.1:9876") as api:
        print(await topics.names(api))
"""

from rocketq.admin.errors import AdminError
from rocketq.admin.session import connected

__all__ = ["AdminError", "connected"]
