"""The demonstration: real admission reviews over real TLS, and real scripts on the embedded queue.

Without a control plane, the demo plays the missing parts, and says so. It is the API server (posts the reviews, applies
the patches), the Job controller (makes Pods of Jobs) and the agent (writes a Pod's directory, submits, follows). The
last part uses the agent's own functions.
"""
