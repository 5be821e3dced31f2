%% A connection over a real socket: bad frames, limits, and what a crash of the name server does to it.
-module(vsns_connection_tests).
-include_lib("eunit/include/eunit.hrl").
-import(vsns_probe, [with/2, connect/0, send/2, answer/2, call/2, closed/1, close/1, until/1]).

operations_test_() ->
    with(#{}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, ping)),
        ?assertEqual(not_found, call(C, {load, <<"s">>, <<"k">>})),
        ?assertEqual(ok, call(C, {save, <<"s">>, <<"k">>, <<"v">>})),
        ?assertEqual({value, <<"v">>}, call(C, {load, <<"s">>, <<"k">>})),
        ?assertEqual({page, false, [{<<"k">>, <<"v">>}]}, call(C, {load_all, <<"s">>, <<>>, 10})),
        ?assertEqual({removed, 1}, call(C, {remove, <<"s">>, <<"k">>})),
        ?assertEqual({removed, 0}, call(C, {remove, <<"s">>, <<"k">>})),
        ?assertEqual(ok, call(C, {save, <<"s">>, <<"k">>, <<>>})),
        ?assertEqual({value, <<>>}, call(C, {load, <<"s">>, <<"k">>})),
        ?assertEqual({count, 1}, call(C, {remove_all, <<"s">>})),
        {text, Json} = call(C, stats),
        [?assertMatch({_, _}, binary:match(Json, <<"\"", Field/binary, "\":">>)) ||
            Field <- [<<"names">>, <<"spaces">>, <<"memory_bytes">>, <<"name_server_memory_bytes">>, <<"processes">>,
                      <<"connections">>, <<"run_queue">>, <<"restarts">>, <<"uptime_ms">>]]
    end).

pipelined_answers_in_order_test_() ->
    with(#{}, fun() ->
        C = connect(),
        Requests = lists:append([[{save, <<"s">>, <<N:32>>, <<N:32>>}, {load, <<"s">>, <<N:32>>}] || N <- lists:seq(1, 5000)]),
        send(C, Requests),
        Answers = [answer(C, R) || R <- Requests],
        Expected = lists:append([[ok, {value, <<N:32>>}] || N <- lists:seq(1, 5000)]),
        ?assertEqual(lists:zip(lists:seq(1, 10000), Expected), Answers)
    end).

byte_by_byte_test_() ->
    with(#{}, fun() ->
        C = connect(),
        ok = inet:setopts(C, [{nodelay, true}]),
        Bytes = iolist_to_binary([vsns_frame:encode_request(1, {save, <<"s">>, <<"k">>, <<"value">>}),
                                  vsns_frame:encode_request(2, {load, <<"s">>, <<"k">>})]),
        [ok = gen_tcp:send(C, <<B>>) || <<B>> <= Bytes],
        ?assertEqual({1, ok}, answer(C, save)),
        ?assertEqual({2, {value, <<"value">>}}, answer(C, load))
    end).

large_values_and_pages_test_() ->
    with(#{}, fun() ->
        C = connect(),
        Value = binary:copy(<<"x">>, 1000000),
        [?assertEqual(ok, call(C, {save, <<"s">>, K, Value})) || K <- [<<"a">>, <<"b">>]],
        ?assertEqual({value, Value}, call(C, {load, <<"s">>, <<"b">>})),
        ?assertEqual({page, true, [{<<"a">>, Value}]}, call(C, {load_all, <<"s">>, <<>>, 10})),
        ?assertEqual({page, false, [{<<"b">>, Value}]}, call(C, {load_all, <<"s">>, <<"a">>, 10}))
    end).

bad_frames_test_() ->
    with(#{}, fun() ->
        C = connect(),
        Frames = [{0, <<>>}, {0, <<1>>}, {5, <<5:32>>}, {5, <<5:32, 200>>}, {5, <<5:32, 1, 9:16, "x">>}],
        ok = gen_tcp:send(C, [<<(byte_size(F)):32, F/binary>> || {_, F} <- Frames]),
        [?assertMatch({Id, {bad_request, _}}, answer(C, ping)) || {Id, _} <- Frames],
        ?assertEqual(ok, call(C, ping)),
        ?assertEqual(0, vsns_table_owner:restarts())
    end).

frame_limit_test_() ->
    with(#{frame_limit => 100}, fun() ->
        C = connect(),
        %% 100 bytes of frame: id and opcode 5, space 2, key 3, value length 4.
        ?assertEqual(ok, call(C, {save, <<>>, <<"k">>, binary:copy(<<"v">>, 86)})),
        send(C, [ping, {save, <<>>, <<"k">>, binary:copy(<<"v">>, 87)}]),
        ?assertEqual({1, ok}, answer(C, ping)),
        ?assertEqual({2, too_large}, answer(C, save)),
        ?assertEqual(true, closed(C)),
        %% Refused by its length: the rest is neither waited for nor read.
        D = connect(),
        ok = gen_tcp:send(D, <<16#ffffffff:32, 3:32>>),
        ?assertEqual({3, too_large}, answer(D, save)),
        ?assertEqual(true, closed(D)),
        ?assertEqual(ok, call(connect(), ping))
    end).

busy_test_() ->
    with(#{connections => 2}, fun() ->
        [A, B] = [connect() || _ <- [1, 2]],
        [?assertEqual(ok, call(C, ping)) || C <- [A, B]],
        Excess = connect(),
        ?assertEqual({0, busy}, answer(Excess, ping)),
        ?assertEqual(true, closed(Excess)),
        close(A),
        until(fun() -> element(1, vsns_connection_tally:totals(service)) =:= 1 end),
        ?assertEqual(ok, call(connect(), ping)),
        ?assertEqual(ok, call(B, ping))
    end).

half_open_clients_test_() ->
    with(#{}, fun() ->
        Idle = [begin C = connect(), ok = gen_tcp:send(C, <<100:32, 1, 2>>), C end || _ <- lists:seq(1, 100)],
        ?assertEqual(ok, call(connect(), ping)),
        [close(C) || C <- Idle],
        until(fun() -> element(1, vsns_connection_tally:totals(service)) =< 1 end),
        ?assertEqual(ok, call(connect(), ping))
    end).

%% On one connection the call behind `oops' is in flight when the name server dies, whatever the timing.
oops_with_calls_test_() ->
    with(#{coupling => calls}, fun() ->
        [Idle, C] = [connect(), connect()],
        ?assertEqual(ok, call(Idle, ping)),
        send(C, [oops, ping]),
        ?assertEqual({1, ok}, answer(C, oops)),
        ?assertEqual(true, closed(C)),
        back(1),
        ?assertEqual(ok, call(Idle, ping)),
        until(fun() -> vsns_connection_tally:totals(service) =:= {1, 1} end)
    end).

oops_isolated_test_() ->
    with(#{coupling => isolated}, fun() ->
        C = connect(),
        send(C, [oops, ping]),
        ?assertEqual({1, ok}, answer(C, oops)),
        ?assertMatch({2, {unavailable, _}}, answer(C, ping)),
        back(1),
        ?assertEqual(ok, call(C, ping))
    end).

what_survives_oops_test_() ->
    [{atom_to_list(Kind), with(#{state => Kind, data => vsns_probe:folder()}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, {save, <<"s">>, <<"k">>, <<"v">>})),
        ?assertEqual(ok, call(C, oops)),
        back(1),
        ?assertEqual(Then, call(C, {load, <<"s">>, <<"k">>}))
     end)} || {Kind, Then} <- [{process, not_found}, {ets, {value, <<"v">>}}, {mnesia, {value, <<"v">>}}]].

%% With group commit the answers before `oops' have to come out before the crash.
oops_behind_saves_test_() ->
    with(#{state => mnesia, data => vsns_probe:folder()}, fun() ->
        Clients = [connect() || _ <- lists:seq(1, 20)],
        [send(C, [{save, <<"s">>, <<"k">>, <<"v">>}]) || C <- Clients],
        [?assertEqual({1, ok}, answer(C, save)) || C <- Clients],
        ?assertEqual(ok, call(hd(Clients), oops)),
        back(1),
        [?assertEqual({value, <<"v">>}, call(C, {load, <<"s">>, <<"k">>})) || C <- Clients]
    end).

many_oops_test_() ->
    with(#{coupling => isolated, restarts => 1000}, fun() ->
        C = connect(),
        [begin ?assertEqual(ok, call(C, oops)), back(N) end || N <- lists:seq(1, 100)],
        ?assertEqual(ok, call(C, ping))
    end).

%% The pause must not block start_link: the supervisor would answer nobody meanwhile.
calls_fail_during_the_pause_and_the_supervisor_answers_test_() ->
    with(#{coupling => isolated, restart_pause_ms => 2000}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, oops)),
        ?assertMatch({unavailable, _}, call(C, ping)),
        [{_, Paused, _, _}] = [Child || {vsns_name_server, _, _, _} = Child <- supervisor:which_children(vsns_store_sup)],
        ?assertMatch({paused, _}, sys:get_state(Paused)),
        ?assertMatch({unavailable, _}, call(C, ping)),
        back(1),
        ?assertEqual(ok, call(C, ping))
    end).

too_many_restarts_end_the_service_test_() ->
    with(#{restarts => 0}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, oops)),
        until(fun() -> not lists:keymember(vsns, 1, application:which_applications()) end),
        ?assertEqual(true, closed(C))
    end).

%% The name server is up again, after so many restarts.
back(Restarts) ->
    until(fun() -> vsns_table_owner:restarts() =:= Restarts andalso whereis(vsns_name_server) =/= undefined end),
    _ = sys:get_state(vsns_name_server).

%% ---- Special processes, as `sys' and observer see them

%% It handles system messages between two requests. A request that arrives while it is suspended waits.
connection_is_suspended_test_() ->
    with(#{}, fun() ->
        C = connect(),
        ?assertEqual(ok, call(C, ping)),
        [{_, Pid, _, _}] = supervisor:which_children(vsns_connection_sup),
        ?assertEqual(client, element(1, sys:get_state(Pid))),
        ok = sys:suspend(Pid),
        send(C, [ping]),
        ?assertEqual({error, timeout}, gen_tcp:recv(C, 4, 50)),
        ok = sys:resume(Pid),
        ?assertEqual({1, ok}, answer(C, ping)),
        ok = sys:terminate(Pid, normal),
        ?assertEqual(true, closed(C))
    end).

acceptors_answer_test_() ->
    with(#{}, fun() ->
        [{_, Listener, _, _}] = [Child || {vsns_listener_sup, _, _, _} = Child <- supervisor:which_children(vsns_sup)],
        Acceptors = [Pid || {{vsns_acceptor, _}, Pid, _, _} <- supervisor:which_children(Listener)],
        ?assertEqual([acceptor, acceptor], [element(1, sys:get_state(Pid)) || Pid <- Acceptors]),
        [ok = sys:suspend(Pid) || Pid <- Acceptors],
        C = connect(),
        send(C, [ping]),
        ?assertEqual({error, timeout}, gen_tcp:recv(C, 4, 50)),
        [ok = sys:resume(Pid) || Pid <- Acceptors],
        ?assertEqual({1, ok}, answer(C, ping))
    end).
