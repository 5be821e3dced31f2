%% Pictures have the right count, come from this node alone, and leave nothing behind.
-module(docket_mandelbrot_tests).

-include_lib("eunit/include/eunit.hrl").

%% The middle of the square is -0.5, which is inside.
one_point_test() ->
    ?assertMatch(#{inside := 1, workers := 1}, docket_mandelbrot:picture(1, 50)).

%% By hand: -1.25 +- 0.75i leave at the third iteration, 0.25 +- 0.75i at the fifth; of nine points -1.5 and -0.5 stay.
%% The larger ones were counted by a program in C with the same arithmetic.
known_counts_test_() ->
    Known = [{2, 2, 4}, {2, 3, 2}, {2, 4, 2}, {2, 5, 0}, {3, 1000, 2},
             {7, 3, 22}, {10, 20, 20}, {64, 100, 700}, {101, 1000, 1748}, {200, 50, 7066}],
    [{lists:flatten(io_lib:format("~b points a side, ~b iterations", [Size, Iterations])),
      ?_assertMatch(#{inside := Inside}, docket_mandelbrot:picture(Size, Iterations))}
     || {Size, Iterations, Inside} <- Known].

%% The area of the set is 1.5066 (Foerstemann 2012, by counting pixels), of the square 9.
area_test() ->
    #{inside := Inside} = docket_mandelbrot:picture(300, 500),
    ?assert(abs(9 * Inside / (300 * 300) - 1.5066) < 0.03).

spread_over_all_schedulers_test() ->
    #{workers := Workers} = docket_mandelbrot:picture(200, 10),
    ?assertEqual(erlang:system_info(schedulers_online), Workers).

small_picture_test() ->
    %% A worker without a line would be none.
    ?assertMatch(#{workers := 1}, docket_mandelbrot:picture(1, 10)).

never_another_node_test() ->
    #{nodes := Nodes} = docket_mandelbrot:picture(50, 10),
    ?assertEqual([node()], Nodes).

leaves_no_message_and_no_process_test() ->
    process_flag(trap_exit, true),
    Before = erlang:system_info(process_count),
    _ = [docket_mandelbrot:picture(20, 10) || _ <- lists:seq(1, 100)],
    receive Message -> error({unexpected, Message}) after 0 -> ok end,
    ?assert(erlang:system_info(process_count) < Before + 20),
    process_flag(trap_exit, false).

%% Whoever asked is gone: nobody computes on.
ends_with_its_asker_test() ->
    {Asker, Gone} = spawn_monitor(fun() -> docket_mandelbrot:picture(1000, 100000) end),
    Workers = wait_for(fun() -> {links, Links} = process_info(Asker, links), Links =/= [] andalso Links end),
    Down = [monitor(process, Worker) || Worker <- Workers],
    exit(Asker, kill),
    receive {'DOWN', Gone, _, _, _} -> ok end,
    [receive {'DOWN', Ref, _, _, _} -> ok after 10000 -> error(still_computing) end || Ref <- Down].

wait_for(Ask) ->
    case Ask() of
        false -> timer:sleep(1), wait_for(Ask);
        Answer -> Answer
    end.
