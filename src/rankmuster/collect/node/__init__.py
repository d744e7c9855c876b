"""What the node itself says: GPUs, network ports, the kernel, and the processes of the instance from outside."""
