"""From one diagnosis' aligned dumps to what `rankmuster flight` shows of them; accuses nobody by itself."""
