"""The one door: paths, zones, trust, sessions, audit, staging. Knows nothing of the layers above."""
