"""Logs and the engine's metrics page: `nccl.NcclLogs`, `framework.FrameworkLogs`, `pages.EnginePages`."""
