"""Batches that appear as a whole or not at all: `delivery=transactional`.

    task      sends its rows as half messages, which nobody sees, and says where they are
    driver    writes down which of them are the batch, ends them, and writes down that it is done
    anybody   who finds a batch that was decided and not done ends the rest of it

    halves    half messages of a task, and where they are
    ledger    what was decided about the batches of a topic
    ends      requests that make half messages visible
    commit    what the driver does
    checks    the answer to a broker that asks about half messages nobody has ended

docs/spark.md has the protocol and why it holds.
"""
