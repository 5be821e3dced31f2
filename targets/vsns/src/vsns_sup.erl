%% The top of the tree: the store, then the service's listener, then the hub if there is one.
%%
%% Its intensity is 0: what its children could not repair by themselves ends the service, and the node with it,
%% so that whoever watches the process sees it.
-module(vsns_sup).
-behaviour(supervisor).

-export([start_link/1, init/1]).

%% @doc Starts the tree.
-spec start_link(vsns_options:options()) -> supervisor:startlink_ret().
start_link(Options) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, Options).

%% @doc The children. With the hub on it has the outer address, and the service one that only this host sees.
-spec init(vsns_options:options()) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(#{hub := Hub, host := Host, port := Port, inner_port := Inner} = Options) ->
    Store = child(vsns_store_sup, [Options]),
    Children = case Hub of
        off ->
            [Store, child(vsns_listener_sup, [service, Host, Port, vsns_connection, Options])];
        _ ->
            Loopback = {127, 0, 0, 1},
            [Store,
             child(vsns_listener_sup, [service, Loopback, Inner, vsns_connection, Options]),
             child(vsns_hub_sup, [Options])]
    end,
    {ok, {#{strategy => rest_for_one, intensity => 0, period => 1}, Children}}.

-spec child(module(), [term()]) -> supervisor:child_spec().
child(Module, Arguments) ->
    #{id => Module, start => {Module, start_link, Arguments}, type => supervisor}.
