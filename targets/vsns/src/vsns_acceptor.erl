%% Accepts connections and hands each to a process of its own, for ever.
%%
%% It must not read from a client or wait for one: while it waits nobody else gets in.
-module(vsns_acceptor).

-export([start_link/2, init/2]).

%% How long to wait when the system has no more descriptors: one will be free again.
-define(PAUSE_MS, 100).

%% @doc Starts an acceptor on a listening socket.
-spec start_link(vsns_listener_sup:role(), gen_tcp:socket()) -> {ok, pid()}.
start_link(Role, Listening) ->
    {ok, proc_lib:spawn_link(?MODULE, init, [Role, Listening])}.

%% @private
-spec init(vsns_listener_sup:role(), gen_tcp:socket()) -> no_return().
init(Role, Listening) ->
    case gen_tcp:accept(Listening) of
        {ok, Socket} ->
            vsns_connection_sup:start_connection(Role, Socket);
        {error, Full} when Full =:= emfile; Full =:= enfile; Full =:= enobufs; Full =:= system_limit ->
            logger:warning("cannot accept: ~ts", [inet:format_error(Full)]),
            timer:sleep(?PAUSE_MS);
        {error, closed} ->
            exit({shutdown, closed});
        {error, _GoneAlready} ->
            ok
    end,
    init(Role, Listening).
