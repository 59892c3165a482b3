"""What does the fake policy do next? One move from what the last screenshot shows; good, bad or malformed by chance.

Stateless: the move depends on the picture and on the random numbers alone, so any history will do.
"""

from __future__ import annotations

from random import Random

from legato_rl.fake.layout import OPTIONS
from legato_rl.fake.sight import Sight
from legato_rl.fake.strip import ACCEPTED, EMPTY, NONE, RIGHT, WORDS

GRID = 999
"""Coordinates run from 0 to this along both sides of the picture."""

Spot = tuple[float, float]


def next_move(sight: Sight | None, random: Random, skill: float, malformed: float) -> str:
    """The answer's text without its thoughts: an `Action:` line and, unless it is malformed, one tool call."""
    if random.random() < malformed:
        return _malformed(random)
    if sight is None:
        return _terminate("I see no window that asks for anything, so I stop here.", "success")
    return good_move(sight) if random.random() < skill else _bad_move(sight, random)


def thought(sight: Sight | None) -> str:
    """What the policy thinks before its move."""
    if sight is None:
        return "I see no window that I know."
    return f"The window asks for the word {WORDS[sight.signs.word]}. I look at what is done and what is left to do."


def good_move(sight: Sight) -> str:
    """The next step towards what the window asks for."""
    signs = sight.signs
    if signs.asked == NONE:
        return _terminate("The window lacks the option that it asks for, so the task is infeasible.", "failure")
    if signs.submitted == ACCEPTED:
        return _terminate("Everything was confirmed as asked.", "success")
    if signs.selected != signs.asked:
        return _click("Choose the option that is asked for.", sight.locate(OPTIONS[signs.asked]))
    if signs.text == RIGHT:
        return _click("Press Confirm.", sight.locate("confirm"))
    if signs.focused and (signs.text == EMPTY or signs.marked):
        return _call("Type the word.", action="type", text=WORDS[signs.word])
    if signs.text == EMPTY:
        return _click("Click into the text field.", sight.locate("field"))
    return _click("Mark the wrong text.", sight.locate("field"), action="triple_click")


def _bad_move(sight: Sight, random: Random) -> str:
    signs = sight.signs
    wrong = WORDS[(signs.word + random.randrange(1, len(WORDS))) % len(WORDS)]
    moves = (
        lambda: _click("Choose an option.", sight.locate(random.choice(OPTIONS))),
        lambda: _click("Click beside the window.", (random.random(), random.random())),
        lambda: _call("Type a word.", action="type", text=wrong),
        lambda: _click("Press Confirm at once.", sight.locate("confirm")),
        lambda: _click("Press Cancel.", sight.locate("cancel")),
        lambda: _call("Scroll down.", action="scroll", pixels="-5"),
        lambda: _call("Wait for the screen.", action="wait", time="1"),
        lambda: _terminate("I think that this is done.", "success"),
    )
    return random.choice(moves)()


def _malformed(random: Random) -> str:
    """Prose, a call that is cut off, an unknown function, another grammar, half a coordinate."""
    whole = _call("Click.", action="left_click", coordinate="[500, 300]")
    return random.choice(
        (
            "I am done with this, I believe.",
            whole[: whole.index("</parameter>")],
            whole.replace("computer_use", "computer"),
            'Action: Click.\n<tool_call>\n{"name": "computer_use", "arguments": {}}\n</tool_call>',
            whole.replace(" 300]", ""),
        )
    )


def _click(summary: str, spot: Spot, action: str = "left_click") -> str:
    return _call(summary, action=action, coordinate=f"[{round(spot[0] * GRID)}, {round(spot[1] * GRID)}]")


def _terminate(summary: str, status: str) -> str:
    return _call(summary, action="terminate", status=status)


def _call(summary: str, **parameters: str) -> str:
    """The grammar of the Qwen agents: an `Action:` line and one XML-like call."""
    body = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in parameters.items())
    return f"Action: {summary}\n<tool_call>\n<function=computer_use>\n{body}</function>\n</tool_call>"
