"""What operators see of a cluster: its queues and Jobs, the history of one Job, the remains of a site.

Pure: turns API objects into frozen values, from which the CLI makes tables or JSON. The caller sends the requests and
passes the time.
"""
