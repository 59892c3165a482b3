"""What do OSWorld's routes for files do? All as the desktop's user: what that may not read or write is refused."""

from __future__ import annotations

import mimetypes
import os
import urllib.request
from typing import Any

from .answers import Answer, Request, Routes, as_json, as_text, failed
from .identity import User

DOWNLOAD_S = 300.0
CHUNK = 1 << 20


class Files:
    """The routes that read, write and list files."""

    def __init__(self, user: User) -> None:
        self._user = user

    def routes(self) -> Routes:
        """Their table."""
        return {
            ("POST", "/file"): self.read,
            ("POST", "/setup/upload"): self.upload,
            ("POST", "/setup/download_file"): self.download,
            ("POST", "/list_directory"): self.listing,
            ("POST", "/desktop_path"): self.desktop,
        }

    def read(self, request: Request) -> Answer:
        """A file's bytes."""
        name = request.field("file_path")
        if not name:
            return as_json({"error": "file_path is required"}, 400)
        try:
            return self.sent(self._user.path(name))
        except (FileNotFoundError, NotADirectoryError):
            return as_json({"error": "File not found"}, 404)
        except OSError as error:
            return as_json({"error": str(error)}, 500)

    def sent(self, path: str) -> Answer:
        """The file as an attachment. OSError where the user cannot read it."""
        with self._user.files(), open(path, "rb") as file:
            data = file.read()
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        return Answer(data, 200, kind, {"Content-Disposition": "attachment"})

    def upload(self, request: Request) -> Answer:
        """Write a file, and the folders to it."""
        fields = request.form()
        if not fields.get("file_path") or "file_data" not in fields:
            return failed("file_path and file_data are required", 400)
        path = self._user.path(fields["file_path"].decode("utf-8", "replace"))
        data = fields["file_data"]
        try:
            with self._user.files():
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(data)
        except OSError as error:
            return failed(str(error))
        return as_text(f"File Uploaded: {len(data)} bytes")

    def download(self, request: Request) -> Answer:
        """Fetch a file over the guest's own network."""
        asked = request.json()
        url, name = asked.get("url"), asked.get("path")
        if not url or not name:
            return as_text("Path or URL not supplied!", 400)
        path = self._user.path(str(name))
        try:
            with urllib.request.urlopen(str(url), timeout=DOWNLOAD_S) as source, self._user.files():
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    while chunk := source.read(CHUNK):
                        file.write(chunk)
        except (OSError, ValueError) as error:
            return as_text(f"Failed to download {url}. Error: {error}", 500)
        return as_text("File downloaded successfully")

    def listing(self, request: Request) -> Answer:
        """A folder's tree of names."""
        name = request.json().get("path")
        path = self._user.path(str(name)) if name else ""
        with self._user.files():
            if not os.path.isdir(path):
                return as_json({"error": "The provided path is not a directory"}, 400)
            return as_json({"directory_tree": tree(path)})

    def desktop(self, request: Request) -> Answer:
        """The folder that the desktop shows."""
        path = os.path.join(self._user.home, "Desktop")
        if not os.path.isdir(path):
            return as_json({"error": "Desktop path not found"}, 404)
        return as_json({"desktop_path": path})


def tree(path: str) -> dict[str, Any]:
    """A folder as OSWorld's `list_directory` getter reads it; what cannot be listed is empty."""
    children: list[dict[str, Any]] = []
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError:
        entries = []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            children.append(tree(entry.path))
        else:
            children.append({"type": "file", "name": entry.name})
    return {"type": "directory", "name": os.path.basename(path), "children": children}
