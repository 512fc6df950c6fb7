"""Jobs of a real control plane on a real OpenPBS, end to end. ``site`` says what these tests need."""
