%% The three designs. The supervisor of the name server is suspended, so that the outage lasts until the test ends it.
-module(vsns_hub_tests).
-include_lib("eunit/include/eunit.hrl").
-import(vsns_probe, [with/2, connect/0, send/2, answer/2, call/2, close/1, until/1]).

down() ->
    ok = sys:suspend(vsns_store_sup),
    Pid = whereis(vsns_name_server),
    Monitor = erlang:monitor(process, Pid),
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, _, _} -> ok end.

up() ->
    ok = sys:resume(vsns_store_sup),
    until(fun() -> whereis(vsns_name_server) =/= undefined end).

attempts() ->
    element(2, vsns_connection_tally:totals(service)).

delegates_test_() ->
    [{atom_to_list(Hub), with(#{hub => Hub}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, {save, <<"s">>, <<"k">>, <<"v">>})),
        ?assertEqual({value, <<"v">>}, call(C, {load, <<"s">>, <<"k">>})),
        ?assertEqual({page, false, [{<<"k">>, <<"v">>}]}, call(C, {load_all, <<"s">>, <<>>, 1})),
        ok = gen_tcp:send(C, <<5:32, 9:32, 77>>),
        ?assertMatch({9, {bad_request, _}}, answer(C, ping)),
        Many = [{load, <<"s">>, <<"k">>} || _ <- lists:seq(1, 500)],
        send(C, Many),
        ?assertEqual([{N, {value, <<"v">>}} || N <- lists:seq(1, 500)], [answer(C, R) || R <- Many]),
        {text, Json} = call(C, stats),
        ?assertMatch({_, _}, binary:match(Json, <<"\"connections\":1,">>))
     end)} || Hub <- [fail_fast, wait, bounded]].

fail_fast_test_() ->
    [{atom_to_list(Coupling), with(#{hub => fail_fast, coupling => Coupling}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, ping)),
        down(),
        [?assertMatch({unavailable, _}, call(C, ping)) || _ <- [1, 2, 3]],
        up(),
        ?assertEqual(ok, call(C, ping))
     end)} || Coupling <- [calls, isolated]].

wait_test_() ->
    [{atom_to_list(Coupling), with(#{hub => wait, coupling => Coupling, hub_wait_ms => 1}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, ping)),
        down(),
        send(C, [ping, {load, <<"s">>, <<"k">>}]),
        Coupling =:= isolated orelse until(fun() -> attempts() > 10 end),
        up(),
        ?assertEqual({1, ok}, answer(C, ping)),
        ?assertEqual({2, not_found}, answer(C, load))
     end)} || Coupling <- [calls, isolated]].

wait_ends_with_the_client_test_() ->
    with(#{hub => wait, hub_wait_ms => 1}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, ping)),
        down(),
        send(C, [ping]),
        until(fun() -> attempts() > 3 end),
        close(C),
        until(fun() -> element(1, vsns_connection_tally:totals(hub)) =:= 0 end),
        up()
    end).

bounded_test_() ->
    with(#{hub => bounded, hub_tries => 4, hub_wait_ms => 1, coupling => calls}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, ping)),
        down(),
        ?assertMatch({unavailable, _}, call(C, ping)),
        until(fun() -> attempts() =:= 5 end),
        up(),
        ?assertEqual(ok, call(C, ping))
    end).

bounded_hides_a_short_outage_test_() ->
    with(#{hub => bounded, hub_tries => 100000, hub_wait_ms => 1}, fun() ->
        C = connect(),
        down(),
        send(C, [ping]),
        until(fun() -> attempts() > 3 end),
        up(),
        ?assertEqual({1, ok}, answer(C, ping))
    end).

oops_is_not_retried_test_() ->
    with(#{hub => wait}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, ping)),
        down(),
        ?assertMatch({unavailable, _}, call(C, oops)),
        up(),
        ?assertEqual(ok, call(C, oops)),
        ?assertEqual(ok, call(C, ping))
    end).

backend_connection_is_renewed_test_() ->
    with(#{hub => bounded, hub_tries => 5}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, ping)),
        [exit(Pid, kill) || {_, Pid, _, _} <- supervisor:which_children(vsns_connection_sup)],
        ?assertEqual(ok, call(C, ping))
    end).
