"""The webhook: admission reviews over TLS.

``app`` speaks HTTP, ``service`` holds the parts of a running webhook, ``loading`` makes them from the settings, ``tls``
makes the SSL context, ``worker`` and ``serve`` run the app under gunicorn, ``command`` reads the options.
"""
