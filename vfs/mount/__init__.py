"""The kernel as a directory: one set of path-based operations, and engines that serve it."""
