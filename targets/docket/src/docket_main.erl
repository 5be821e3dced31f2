%% The start from the command line: puts the options into the application's environment, becomes a node, starts the application.
%%
%% A shell, a test or a release starts the application without it.
-module(docket_main).

-export([start/0]).

%% How long a connection between members may be silent, in seconds. Mnesia goes on without a member only when that is
%% noticed; the default of 60 s would be the outage.
-define(TICK_S, 8).
%% The core of a member that was just killed may still be on its way out.
-define(LISTEN_TRIES, 20).
-define(LISTEN_WAIT_MS, 200).

%% @doc What bin/docket runs.
-spec start() -> ok | no_return().
start() ->
    %% Until the tree stands, what goes wrong is said once, below, and not by each supervisor on the way.
    _ = logger:remove_handler(default),
    case docket_options:parse(init:get_plain_arguments()) of
        {ok, Options} -> start(Options);
        {error, Text} -> docket_log:give_up(2, "start: ~ts", [Text])
    end.

-spec start(docket_options:options()) -> ok | no_return().
start(Options) ->
    maps:foreach(fun(Name, Value) -> ok = application:set_env(docket, Name, Value) end, Options),
    ok = distribute(Options, ?LISTEN_TRIES),
    {ok, _} = application:ensure_all_started(mochiweb),
    %% Apart from the others: if a permanent application cannot start, OTP ends the VM while ensure_all_started/2 still stops them.
    case application:start(docket, permanent) of
        ok -> docket_log:install();
        {error, Reason} -> docket_log:give_up(1, "~ts", [explain(Options, Reason)])
    end.

%% A web server of its own is a client of its core: nobody connects to it, and no member hears of it.
-spec distribute(docket_options:options(), non_neg_integer()) -> ok | no_return().
distribute(#{host := Host, distribution_port := Port} = Options, Tries) ->
    ok = application:set_env(kernel, inet_dist_use_interface, Host),
    Web = docket_options:is_web_only(),
    Name = case Web of
        true -> list_to_atom("docket_web@" ++ docket_options:address(Host));
        false -> docket_options:node_of(Host)
    end,
    case net_kernel:start(Name, #{name_domain => longnames, net_ticktime => ?TICK_S, dist_listen => not Web, hidden => Web}) of
        {ok, _} ->
            ok;
        {error, _} when Tries > 0 ->
            timer:sleep(?LISTEN_WAIT_MS),
            distribute(Options, Tries - 1);
        {error, _} ->
            docket_log:give_up(1, "listen for its peers on ~ts:~b: address not available or already in use",
                               [docket_options:address(Host), Port])
    end.

-spec explain(docket_options:options(), term()) -> iolist().
explain(#{host := Host, http_port := Port}, Reason) ->
    case [Why || Why <- [eaddrinuse, eaddrnotavail, eacces], has(Why, Reason)] of
        [Why | _] -> io_lib:format("listen on ~ts:~b: ~ts", [docket_options:address(Host), Port, inet:format_error(Why)]);
        [] -> io_lib:format("start: ~0tp", [Reason])
    end.

%% A reason is somewhere inside the ones of the supervisors above it.
-spec has(atom(), term()) -> boolean().
has(Why, Why) -> true;
has(Why, Tuple) when is_tuple(Tuple) -> has(Why, tuple_to_list(Tuple));
has(Why, [Head | Tail]) -> has(Why, Head) orelse has(Why, Tail);
has(_, _) -> false.
