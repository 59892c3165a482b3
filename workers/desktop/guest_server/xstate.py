"""What does the X server keep after its clients are gone? Read it, put it back, and tell what differs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from Xlib import X
from Xlib.display import Display
from Xlib.ext import xtest
from Xlib.protocol import event, request

FIRST_KEY = 8
KEYS = 248
SELECTIONS = ("PRIMARY", "SECONDARY", "CLIPBOARD")
LOCKS = {X.LockMask: 0xFFE5, X.Mod2Mask: 0xFF7F}
"""Caps Lock and Num Lock: their mask, and the key that turns them."""
BUTTONS = {1: X.Button1Mask, 2: X.Button2Mask, 3: X.Button3Mask, 4: X.Button4Mask, 5: X.Button5Mask}
PLACES = ("_NET_CURRENT_DESKTOP", "_NET_NUMBER_OF_DESKTOPS", "_NET_SHOWING_DESKTOP")
"""What the window manager is asked to set back; its other `_NET_…` follow from the windows."""
ACCESSIBILITY = "AT_SPI_BUS"
"""Names the bus of accessibility, which is started when a program asks for it and ends with the task. Where it still names
the old one, no program finds the next.
"""
OTHERS = ("_NET_", ACCESSIBILITY, "GDK_VISUALS")
"""Properties that programs of the session itself set as they need them."""
LEAKED = 16
"""Clients more than in the baseline that are still no leak."""


@dataclass(frozen=True)
class XState:
    """All of it. Two states that differ in no field are the same to the next task."""

    size: tuple[int, int]
    windows: tuple[int, ...]
    keys_down: tuple[int, ...]
    buttons_down: tuple[int, ...]
    locks: int
    selections: tuple[str, ...]
    properties: tuple[tuple[str, str, int, bytes], ...]
    places: tuple[int, ...]
    keymap: tuple[tuple[int, ...], ...]
    modifiers: tuple[tuple[int, ...], ...]
    pointer_map: tuple[int, ...]
    repeat: tuple[int, bytes]
    clients: int

    def differences(self, now: XState) -> list[str]:
        """Names of the fields in which `now` differs from this state."""
        found = [field.name for field in fields(self) if getattr(self, field.name) != getattr(now, field.name)]
        return [name for name in found if name != "clients" or now.clients > self.clients + LEAKED]


def read_state(display: Any) -> XState:
    """The state now."""
    root = display.screen().root
    size, mask = root.get_geometry(), root.query_pointer().mask
    down = display.query_keymap()
    owned = [name for name in SELECTIONS if display.get_selection_owner(display.intern_atom(name))]
    windows = root.get_full_property(display.intern_atom("_NET_CLIENT_LIST"), 0)
    control = display.get_keyboard_control()
    return XState(
        size=(size.width, size.height),
        windows=tuple(sorted(int(window) for window in (windows.value if windows else ()))),
        keys_down=tuple(8 * byte + bit for byte in range(32) for bit in range(8) if down[byte] >> bit & 1),
        buttons_down=tuple(button for button, bit in BUTTONS.items() if mask & bit),
        locks=sum(bit for bit in LOCKS if mask & bit),
        selections=tuple(owned),
        properties=tuple(sorted(_properties(display, root))),
        places=tuple(_place(display, root, name) for name in PLACES),
        # the server widens its table when a program edits it: the first columns tell
        keymap=tuple(tuple(row[:4]) for row in display.get_keyboard_mapping(FIRST_KEY, KEYS)),
        modifiers=tuple(tuple(row) for row in display.get_modifier_mapping()),
        pointer_map=tuple(display.get_pointer_mapping()),
        repeat=(control.global_auto_repeat, bytes(control.auto_repeats)),
        clients=len(display.res_query_clients().clients),
    )


def _properties(display: Any, root: Any) -> list[tuple[str, str, int, bytes]]:
    """The root window's properties that no program of the session owns: name, type, format, bytes."""
    found = []
    for atom in root.list_properties():
        name = display.get_atom_name(atom)
        value = None if name.startswith(OTHERS) else root.get_full_property(atom, X.AnyPropertyType)
        if value is not None:
            kind = display.get_atom_name(value.property_type)
            data = value.value if value.format == 8 else value.value.tobytes()
            found.append((name, kind, value.format, bytes(data)))
    return found


def _place(display: Any, root: Any, name: str) -> int:
    value = root.get_full_property(display.intern_atom(name), 0)
    return int(value.value[0]) if value and len(value.value) else -1


def layout_command(now: XState, wanted: XState) -> list[str] | None:
    """What lays the keyboard as in `wanted`, where it is laid otherwise. It compiles the whole map anew: `put_back` writes a
    map key by key, which keeps the widths and groups of the layout that is there.
    """
    keyboard = [name for name in ("keymap", "modifiers", "properties") if getattr(now, name) != getattr(wanted, name)]
    names = next((data for name, _, _, data in wanted.properties if name == "_XKB_RULES_NAMES"), None)
    if not keyboard or names is None:
        return None
    rules, model, layout, variant, options = [part.decode() for part in (*names.split(b"\0"), *[b""] * 5)[:5]]
    command = ["setxkbmap", "-rules", rules, "-model", model, "-layout", layout, "-variant", variant, "-option", ""]
    return [*command, "-option", options] if options else command


def put_back(display: Any, wanted: XState, background: int) -> None:
    """Bring the X server to `wanted` as far as it can be asked to, and paint the root window `background` (0xRRGGBB)."""
    root, now = display.screen().root, read_state(display)
    for key in now.keys_down:
        xtest.fake_input(display, X.KeyRelease, key)
    for button in now.buttons_down:
        xtest.fake_input(display, X.ButtonRelease, button)
    if now.keymap != wanted.keymap:
        display.change_keyboard_mapping(FIRST_KEY, list(wanted.keymap))
    if now.modifiers != wanted.modifiers:
        display.set_modifier_mapping(list(wanted.modifiers))
    if now.pointer_map != wanted.pointer_map:
        display.set_pointer_mapping(list(wanted.pointer_map))
    if now.repeat != wanted.repeat:
        display.change_keyboard_control(auto_repeat_mode=wanted.repeat[0])
        for key in range(8 * len(wanted.repeat[1])):
            mode = wanted.repeat[1][key // 8] >> key % 8 & 1
            if now.repeat[1][key // 8] >> key % 8 & 1 != mode:
                display.change_keyboard_control(key=key, auto_repeat_mode=mode)
    display.sync()
    for bit, keysym in LOCKS.items():
        if (now.locks ^ wanted.locks) & bit:
            key = display.keysym_to_keycode(keysym)
            xtest.fake_input(display, X.KeyPress, key)
            xtest.fake_input(display, X.KeyRelease, key)
    for name in now.selections:
        request.SetSelectionOwner(
            display=display.display, window=X.NONE, selection=display.intern_atom(name), time=X.CurrentTime
        )
    _put_properties_back(display, root, now, wanted)
    for name, value, old in zip(PLACES, now.places, wanted.places, strict=True):
        if value != old:
            told = event.ClientMessage(window=root, client_type=display.intern_atom(name), data=(32, [old, 0, 0, 0, 0]))
            root.send_event(told, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
    root.change_attributes(background_pixel=background)
    root.clear_area()
    width, height = wanted.size
    xtest.fake_input(display, X.MotionNotify, x=width // 2, y=height // 2)
    display.sync()


def _put_properties_back(display: Any, root: Any, now: XState, wanted: XState) -> None:
    kept = {name: (kind, size, data) for name, kind, size, data in wanted.properties}
    root.delete_property(display.intern_atom(ACCESSIBILITY))
    for name, _, _, data in now.properties:
        if name == "_XROOTPMAP_ID" and name not in kept and len(data) >= 4:
            # a wallpaper outlives the program that drew it
            with suppress(Exception):
                display.create_resource_object("pixmap", int.from_bytes(data[:4], "little")).kill_client()
        if name not in kept:
            root.delete_property(display.intern_atom(name))
    for name, (kind, size, data) in kept.items():
        if (name, kind, size, data) not in now.properties:
            step = size // 8
            value: Any = (
                data if step == 1 else [int.from_bytes(data[at : at + step], "little") for at in range(0, len(data), step)]
            )
            root.change_property(display.intern_atom(name), display.intern_atom(kind), size, value)


def connect(name: str) -> Any:
    """A connection of its own to the display called `name`."""
    return Display(name)
