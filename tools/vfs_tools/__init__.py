"""Faces of the sandbox for people and models: the command, tool functions, adapters."""
