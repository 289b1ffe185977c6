from .editor import editor, shared, start

__all__ = ["editor", "shared", "start"]
