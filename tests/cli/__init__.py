"""The command `vfs` as people and scripts run it."""
