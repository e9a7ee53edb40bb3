"""Where commands run: providers, the jail, and one command's life from the mount to the summary (seed 000)."""
