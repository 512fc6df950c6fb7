"""The webhook: admission reviews over TLS.

``app`` speaks HTTP, ``service`` knows what is in force (policy, queue states, keys), ``sources`` reloads files,
``tls`` makes the SSL context, ``worker`` and ``serve`` run it under gunicorn, ``command`` reads the options.
"""
