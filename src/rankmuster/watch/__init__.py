"""Is the instance advancing, slow, idle or stopped, look after look.

`progress` judges, `signals` bring what is judged, `respond` acts on a stop, `export` tells others; `agent` runs them.
"""
