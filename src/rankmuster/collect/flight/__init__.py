"""Takes what PyTorch's Flight Recorder knows: files that a watchdog wrote, dumps by named pipe, the debug server.

`files.DumpFiles` takes dump files and asks for new ones through pipes, `debug_server.DebugServer` asks torch's worker
servers. Both take at once what would be overwritten, and ask a process for nothing that could slow a healthy job.
"""
