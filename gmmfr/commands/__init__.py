"""The commands of ``gmmfr``, one module each."""
