"""What does a chat request ask for? Its fields, checked, and the errors in the words of the servers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from legato_rl.fake.tokens import VOCABULARY


class Refusal(Exception):
    """A request that is answered with an error: HTTP status, message, type and the field it is about."""

    def __init__(self, status: int, message: str, type: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.param = param

    def body(self, flat: bool) -> dict[str, Any]:
        """The JSON of the answer: nested as vLLM's, or flat as SGLang's."""
        if self.status == 401:
            return {"error": "Unauthorized"}
        fault = {"message": self.message, "type": self.type, "param": self.param, "code": self.status}
        return {"object": "error", **fault} if flat else {"error": fault}


class ChatRequest(BaseModel):
    """The fields of /v1/chat/completions that change the answer; all others are taken and ignored."""

    model_config = ConfigDict(extra="ignore")

    messages: list[dict[str, Any]]
    model: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int = 0
    temperature: float | None = None
    seed: int | None = None
    n: int | None = 1
    stream: bool | None = False
    logprobs: bool | None = False
    top_logprobs: int | None = None
    return_token_ids: bool | None = None
    return_prompt_token_ids: bool | None = None
    ignore_eos: bool = False
    allowed_token_ids: list[int] | None = None
    logit_bias: dict[int, float] = Field(default_factory=dict)
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)

    @property
    def limit(self) -> int | None:
        """Tokens that the answer may have at most."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def thinking(self) -> bool:
        """Whether the answer is to have thoughts."""
        return self.chat_template_kwargs.get("enable_thinking") is True

    def image_urls(self) -> list[str]:
        """The URLs of the image parts, in order."""
        contents = [message.get("content") for message in self.messages]
        parts = [part for content in contents if isinstance(content, list) for part in content]
        return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def parse_request(body: Any, max_model_len: int, max_images: int | None) -> ChatRequest:
    """Check a decoded body. Refusal where a field is wrong."""
    try:
        request = ChatRequest.model_validate(body)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(["body", *map(str, fault["loc"])])
        raise Refusal(
            400, f"1 validation error:\n  {{'loc': {where!r}, 'msg': {fault['msg']!r}}}", "Bad Request", where
        ) from None
    for message in request.messages:
        _check_message(message)
    _check_numbers(request, max_model_len)
    images = len(request.image_urls())
    if max_images is not None and images > max_images:
        raise Refusal(400, f"At most {max_images} image(s) may be provided in one prompt.", param="image")
    return request


def _check_message(message: dict[str, Any]) -> None:
    content = message.get("content")
    if not isinstance(message.get("role"), str):
        raise Refusal(400, "1 validation error:\n  {'loc': 'body.messages', 'msg': 'Field role required'}", "Bad Request")
    if not isinstance(content, str | list | None):
        raise Refusal(400, "1 validation error:\n  {'loc': 'body.messages', 'msg': 'content is no list'}", "Bad Request")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        text = kind == "text" and isinstance(part.get("text"), str)
        image = kind == "image_url" and isinstance(part.get("image_url"), dict)
        if not text and not (image and isinstance(part["image_url"].get("url"), str)):
            raise Refusal(400, "1 validation error for a content part: its type is text or image_url, with that field")


def _check_numbers(request: ChatRequest, max_model_len: int) -> None:
    if not request.messages:
        raise Refusal(400, "Cannot apply chat template to an empty conversation. Provide at least one message.")
    if request.stream:
        raise Refusal(400, "This server does not stream: leave `stream` out.", param="stream")
    if request.n not in (None, 1):
        raise Refusal(400, f"n must be 1 here, got {request.n}.", param="n")
    if request.temperature is not None and request.temperature < 0:
        raise Refusal(400, f"temperature must be non-negative, got {request.temperature}.", param="temperature")
    if request.limit is not None and request.limit < 1:
        raise Refusal(400, f"max_tokens must be at least 1, got {request.limit}.", param="max_tokens")
    if request.limit is not None and request.limit > max_model_len:
        text = f"max_tokens={request.limit} cannot be greater than max_model_len={max_model_len}."
        raise Refusal(400, f"{text} Please request fewer output tokens.", param="max_tokens")
    if request.top_logprobs is not None and not request.logprobs:
        raise Refusal(400, "when using `top_logprobs`, `logprobs` must be set to true.", param="top_logprobs")
    if request.allowed_token_ids == []:
        raise Refusal(400, "allowed_token_ids is not None and empty!", param="allowed_token_ids")
    for param, ids in (("logit_bias", list(request.logit_bias)), ("allowed_token_ids", request.allowed_token_ids)):
        strange = [token for token in ids or () if not 0 <= token < VOCABULARY]
        if strange:
            text = f"token_id(s) {strange} in {param} contain out-of-vocab token ids."
            raise Refusal(400, f"{text} Vocabulary size: {VOCABULARY}", param=param)
