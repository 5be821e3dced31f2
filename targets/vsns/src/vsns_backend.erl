%% The hub's connection to the name service: asks once, says whether it worked.
%%
%% One request is in flight at a time, so the next frame is its answer. After any failure but a
%% clean `unavailable' the connection is closed, so that a late answer can never be taken for the answer to a later
%% request. Retrying is the caller's (vsns_hub_connection).
-module(vsns_backend).

-export([ask/4, info/2]).
-export_type([backend/0]).

-type backend() :: none | gen_tcp:socket().

-define(CONNECT_MS, 5000).

%% @doc One attempt. While it waits it watches the client as well.
-spec ask(vsns_frame:id(), Frame :: binary(), Client :: gen_tcp:socket(), backend()) ->
    {ok, Answer :: binary(), backend()} | {failed, iodata(), backend()} | client_gone.
ask(Id, Frame, Client, none) ->
    case gen_tcp:connect({127, 0, 0, 1}, vsns_listener_sup:port(service), options(), ?CONNECT_MS) of
        {ok, Backend} -> ask(Id, Frame, Client, Backend);
        {error, Reason} -> {failed, ["name service: ", inet:format_error(Reason)], none}
    end;
ask(Id, Frame, Client, Backend) ->
    case gen_tcp:send(Backend, Frame) of
        ok -> answer(Id, Client, Backend);
        {error, Reason} -> failed(["name service: ", inet:format_error(Reason)], Backend)
    end.

%% {active, true} is safe: one request is in flight and the name service answers each once.
-spec options() -> [gen_tcp:connect_option()].
options() ->
    [binary, {packet, 4}, {active, true}, {nodelay, true}, {buffer, 8192}].

-spec answer(vsns_frame:id(), gen_tcp:socket(), gen_tcp:socket()) ->
    {ok, binary(), backend()} | {failed, iodata(), backend()} | client_gone.
answer(Id, Client, Backend) ->
    receive
        {tcp, Backend, Answer} -> judge(Id, Answer, Backend);
        {tcp_closed, Backend} -> {failed, "the name service closed the connection", none};
        {tcp_error, Backend, Reason} -> failed(["name service: ", inet:format_error(Reason)], Backend);
        {tcp_closed, Client} -> client_gone
    end.

%% `stats' tells not_found, bad_request and too_large (answers) from unavailable and busy (failures); the body of a
%% good answer is the client's and not looked at.
-spec judge(vsns_frame:id(), binary(), gen_tcp:socket()) ->
    {ok, binary(), backend()} | {failed, iodata(), backend()}.
judge(Id, Answer, Backend) ->
    case vsns_frame:decode_answer(stats, Answer) of
        {Id, {unavailable, Text}} -> {failed, Text, Backend};
        {_, busy} -> failed("the name service is busy", Backend);
        {Id, _} -> {ok, Answer, Backend};
        _ -> failed("the name service gave no proper answer", Backend)
    end.

-spec failed(iodata(), gen_tcp:socket()) -> {failed, iodata(), none}.
failed(Why, Backend) ->
    ok = gen_tcp:close(Backend),
    {failed, Why, none}.

%% @doc For a message found while no request was in flight: what became of the connection.
-spec info(term(), backend()) -> backend().
info({tcp_closed, Backend}, Backend) -> none;
info({tcp_error, Backend, _}, Backend) -> none;
info(_, Backend) -> Backend.
