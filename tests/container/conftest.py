"""What these tests need: a Docker engine and the container desktop."""

from __future__ import annotations

from container_desktops import container_desktop, desktop_image, engine, site

__all__ = ["container_desktop", "desktop_image", "engine", "site"]
