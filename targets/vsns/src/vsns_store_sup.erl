%% The names: first the owner of the table, then the name server that works on it.
%%
%% rest_for_one: a name server that crashes is restarted alone and finds the table as it was; without its owner
%% a table is gone, so the name server goes too.
-module(vsns_store_sup).
-behaviour(supervisor).

-export([start_link/1, init/1]).

%% @doc Starts both.
-spec start_link(vsns_options:options()) -> supervisor:startlink_ret().
start_link(Options) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, Options).

%% @doc `restarts' within ten seconds are survived. OTP's usual handful would end a service that is crashed
%% on purpose; how much is survivable is a parameter of the experiment.
-spec init(vsns_options:options()) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(#{restarts := Restarts} = Options) ->
    {ok, {#{strategy => rest_for_one, intensity => Restarts, period => 10},
          [#{id => vsns_table_owner, start => {vsns_table_owner, start_link, [Options]}},
           #{id => vsns_name_server, start => {vsns_name_server, start_link, [Options]}}]}}.
