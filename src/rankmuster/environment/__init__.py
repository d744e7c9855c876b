"""The variables that make an instance leave evidence: what to set (profiles), what is wrong (check), how much
(calibrate)."""
