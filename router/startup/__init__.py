"""What a program does before it serves: options, settings, files that are read anew, logs."""
