"""A whole cluster in one process, decided by a seed and replayed by it.

    python -m simulation --seed 7 --minutes 5

NameServers, brokers and clients are the real ones, unchanged. What a machine would decide is
decided here instead, by one source of chance:

    loop.py       time, which passes only when nobody has anything to do
    network.py    who can reach whom, and how long that takes
    disk.py       what is left of a file after a crash
    process.py    which of the tasks belong to which program, and how a program dies
    cluster.py    what runs where
    plan.py       all that a seed decides before a run
    workload.py   what producers and consumers do
    faults.py     what goes wrong, and when
    history.py    what was asked, answered and seen
    checks.py     what must be true of a history
    run.py        one seed from beginning to end
    mutants.py    planted mistakes, each of which must be found

The same seed gives the same history, to the last byte.
"""
