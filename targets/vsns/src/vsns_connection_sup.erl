%% The connections of one listener: one process per client, none of them ever restarted.
%%
%% A client whose connection died connects again; nothing here could do that for it.
-module(vsns_connection_sup).
-behaviour(supervisor).

-export([start_link/3, start_connection/2, init/1]).

%% @doc Starts the supervisor of a listener's connections, served by a module.
-spec start_link(vsns_listener_sup:role(), module(), vsns_options:options()) -> supervisor:startlink_ret().
start_link(Role, Module, Options) ->
    supervisor:start_link({local, name(Role)}, ?MODULE, {Role, Module, Options}).

%% @doc Starts the process for a socket that the caller has accepted, and gives it the socket.
-spec start_connection(vsns_listener_sup:role(), gen_tcp:socket()) -> ok.
start_connection(Role, Socket) ->
    case supervisor:start_child(name(Role), [Socket]) of
        {ok, Pid} ->
            %% The client may be gone already; then the process finds the socket closed.
            _ = gen_tcp:controlling_process(Socket, Pid),
            vsns_client:go(Pid);
        {error, _} ->
            gen_tcp:close(Socket)
    end.

-spec name(vsns_listener_sup:role()) -> atom().
name(service) -> vsns_connection_sup;
name(hub) -> vsns_hub_connection_sup.

%% @private
-spec init({vsns_listener_sup:role(), module(), vsns_options:options()}) ->
    {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init({Role, Module, Options}) ->
    {ok, {#{strategy => simple_one_for_one},
          [#{id => Module, restart => temporary, shutdown => brutal_kill,
             start => {vsns_client, start_link, [Role, Module, Options]}}]}}.
