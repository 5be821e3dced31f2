%% The serial server and its client: a server that dies is started again, and its member goes on.
-module(docket_serial_sup).
-behaviour(supervisor).

-export([start_link/1, init/1]).

%% @doc Starts the client and, on the first member, the server.
-spec start_link(docket_options:options()) -> supervisor:startlink_ret().
start_link(Options) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, Options).

%% @private
-spec init(docket_options:options()) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(#{host := Host, members := [First | _], serial := Serial, serial_port := Port}) ->
    Children = docket_serial:child_specs(#{serial => Serial, is_first => Host =:= First, first => First, port => Port}),
    {ok, {#{strategy => one_for_one, intensity => 10, period => 10}, Children}}.
