"""The embedded queue: a one-machine batch system for trying Batchgate out and for tests."""
