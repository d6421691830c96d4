"""The PyPTO kernels. PyPTO reads their source text, so they stay as they are written: no lint rewrites here."""
