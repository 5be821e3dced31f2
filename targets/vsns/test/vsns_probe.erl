%% What the tests share: the application in this VM, and a plain client for it.
-module(vsns_probe).
-export([start/1, stop/0, with/2, port/0, connect/0, close/1, send/2, answer/2, call/2, closed/1, until/1,
         free_port/0, folder/0]).

start(Options) ->
    _ = application:load(vsns),
    All = maps:merge((vsns_options:defaults())#{port := 0}, Options),
    maps:foreach(fun(K, V) -> application:set_env(vsns, K, V) end, All),
    ok = application:start(vsns).

stop() ->
    _ = application:stop(vsns),
    _ = application:stop(mnesia),
    ok.

%% An EUnit fixture around one test.
with(Options, Test) ->
    {setup, fun() -> start(Options) end, fun(_) -> stop() end, {timeout, 30, Test}}.

port() ->
    Role = case application:get_env(vsns, hub) of {ok, off} -> service; _ -> hub end,
    vsns_listener_sup:port(Role).

connect() ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, port(), [binary, {packet, raw}, {active, false}]),
    Socket.

close(Socket) -> gen_tcp:close(Socket).

%% Requests with ids 1, 2, 3 ... in one write.
send(Socket, Requests) ->
    Numbered = lists:zip(lists:seq(1, length(Requests)), Requests),
    ok = gen_tcp:send(Socket, [vsns_frame:encode_request(Id, R) || {Id, R} <- Numbered]).

answer(Socket, Request) ->
    {ok, <<Length:32>>} = gen_tcp:recv(Socket, 4),
    {ok, Frame} = gen_tcp:recv(Socket, Length),
    vsns_frame:decode_answer(operation(Request), Frame).

operation(Request) when is_tuple(Request) -> element(1, Request);
operation(Request) -> Request.

call(Socket, Request) ->
    send(Socket, [Request]),
    {1, Answer} = answer(Socket, Request),
    Answer.

closed(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {error, closed} -> true;
        {error, econnreset} -> true;
        Other -> Other
    end.

%% Waits for something that will come true; the test's own limit ends it otherwise.
until(Condition) ->
    case Condition() of
        true -> ok;
        _ -> timer:sleep(2), until(Condition)
    end.

free_port() ->
    {ok, S} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(S),
    ok = gen_tcp:close(S),
    Port.

folder() ->
    Name = "vsns-test-" ++ os:getpid() ++ "-" ++ integer_to_list(erlang:unique_integer([positive])),
    Dir = filename:join([filename:absname("_build"), "tmp", Name]),
    ok = filelib:ensure_path(Dir),
    Dir.
