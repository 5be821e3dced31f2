%% What the tests' own tools promise to tests.
-module(docket_probe_tests).
-include_lib("eunit/include/eunit.hrl").

%% Two cases that ran side by side were given the same port at times, and a member of one could not start.
ports_are_handed_out_once_test() ->
    Case = fun() -> exit({ports, [docket_probe:free_port() || _ <- lists:seq(1, 20)]}) end,
    Cases = [spawn_monitor(Case) || _ <- lists:seq(1, 20)],
    Ports = lists:append([receive {'DOWN', Monitor, _, _, {ports, Some}} -> Some end || {_, Monitor} <- Cases]),
    ?assertEqual(400, length(lists:usort(Ports))).
