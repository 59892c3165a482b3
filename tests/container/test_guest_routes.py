"""Does the guest server answer OSWorld's routes as OSWorld's clients need it?"""

from __future__ import annotations

import io
import threading
import xml.etree.ElementTree as ElementTree

import pytest
from container_desktops import Site
from PIL import Image

pytestmark = pytest.mark.desktop


def test_screenshots_asked_for_at_once_are_whole(site: Site) -> None:
    """Eight clients at once each get a PNG of the screen's size, the pointer in it."""
    pictures: list[bytes] = []
    threads = [threading.Thread(target=lambda: pictures.append(Site(_port(site)).get("/screenshot").content)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pictures) == 8
    for picture in pictures:
        with Image.open(io.BytesIO(picture)) as image:
            image.load()
            assert (image.format, image.size) == ("PNG", (1920, 1080))


def _port(site: Site) -> int:
    return int(site.origin.rpartition(":")[2])


def test_screenshot_shows_the_pointer(site: Site) -> None:
    """Where nothing else is, the only pixels that differ are around the pointer."""
    site.act("pyautogui.moveTo(600, 500)")
    with Image.open(io.BytesIO(site.get("/screenshot").content)) as image:
        around = image.crop((590, 490, 620, 530)).getcolors()
        away = image.crop((700, 490, 730, 530)).getcolors()
    assert around is not None
    assert len(around) > 1
    assert away == [(1200, (0x30, 0x50, 0x70))]


def test_small_questions(site: Site) -> None:
    """Ping, platform, sizes, pointer, folder of the desktop."""
    assert site.get("/terminal").json() == {"output": None, "status": "success"}
    assert site.get("/platform").text == "Linux"
    assert site.post("/screen_size").json() == {"width": 1920, "height": 1080}
    site.act("pyautogui.moveTo(321, 123)")
    assert site.get("/cursor_position").json() == [321, 123]
    assert site.post("/desktop_path").json() == {"desktop_path": "/home/user/Desktop"}
    assert site.get("/no/such/route").status_code == 404
    assert site.get("/execute").status_code == 405


@pytest.mark.parametrize("route", ["/execute", "/setup/execute"])
def test_execute(site: Site, route: str) -> None:
    """Lists, strings and shells; any exit code is an answer; what cannot start is a 500 that says why."""
    said = site.post(route, command=["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (said.status_code, said.json()) == (
        200,
        {"status": "success", "output": "out\n", "error": "err\n", "returncode": 3},
    )
    assert site.post(route, command="printf '%s' 'a b'").json()["output"] == "a b"
    assert site.post(route, command="echo $USER; pwd", shell=True).json()["output"] == "user\n/home/user\n"
    assert site.post(route, command=["ls", "-d", "~/Desktop"]).json()["output"] == "/home/user/Desktop\n"
    refused = site.post(route, command=["no-such-program"])
    assert refused.status_code == 500
    assert refused.json() == {"status": "error", "message": "[Errno 2] No such file or directory: 'no-such-program'"}


@pytest.mark.parametrize("route", ["/execute_with_verification", "/setup/execute_with_verification"])
def test_execute_with_verification(site: Site, route: str) -> None:
    """What was asked to come is waited for; what does not come is a 500."""
    there = site.post(
        route, command="touch sign", shell=True, verification={"command_success": "test -e sign"}, max_wait_time=60
    )
    assert there.json()["verification"] == "passed"
    wanted = {"window_exists": "No such window"}
    missing = site.post(route, command=["true"], verification=wanted, max_wait_time=0.3, check_interval=0.1)
    assert (missing.status_code, missing.json()["status"]) == (500, "verification_failed")


def test_files(site: Site) -> None:
    """What is uploaded comes back byte for byte, as the user's; what is not there is 404, what is refused 500."""
    data = bytes(range(256)) * 50 + b"\r\n--x\r\n\r\n"
    sent = site.form("/setup/upload", files={"file_data": data}, file_path="~/new/folder/file.bin")
    assert sent.text == f"File Uploaded: {len(data)} bytes"
    assert site.form("/file", file_path="new/folder/file.bin").content == data
    assert site.run("stat -c %U new/folder/file.bin") == "user\n"
    missing = site.form("/file", file_path="new/nothing")
    assert (missing.status_code, missing.json()) == (404, {"error": "File not found"})
    assert site.form("/file").status_code == 400
    assert site.form("/file", file_path="/etc/shadow").status_code == 500
    assert site.form("/setup/upload", file_path="x").status_code == 400
    assert site.form("/setup/upload", files={"file_data": b""}, file_path="/etc/x").status_code == 500
    tree = site.post("/list_directory", path="/home/user/new").json()["directory_tree"]
    inside = {"type": "directory", "name": "folder", "children": [{"type": "file", "name": "file.bin"}]}
    assert tree == {"type": "directory", "name": "new", "children": [inside]}
    assert site.post("/list_directory", path="/no/such").status_code == 400
    assert site.post("/setup/download_file", url="http://127.0.0.1:5000/platform", path="got").status_code == 200
    assert site.run("cat got") == "Linux"
    assert site.post("/setup/download_file", url="http://127.0.0.1:1/", path="got").status_code == 500
    assert site.post("/setup/download_file", path="got").status_code == 400


def test_windows(site: Site) -> None:
    """A file opens in its program; the window is found by class, brought to the front, and closed."""
    site.run("echo hello > ~/Documents/notes-7.txt")
    assert site.post("/setup/open_file", path="Documents/notes-7.txt").text.startswith("File opened")
    size = site.form("/window_size", app_class_name="mousepad").json()
    assert min(size["width"], size["height"]) > 100
    for route in ("/setup/activate_window", "/setup/close_window"):
        assert site.post(route, window_name="notes-7").status_code == 200
        assert site.post(route, window_name="no such window", strict=True, by_class=True).status_code == 200
        assert site.post(route).status_code == 400
    site.run("timeout 50 sh -c 'while wmctrl -l | grep notes-7; do sleep 0.1; done'")
    assert site.form("/window_size").status_code == 400
    assert site.form("/window_size", app_class_name="no-such").status_code == 500
    assert site.post("/setup/open_file").status_code == 400
    assert site.post("/setup/open_file", path="no/such/file").status_code == 404
    site.run("head -c 100 /dev/urandom > noise.xyz")
    assert site.post("/setup/open_file", path="noise.xyz").status_code == 500


def test_launch(site: Site) -> None:
    """A program is left running; one that is not there is told."""
    assert site.post("/setup/launch", command=["xterm"]).text == "xterm launched successfully"
    assert site.post("/legato/ready", title="user@", cap=60).json()["title"]
    assert site.post("/setup/launch", command="no-such-program x").status_code == 500


def test_accessibility(site: Site) -> None:
    """The tree has an open program's window, its states and its place on the screen."""
    site.post("/setup/open_file", path="mousepad")
    tree = ElementTree.fromstring(site.get("/accessibility").json()["AT"])
    assert tree.tag == "desktop-frame"
    frame = next(frame for frame in tree.iter("frame") if "Mousepad" in frame.get("name", ""))
    space = "{https://accessibility.ubuntu.example.org/ns/%s}%s"
    assert frame.get(space % ("state", "showing")) == "true"
    assert frame.get(space % ("component", "size")) not in (None, "(0, 0)")


def test_wallpaper(site: Site) -> None:
    """None at first; what is set is drawn and comes back."""
    assert site.post("/wallpaper").status_code == 404
    red = io.BytesIO()
    Image.new("RGB", (64, 36), (200, 10, 10)).save(red, "PNG")
    site.form("/setup/upload", files={"file_data": red.getvalue()}, file_path="~/Pictures/red one.png")
    assert site.post("/setup/change_wallpaper", path="~/Pictures/red one.png").status_code == 200
    assert site.post("/wallpaper").content == red.getvalue()
    with Image.open(io.BytesIO(site.get("/screenshot").content)) as image:
        assert image.getpixel((1900, 600)) == (200, 10, 10)
    assert site.post("/setup/change_wallpaper", path="no/such.png").status_code == 404
    assert site.post("/setup/change_wallpaper").status_code == 400


def test_scripts(site: Site) -> None:
    """Python and bash scripts tell outputs and exit code."""
    said = site.post("/run_python", code="import sys; print(1 + 1); sys.exit(3)").json()
    assert (said["status"], said["output"], said["return_code"]) == ("error", "2\n", 3)
    assert site.post("/run_python").status_code == 400
    said = site.post("/run_bash_script", script="echo a; echo b >&2; pwd", working_dir="/tmp").json()
    assert said == {"status": "success", "output": "a\nb\n/tmp\n", "error": "", "returncode": 0}
    assert site.post("/run_bash_script", script="sleep 60", timeout=0.2).status_code == 500
    assert site.post("/run_bash_script").status_code == 400


def test_recording_is_refused_without_ffmpeg(site: Site) -> None:
    """No film is promised that nobody makes."""
    refused = site.post("/start_recording")
    assert (refused.status_code, refused.json()["status"]) == (500, "error")
    assert site.post("/end_recording").status_code == 400


def test_bad_requests_are_answers(site: Site) -> None:
    """No JSON, or JSON that is no object, is 400 and takes nothing down."""
    assert site.form("/execute", command="x").status_code == 400
    assert site.post("/legato/ready", title="(").status_code == 400
    assert site.post("/legato/ready", quiet=-1).status_code == 400
    assert site.post("/legato/ready", nonsense=1).status_code == 400
    assert site.post("/legato/act").status_code == 400
    assert site.post("/legato/lease", seconds=-5).status_code == 400
    assert site.get("/legato/health").json()["ok"]
