"""What has to be done about a Pod, decided from values alone.

Pure: no clock, file, process, socket. ``model`` are the values, ``outcomes`` what each answer from outside changes in
them, ``planning`` the decision: ``plan(facts, terms, now) -> Plan``. Planning is idempotent: whoever is killed between
two actions plans the same again from what is found in the cluster and on the site.
"""
