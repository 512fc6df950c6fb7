"""Jobs of two people on the bed's Slurm: the whole way, over a real sshd and through real sudo. ``make bed`` first."""
