"""Certificates and keys: made, described and checked.

``issuing`` makes them and ``checking`` judges them (pure: bytes in, values out); ``files`` reads and writes,
``commands`` is the command line.
"""
