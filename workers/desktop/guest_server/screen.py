"""What is on the screen? Screenshots with the pointer in them, one at a time, and the screen's size, pointer and wallpaper."""

from __future__ import annotations

import io
import os
import threading
from typing import Any
from urllib.parse import unquote, urlparse

from PIL import Image, ImageGrab
from Xlib.display import Display

from .answers import Answer, Request, Routes, as_json, as_text
from .files import Files
from .identity import User
from .run import run

PNG_LEVEL = 1
"""Half the time of the usual 6, for twice the bytes, which stay on this machine."""
BACKGROUND = ("org.gnome.desktop.background", "picture-uri")


class Screen:
    """The routes about the screen. They share one connection to the X server: one more a screenshot would fill it."""

    def __init__(self, user: User, files: Files) -> None:
        self._user = user
        self._files = files
        self._lock = threading.Lock()
        self._display: Any = None

    def routes(self) -> Routes:
        """Their table."""
        return {
            ("GET", "/screenshot"): self.screenshot,
            ("POST", "/screen_size"): self.size,
            ("GET", "/cursor_position"): self.pointer,
            ("POST", "/wallpaper"): self.wallpaper,
            ("POST", "/setup/change_wallpaper"): self.change_wallpaper,
        }

    def display(self) -> Any:
        """The connection; opened again where the X server closed it. Call it with the lock held."""
        try:
            if self._display is not None:
                self._display.sync()
                return self._display
        except Exception:
            self._display = None
        self._display = Display(self._user.env["DISPLAY"])
        self._display.xfixes_query_version()
        return self._display

    def pixels(self) -> tuple[int, int]:
        """Width and height."""
        with self._lock:
            root = self.display().screen().root.get_geometry()
            return root.width, root.height

    def screenshot(self, request: Request) -> Answer:
        """The screen as PNG, the pointer drawn."""
        with self._lock:
            display = self.display()
            picture = ImageGrab.grab(xdisplay=self._user.env["DISPLAY"])
            draw_pointer(picture, display)
        file = io.BytesIO()
        picture.save(file, "PNG", compress_level=PNG_LEVEL)
        return Answer(file.getvalue(), 200, "image/png")

    def size(self, request: Request) -> Answer:
        """The screen's size."""
        width, height = self.pixels()
        return as_json({"width": width, "height": height})

    def pointer(self, request: Request) -> Answer:
        """Where the pointer is."""
        with self._lock:
            at = self.display().screen().root.query_pointer()
            return as_json([at.root_x, at.root_y])

    def wallpaper(self, request: Request) -> Answer:
        """The picture that the settings name."""
        ended = run(self._user, ["gsettings", "get", *BACKGROUND], shell=False, timeout=10)
        path = unquote(urlparse(ended.output.strip().strip("'")).path)
        with self._user.files():
            there = os.path.isfile(path)
        return self._files.sent(path) if there else as_json({"error": "Wallpaper file not found"}, 404)

    def change_wallpaper(self, request: Request) -> Answer:
        """Set the picture in the settings and draw it."""
        name = request.json().get("path")
        if not name:
            return as_text("Path not supplied!", 400)
        path = self._user.path(str(name))
        with self._user.files():
            there = os.path.isfile(path)
        if not there:
            return as_text(f"File not found: {path}", 404)
        try:
            for command in (["gsettings", "set", *BACKGROUND, f"file://{path}"], ["feh", "--no-fehbg", "--bg-fill", path]):
                ended = run(self._user, command, shell=False, timeout=30)
                if ended.returncode != 0:
                    return as_text(f"Failed to change wallpaper. Error: {ended.error}", 500)
        except OSError as error:
            return as_text(f"Failed to change wallpaper. Error: {error}", 500)
        return as_text("Wallpaper changed successfully")


def draw_pointer(picture: Image.Image, display: Any) -> None:
    """Draw the pointer where it is: the X server's pictures are without it."""
    cursor = display.xfixes_get_cursor_image(display.screen().root)
    if not cursor.width or not cursor.height:
        return
    data = b"".join((pixel & 0xFFFFFFFF).to_bytes(4, "little") for pixel in cursor.cursor_image)
    shape = Image.frombytes("RGBA", (cursor.width, cursor.height), data, "raw", "BGRa")
    picture.paste(shape, (cursor.x - cursor.xhot, cursor.y - cursor.yhot), shape)
