%% Accepts connections and hands each to a process of its own, for ever.
%%
%% A special process: accepting blocks, so it looks for system messages between two connections, and at least once a second.
-module(vsns_acceptor).

-export([start_link/2, init/3]).
-export([system_continue/3, system_terminate/4, system_code_change/4]).

-define(ACCEPT_MS, 1000).
%% How long to wait when the system has no more descriptors: one will be free again.
-define(PAUSE_MS, 100).

-record(acceptor, {parent :: pid(), role :: vsns_listener_sup:role(), listening :: gen_tcp:socket()}).

%% @doc Starts an acceptor on a listening socket.
-spec start_link(vsns_listener_sup:role(), gen_tcp:socket()) -> {ok, pid()} | {error, term()}.
start_link(Role, Listening) ->
    proc_lib:start_link(?MODULE, init, [self(), Role, Listening]).

%% @private
-spec init(pid(), vsns_listener_sup:role(), gen_tcp:socket()) -> no_return().
init(Parent, Role, Listening) ->
    proc_lib:init_ack({ok, self()}),
    accept(#acceptor{parent = Parent, role = Role, listening = Listening}).

-spec accept(#acceptor{}) -> no_return().
accept(#acceptor{role = Role, listening = Listening} = Acceptor) ->
    case gen_tcp:accept(Listening, ?ACCEPT_MS) of
        {ok, Socket} ->
            vsns_connection_sup:start_connection(Role, Socket),
            listen(0, Acceptor);
        {error, Full} when Full =:= emfile; Full =:= enfile; Full =:= enobufs; Full =:= system_limit ->
            logger:warning("cannot accept: ~ts", [inet:format_error(Full)]),
            listen(?PAUSE_MS, Acceptor);
        {error, closed} ->
            exit({shutdown, closed});
        {error, _NobodyOrGoneAlready} ->
            listen(0, Acceptor)
    end.

%% For system messages.
-spec listen(non_neg_integer(), #acceptor{}) -> no_return().
listen(Ms, #acceptor{parent = Parent} = Acceptor) ->
    receive
        {system, From, Request} -> sys:handle_system_msg(Request, From, Parent, ?MODULE, [], Acceptor)
    after Ms ->
        accept(Acceptor)
    end.

%% @private
-spec system_continue(pid(), [sys:dbg_opt()], #acceptor{}) -> no_return().
system_continue(_Parent, _Debug, Acceptor) ->
    accept(Acceptor).

%% @private
-spec system_terminate(term(), pid(), [sys:dbg_opt()], #acceptor{}) -> no_return().
system_terminate(Reason, _Parent, _Debug, _Acceptor) ->
    exit(Reason).

%% @private
-spec system_code_change(#acceptor{}, module(), term(), term()) -> {ok, #acceptor{}}.
system_code_change(Acceptor, _Module, _Before, _Extra) ->
    {ok, Acceptor}.
