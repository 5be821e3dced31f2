%% What the tests share: the application in this VM, and a plain client for it.
-module(vsns_probe).
-export([property/3, start/1, stop/0, options/0, with/2, port/0, connect/0, close/1, send/2, answer/2, call/2, closed/1, until/1,
         free_port/0, folder/0, home/0]).

start(Options) ->
    ok = logger:set_primary_config(level, none),
    maps:foreach(fun(K, V) -> application:set_env(vsns, K, V) end, (options())#{port := 0}),
    maps:foreach(fun(K, V) -> application:set_env(vsns, K, V) end, Options),
    {ok, _} = application:ensure_all_started(vsns),
    ok.

stop() ->
    _ = application:stop(vsns),
    _ = application:stop(mnesia),
    %% The defaults again.
    application:unload(vsns).

options() ->
    {ok, Options} = vsns_options:environment(),
    Options.

%% An EUnit fixture around one test.
with(Options, Test) ->
    {setup, fun() -> start(Options) end, fun(_) -> stop() end, {timeout, 30, Test}}.

%% A property of PropEr as a test of EUnit.
property(Name, Tests, Property) ->
    {setup, fun() -> ok end, fun(_) -> stop() end, {Name, {timeout, 60, fun() ->
        case proper:quickcheck(Property(), [quiet, {numtests, Tests}]) of
            true -> ok;
            Failed -> error({Failed, proper:counterexample()})
        end
    end}}}.

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

%% The target's folder: rebar3 builds into _build/test/lib/vsns there.
home() -> lists:foldl(fun(_, Folder) -> filename:dirname(Folder) end, code:lib_dir(vsns), "four").

folder() ->
    Name = "vsns-test-" ++ os:getpid() ++ "-" ++ integer_to_list(erlang:unique_integer([positive])),
    Dir = filename:join([home(), "_build/tmp", Name]),
    ok = filelib:ensure_path(Dir),
    Dir.
