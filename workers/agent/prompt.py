"""What is the policy told? The system prompt and the instruction, in the structure that Qwen's models know."""

from __future__ import annotations

import json
from collections.abc import Sequence

from legato_rl.workers.agent.actions import ACTIONS, Coordinates
from legato_rl.workers.agent.parser import FUNCTION

COLLAPSED = "This screenshot has been collapsed."
"""Stands in the place of a screenshot that is no longer shown."""

_ACTION_HELP = """\
- `key`: press `keys` together, as a shortcut, and let go.
- `key_down`, `key_up`: hold `keys` down; let them go.
- `type`: type `text` at the keyboard. A line break presses enter.
- `mouse_move`: move the pointer to `coordinate`.
- `left_click`, `right_click`, `middle_click`, `double_click`, `triple_click`: click at `coordinate`.
- `left_click_drag`: drag from the pointer's place to `coordinate`.
- `left_mouse_down`, `left_mouse_up`: hold the left button; let it go.
- `scroll`, `hscroll`: turn the wheel by `pixels`; positive is up, or right.
- `screenshot`: look again without doing anything.
- `wait`: give the screen `time` seconds.
- `call_user`: ask the user, with `text`; this ends the work.
- `terminate`: end the task with `status` and `answer`."""

_CALL_FORMAT = f"""\
<tool_call>
<function={FUNCTION}>
<parameter=name_of_a_parameter>
its value
</parameter>
<parameter=name_of_another>
a value
of several lines
</parameter>
</function>
</tool_call>"""


def system_prompt(today: str, coordinates: Coordinates, processed_size: tuple[int, int]) -> str:
    """The system message. `today` is the date as text, fixed for a run: two days in one run would be two prompts."""
    tool = json.dumps(_tool(coordinates, processed_size), ensure_ascii=False)
    return f"""\
You are an assistant that operates a computer for its user.

# Tools

You may call this function:

<tools>
{tool}
</tools>

A call looks exactly like this, and nothing follows it:

{_CALL_FORMAT}

<IMPORTANT>
- A call is a <function=...> block inside of <tool_call></tool_call> tags, with every parameter that its action needs.
- Thoughts come before the call, never after it.
- The current date is {today}.
- Old screenshots are replaced by the text: {COLLAPSED}
</IMPORTANT>

# Response format

While the task goes on, answer with
1) Action: one short sentence that says what you do next.
2) One <tool_call>...</tool_call> block.

To end the task, call terminate, or call_user where the user must decide, or give your final answer in plain words
without a call. With terminate, `answer` says what the user asked to know, or why the task failed. If the task is
infeasible, say so."""


def instruction_prompt(instruction: str, summaries: Sequence[str]) -> str:
    """The text of the first turn that is shown. `summaries` are of the steps that are too old to be shown."""
    previous = "\n".join(f"Step {number}: {summary}" for number, summary in enumerate(summaries, start=1))
    return (
        "\nChoose the next action from the screenshot, the instruction and the actions before.\n\n"
        f"Instruction: {instruction}\n\nPrevious actions:\n{previous or 'None'}"
    )


def _tool(coordinates: Coordinates, processed_size: tuple[int, int]) -> dict[str, object]:
    width, height = (1000, 1000) if coordinates == "relative" else processed_size
    return {
        "type": "function",
        "function": {
            "name": FUNCTION,
            "description": "Mouse, keyboard and screenshots of a desktop. There is no other access to the computer.\n"
            f"The screen measures {width}x{height}. Programs may need a moment before they show what was done. "
            "Find a control on the screenshot before pointing at it, and aim at its centre.",
            "parameters": {
                "type": "object",
                "required": ["action"],
                "properties": {
                    "action": {"type": "string", "description": _ACTION_HELP, "enum": list(ACTIONS)},
                    "coordinate": {"type": "array", "description": "[x, y] on the screen, from its upper left corner."},
                    "keys": {"type": "array", "description": 'Names of keys, as in ["ctrl", "s"].'},
                    "text": {"type": "string", "description": "What to type, or to ask the user."},
                    "pixels": {"type": "number", "description": "How far to scroll."},
                    "duration": {"type": "number", "description": "Seconds that a drag takes."},
                    "time": {"type": "number", "description": "Seconds to wait."},
                    "status": {"type": "string", "description": "How the task ended.", "enum": ["success", "failure"]},
                    "answer": {"type": "string", "description": "The answer, or the reason of a failure."},
                },
            },
        },
    }
