"""Makes, describes and checks certificates and keys.

``issuing`` makes them and ``checking`` judges them (pure: bytes in, values out); ``files`` reads and writes,
``commands`` is the command line.
"""
