"""The commands, one subject a module; each is imported when it is called."""
