"""Rows that are in the topic once, whatever fails: `delivery=exactlyOnce`.

Brokers of RocketMQ take whatever anybody sends, so what they hold decides: an attempt that may not
be the first looks at what earlier ones have left in the topic, and sends the rest. For that to be
true it needs three things, each of which an ordinary broker has:

    lease     only one attempt at a partition of a sink sends at a time: the broker's queue lock
    marks     a message before the first row says where the rows of this attempt begin
    digests   which rows are there is found by what they say, not by their place

docs/spark.md has the protocol and why it holds.
"""
