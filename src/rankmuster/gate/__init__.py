"""Whether a release may take traffic: the launch checklist as checks, the records of approvals, and the way back."""
