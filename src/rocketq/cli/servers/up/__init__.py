"""`rocketq up`: a whole RocketMQ on one machine.

`command` reads the options and runs one broker in this process; `several` runs more of them in
processes of their own, `elected` three of one name with a controller.
"""
