%% One listening socket and all that hangs on it: the tally, the connections, the acceptors.
%%
%% There are two of these when the hub is on: `service' and `hub' differ in their address and in the module that
%% serves their clients, in nothing else.
-module(vsns_listener_sup).
-behaviour(supervisor).

-export([start_link/5, port/1, init/1]).
-export_type([role/0]).

-type role() :: service | hub.

%% Enough that a few hundred clients may connect in the same millisecond.
-define(BACKLOG, 4096).
-define(ACCEPTORS, 2).

%% @doc Opens the socket and starts what hangs on it.
-spec start_link(role(), inet:ip_address(), inet:port_number(), module(), vsns_options:options()) ->
    supervisor:startlink_ret().
start_link(Role, Host, Port, Module, Options) ->
    supervisor:start_link(?MODULE, {Role, Host, Port, Module, Options}).

%% @doc The port that a role listens on (which port 0 left to the system).
-spec port(role()) -> inet:port_number().
port(Role) ->
    persistent_term:get({?MODULE, Role}).

%% @private
-spec init({role(), inet:ip_address(), inet:port_number(), module(), vsns_options:options()}) ->
    {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init({Role, Host, Port, Module, Options}) ->
    Socket = listen(Host, Port, Options),
    {ok, Actual} = inet:port(Socket),
    persistent_term:put({?MODULE, Role}, Actual),
    Acceptors = [#{id => {vsns_acceptor, N}, start => {vsns_acceptor, start_link, [Role, Socket]}}
                 || N <- lists:seq(1, ?ACCEPTORS)],
    {ok, {#{strategy => rest_for_one, intensity => 10, period => 10},
          [#{id => vsns_connection_tally, start => {vsns_connection_tally, start_link, [Role, Options]}},
           #{id => vsns_connection_sup, type => supervisor,
             start => {vsns_connection_sup, start_link, [Role, Module, Options]}}
           | Acceptors]}}.

%% The socket belongs to this supervisor: acceptors come and go.
%% Nothing is framed by the driver, so that pipelined requests arrive together and a frame above the limit
%% is refused by its length alone.
-spec listen(inet:ip_address(), inet:port_number(), vsns_options:options()) -> gen_tcp:socket().
listen(Host, Port, #{socket_buffers := Buffers}) ->
    Options = [binary, {ip, Host}, {packet, raw}, {active, false}, {reuseaddr, true}, {nodelay, true},
               {keepalive, true}, {backlog, ?BACKLOG}, {buffer, 8192}, {send_timeout, 30000},
               {send_timeout_close, true}
               %% Before it listens: what it accepts inherits them, and the window is agreed on with the first packet.
               | [{Side, Buffers} || Buffers > 0, Side <- [recbuf, sndbuf]]],
    case gen_tcp:listen(Port, Options) of
        {ok, Socket} ->
            Socket;
        {error, Reason} ->
            exit({vsns_cannot, io_lib:format("cannot listen on ~s:~b: ~ts",
                                             [inet:ntoa(Host), Port, inet:format_error(Reason)])})
    end.
