"""The program inside a container desktop: OSWorld's guest API, and `/legato/` for what that API lacks.

It runs as root, on Debian's Python 3.11 with python-xlib, pyautogui and Pillow, and imports nothing of the rest of this
project. Whatever the policy or a task runs, and whatever file they name, is run and opened as the desktop's user.
"""
