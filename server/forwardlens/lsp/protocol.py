"""pygls' protocol, where ours differs: every request is answered and can be cancelled, and texts are kept once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcInvalidRequest
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.protocol.json_rpc import MsgId, RPCMessage, RPCRequest


class Protocol(LanguageServerProtocol):
    _client_left = False

    def structure_message(self, data: dict[str, Any]) -> Any:
        """A message as an object. One that cannot be read raises, after whoever waits for it was told."""
        if "method" in data and not _is_known(data["method"]):
            # The specification lets a client leave them out.
            data = {"params": None, **data}
        try:
            return cast("Any", super().structure_message(data))
        except JsonRpcException as error:
            self._answer_unreadable(data)
            raise error

    def _answer_unreadable(self, data: dict[str, Any]) -> None:
        number = data.get("id")
        if not isinstance(number, int | str):
            return
        failure = JsonRpcInvalidParams("The message does not have the form that the protocol gives it")
        if "method" in data:
            self._send_response(number, error=failure.to_response_error())
        elif (waiting := self._request_futures.pop(number, None)) is not None:
            waiting.set_exception(failure)

    def handle_message(self, message: RPCMessage) -> None:
        if self._shutdown and isinstance(message, RPCRequest):
            failure = JsonRpcInvalidRequest("The server is shutting down")
            self._send_response(message.id, error=failure.to_response_error())
        else:
            super().handle_message(message)

    def _execute_handler(
        self,
        msg_id: MsgId,
        handler: Callable[..., Any],
        callback: Callable[[Any], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        super()._execute_handler(msg_id, handler, callback, args, kwargs)
        future = self._request_futures.get(msg_id)

        def forget(_: object) -> None:
            if self._request_futures.get(msg_id) is future:
                del self._request_futures[msg_id]

        if future is not None:  # pygls forgets those of requests only
            future.add_done_callback(forget)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, params: types.ExecuteCommandParams
    ) -> Any:
        """One task from request to answer, so that `$/cancelRequest` reaches what the command does."""
        handler: Callable[..., Any] | None = cast("Any", self.fm).commands.get(params.command)
        if handler is None:
            raise JsonRpcInvalidParams(f"There is no command {params.command!r}")
        result = handler(*(params.arguments or ()))
        return await result if inspect.isawaitable(result) else result

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Generator[Any, Any, None]:
        """The session keeps the texts. In its own copy pygls ends lines at form feeds too, and loses its place."""
        yield cast("Any", self.fm).features[types.TEXT_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Generator[Any, Any, None]:
        yield cast("Any", self.fm).features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Generator[Any, Any, None]:
        yield cast("Any", self.fm).features[types.TEXT_DOCUMENT_DID_CLOSE], (params,), None

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Generator[Any, Any, None]:
        """As pygls has it, but a cancelled request is forgotten while the others are still gone through."""
        yield cast("Any", self.fm).features[types.SHUTDOWN], args, None
        for number, future in list(self._request_futures.items()):
            if number != self.msg_id:
                future.cancel()
        self._shutdown = True

    @lsp_method(types.EXIT)
    def lsp_exit(self, *args: Any) -> Generator[Any, Any, None]:
        self._client_left = True
        yield from cast("Any", super()).lsp_exit(*args)

    def _send_data(self, data: Any) -> None:
        """What ends with the server, such as a run, has nobody to tell."""
        if not self._client_left:
            super()._send_data(data)


def _is_known(method: object) -> bool:
    return isinstance(method, str) and method in types.METHOD_TO_TYPES
