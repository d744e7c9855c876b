"""Logs and the engine's metrics page: `nccl_logs.NcclLogs`, `framework_logs.FrameworkLogs`,
`engine_pages.EnginePages`."""
