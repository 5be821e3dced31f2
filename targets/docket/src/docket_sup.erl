%% The top of the tree: the register, then the web server; with two VMs, each in its own.
%%
%% Its intensity is 0: what ends unexpectedly here ends the member, so that whoever watches the process sees it.
-module(docket_sup).
-behaviour(supervisor).

-export([start_link/1, init/1]).

%% @doc Starts the tree.
-spec start_link(docket_options:options()) -> supervisor:startlink_ret().
start_link(Options) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, Options).

%% @private
-spec init(docket_options:options()) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(Options) ->
    {ok, {#{strategy => rest_for_one, intensity => 0, period => 1}, children(Options)}}.

-spec children(docket_options:options()) -> [supervisor:child_spec()].
children(#{part := core} = Options) ->
    [child(docket_tie, []) | register_children(Options)];
children(#{layout := web_and_core} = Options) ->
    %% It waits for the core to end in order.
    [(child(docket_core_port, [Options]))#{shutdown => 9000}, docket_http:child(Options)];
children(Options) ->
    register_children(Options) ++ [docket_http:child(Options)].

-spec register_children(docket_options:options()) -> [supervisor:child_spec()].
register_children(#{serial := Serial} = Options) ->
    [child(docket_gate, [Options]), child(docket_cluster, [Options])
     | [(child(docket_serial_sup, [Options]))#{type => supervisor} || Serial]].

-spec child(module(), [term()]) -> supervisor:child_spec().
child(Module, Arguments) ->
    #{id => Module, start => {Module, start_link, Arguments}}.
