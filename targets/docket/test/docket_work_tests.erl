%% The amount of work is what was asked for, on any machine.
-module(docket_work_tests).
-include_lib("eunit/include/eunit.hrl").

rounds_follow_the_milliseconds_test() ->
    ?assertEqual(0, docket_work:rounds(0)),
    ?assertEqual(3 * docket_work:rounds(1), docket_work:rounds(3)),
    ?assertEqual(docket_work:rounds(1), 2 * docket_work:rounds(0.5)).

%% Its reductions, and not its duration: those are the same on a slow core.
each_round_is_a_reduction_test() ->
    Reductions = fun() -> element(2, process_info(self(), reductions)) end,
    Before = Reductions(),
    ok = docket_work:compute(100000),
    Spent = Reductions() - Before,
    ?assert(Spent >= 100000 andalso Spent < 110000, Spent).

can_be_killed_test() ->
    {Pid, Monitor} = spawn_monitor(fun() -> docket_work:compute(docket_work:rounds(60000)) end),
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, Pid, Reason} -> ?assertEqual(killed, Reason) end.
