"""What a Job asks for."""
