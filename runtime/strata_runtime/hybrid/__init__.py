"""Windows whose routed experts are shared out: slots on the device, and the CPU's pool behind a doorbell."""
