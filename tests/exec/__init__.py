"""Commands in the jail and beside it, on a plain directory and on the real mount."""
