"""The history of benchmark results, fingerprints, change points and admissions: one SQLite file, or PostgreSQL."""
