"""The web console: pages over `rocketq.admin`, in a process of its own.

It is a client like any other. What it shows comes over remoting from NameServers and brokers,
RocketMQ's own ones too, and what it changes is what mqadmin would change.

    app.py         puts the console together and serves it
    collector.py   asks the cluster on behalf of all pages, and remembers figures
    access.py      who is logged in, and what they may do
    guard.py       which requests are let in at all
    pages/         one page a module
    widgets/       what pages are made of
    texts.py       English and Chinese
"""
