"""`rankmuster run`: one host's process group, started whole, ended whole."""
