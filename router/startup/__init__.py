"""Start-up code of the programs: options, settings, files that are reloaded, logs."""
