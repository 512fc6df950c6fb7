"""Decides from values alone what has to be done about a Pod.

Pure: uses no clock, file, process or socket. ``model`` holds the values, ``outcomes`` changes them after each
answer from outside, and ``planning`` decides: ``plan(facts, terms, now) -> Plan``. Planning is idempotent: an agent
that is killed between two actions makes the same plan again from the state of the cluster and the site.
"""
