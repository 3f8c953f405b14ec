"""What a broker is, master or slave, and what it does because of it.

`role` is the one value and its one owner; `services` runs what belongs to a role; a slave
finds its master through `master_location`, compares the logs in `comparison` before it follows,
copies tables in `metadata_sync`, and answers readers by `reading`.
"""
