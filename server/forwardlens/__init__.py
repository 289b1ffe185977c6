"""ForwardLens: what each expression of a PyTorch forward costs, why, and a fix that was tried."""

__version__ = "0.1.0"
