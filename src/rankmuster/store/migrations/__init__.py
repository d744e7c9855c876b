"""How the tables came to be: one file per version, run by alembic (`store/migrate.py`)."""
