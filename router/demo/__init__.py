"""The demonstration: real admission reviews over real TLS, real scripts on the embedded queue, without a cluster.

It plays the parts that are missing without a control plane, and says so: the API server (posts the reviews, applies
the patches), the Job controller (makes Pods of Jobs) and the agent (writes a Pod's directory, submits, follows), the
last through the same functions as the agent.
"""
