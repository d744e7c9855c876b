"""A verdict and its evidence, told: terminal, JSON, HTML and Perfetto. Values in, text out; nothing is opened here."""
