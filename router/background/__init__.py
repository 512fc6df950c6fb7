"""What runs beside everything else: a thread that does one thing again and again, and pauses that grow with failures."""
