%% What is counted of Mnesia's events. Their lines are looked at where real members print them.
-module(docket_events_tests).
-include_lib("eunit/include/eunit.hrl").

counted_test() ->
    docket_tally:new(),
    {ok, S0} = docket_events:init([]),
    Events = [{inconsistent_database, running_partitioned_network, 'docket@1.2.3.4'},
              {mnesia_overload, {dump_log, write_threshold}}, {mnesia_overload, {dump_log, write_threshold}},
              {mnesia_up, node()}, {other, thing}],
    lists:foldl(fun(Event, S) ->
        {ok, Next} = docket_events:handle_event({mnesia_system_event, Event}, S),
        Next
    end, S0, Events),
    ?assertEqual({1, 2}, {docket_tally:get(inconsistent), docket_tally:get(overloaded)}).
