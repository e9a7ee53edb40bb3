"""vfs: a sandbox kernel for AI agents."""
