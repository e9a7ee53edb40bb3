"""Where commands run: providers behind one small interface."""
