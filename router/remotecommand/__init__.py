"""The streams of `kubectl exec` and `attach` as an API server speaks them to a kubelet: SPDY/3.1 and WebSockets.

``session`` joins a client's streams to a command on a node; ``spdy`` and ``requests`` are pure.
"""
