"""Two outputs of one command, compared up to what no two brokers have in common.

Addresses, times, ids and process numbers are masked everywhere, figures that depend on the
moment only in commands that print them. The order of lines does not count where Java prints a
hash table, and columns are compared word by word, since their width follows their contents.
"""

import difflib
import re

from peers.admin_commands import LASTS_MS

MASKS = [
    (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([,:.]\d+)?", "TIME"),
    (r"\b[0-9A-F]{32}\b", "ID"),
    (r"\b\d+\.\d+\.\d+\.\d+@[\w.-]+(#\d+)*|\b\d+@[\w-]+#\d+", "CLIENT"),
    (r"\b\d+\.\d+\.\d+\.\d+:\d+", "ADDRESS"),
    (r"\bCLIENT:\d+", "CLIENT"),
    (r"\b1[789]\d{11}\b", "MILLIS"),
    (r"\b\d+ ?ms\b", "DURATION"),
    # Trace records hold addresses, so what lies behind them is not at the same place.
    (r"(commitLogOffset=|CommitLog Offset: +|@ID@)\d+", r"\1PLACE"),
    # Objects of the JVM that printed it.
    (r"(@[0-9a-f]{5,8}|\$\$Lambda\S*)", "OBJECT"),
    (r"(?i)(spentTimeMills=|listenPort = )\d+", r"\1N"),
    (r"\b\d+#\d{6,}", "PROCESS"),
    (r"\S*rocketq-peers-\S*|/tmp/\S+", "PATH"),
    (r"\bV\d_\d+_\d+(_\w+)?", "VERSION"),
    # How many rates there are in a row depends on how long a broker runs already.
    (r"-?\b\d+\.\d+(E-?\d+)?\b( +-?\b\d+\.\d+(E-?\d+)?\b)*", "REAL"),
]
# Commands whose integers are of the moment: rates, durations, sizes, counters.
WITH_FIGURES = {
    *("brokerStatus", "clusterList", "clusterRT", "checkMsgSendRT", "sendMsgStatus", "haStatus"),
    *("statsAll", "exportMetrics", "consumerStatus", "topicStatus", "queryCq"),
}
# Commands that print options: those that both brokers have are compared. Java's has hundreds
# about thread pools, RocksDB, pop and the proxy that mean nothing here.
WITH_OPTIONS = {"getBrokerConfig", "getNamesrvConfig"}
# Lines that rocketq prints on purpose, with the reason beside them.
OURS = {
    # 4.9's names beside those of 5.x, for the tools of both.
    "brokerStatus": re.compile(r"\b(brokerVersion|getTransferedTps) *:"),
    # A master that is gone is noticed sooner.
    "getBrokerConfig": re.compile(r"^(brokerHeartbeatInterval|controllerHeartBeatTimeoutMills) ="),
}


def lines_of(command: str, output: str) -> list[str]:
    output = "\n".join(" ".join(line.split()) for line in output.splitlines())
    for pattern, mask in MASKS:
        output = re.sub(pattern, mask, output)
    if command in WITH_FIGURES:
        # Whether a size is said in bytes or in more depends on the moment, too.
        output = re.sub(r"\b(REAL|\d+) ([KMG]i)?B\b", "SIZE", output)
        output = re.sub(r"-?\b\d+\b", "N", output)
    lines = output.splitlines()
    if command in OURS:
        lines = [line for line in lines if not OURS[command].search(line)]
    if command in LASTS_MS:
        lines = list(set(lines))  # how many rounds there are depends on how fast they are
    # A stack trace says in which line of Java something failed; its first line says what.
    return sorted(line for line in lines if line and not line.startswith(("at ", "... ")))


def of_tools(output: str) -> str:
    """What two tools may print differently of the same broker, on purpose or by their nature."""
    if "Exception" in output or output.startswith("rocketq: "):
        return "FAILED"  # Java shows a stack trace, ours says it in a line
    output = re.sub(r"\{[^{}]*=[^{}]*\}", _sorted_map, output)
    output = re.sub(r"(storeSize=|Store Size: +)\d+", r"\1SIZE", output)
    # A consumer of Java's tool is a group of its own from then on.
    lines = [line for line in output.splitlines() if "TOOLS_CONSUMER" not in line]
    output = re.sub(r"(write perm .* OK, )\d+", r"\1N", "\n".join(lines))
    # Java names the NameServers only if they came by -n.
    return re.sub(r"(update name server config success!).*", r"\1", output)


def _sorted_map(match: re.Match[str]) -> str:
    """Java prints a hash table; and its clients send WAIT=true, which is what is meant anyway."""
    entries = sorted(match[0][1:-1].split(", "))
    return "{" + ", ".join(entry for entry in entries if entry != "WAIT=true") + "}"


def option_of(line: str) -> str:
    return line.partition(" = ")[0]


def difference(command: str, theirs: str, ours: str) -> str:
    """Nothing, or the lines that only one of the two prints."""
    expected, printed = lines_of(command, theirs), lines_of(command, ours)
    if command in WITH_OPTIONS:
        common = {option_of(line) for line in expected} & {option_of(line) for line in printed}
        expected = [line for line in expected if option_of(line) in common]
        printed = [line for line in printed if option_of(line) in common]
    changes = difflib.unified_diff(expected, printed, lineterm="", n=0)
    found = [line for line in changes if not line.startswith(("---", "+++", "@@"))]
    shown = " ".join(f"[{line}]" for line in found[:6])
    return shown + (f" and {len(found) - 6} more" if len(found) > 6 else "")
