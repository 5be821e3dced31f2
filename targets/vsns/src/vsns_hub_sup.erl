%% The hub: a front service in this node, with a listener and a subtree of its own.
%%
%% All it has from the rest of the node is the port of the name service: it delegates over TCP, as a service on
%% another host would.
-module(vsns_hub_sup).
-behaviour(supervisor).

-export([start_link/1, init/1]).

%% @doc Starts the hub.
-spec start_link(vsns_options:options()) -> supervisor:startlink_ret().
start_link(Options) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, Options).

%% @doc One listener, as the name service has one.
-spec init(vsns_options:options()) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(#{host := Host, port := Port} = Options) ->
    {ok, {#{strategy => one_for_one, intensity => 1, period => 10},
          [#{id => vsns_listener_sup, type => supervisor,
             start => {vsns_listener_sup, start_link, [hub, Host, Port, vsns_hub_connection, Options]}}]}}.
