%% The client of the serial server against the real one (SWI-Prolog), and against ones that are silent, late or talk nonsense.
-module(docket_serial_tests).

-include_lib("eunit/include/eunit.hrl").

off_test() ->
    ?assertEqual([], docket_serial:child_specs(#{serial => false, is_first => true, first => "127.0.0.1", port => 1})).

only_the_first_has_the_server_test() ->
    Ids = fun(IsFirst) -> [maps:get(id, Child) || Child <- docket_serial:child_specs(
              #{serial => true, is_first => IsFirst, first => "127.0.0.1", port => 1})] end,
    ?assertEqual([docket_serial_server, docket_serial], Ids(true)),
    ?assertEqual([docket_serial], Ids(false)).

not_running_test() ->
    ?assertMatch({error, _}, docket_serial:admit(<<"a">>, <<"x">>, 10)).

real_test_() ->
    {setup, fun() -> start(#{is_first => true, port => docket_probe:free_port()}) end, fun stop/1, fun(_) ->
        [{timeout, 60, Test} || Test <- [fun decides/0, fun any_text_is_one_string/0, fun many_at_once/0, fun starts_again/0]]
    end}.

decides() ->
    ?assertEqual(ok, docket_serial:admit(<<"2026-1_A.b">>, <<"Dupont">>, 120)),
    ?assertEqual(ok, docket_serial:admit(<<"a">>, <<"Moreau">>, 65536)),
    ?assertEqual({refused, <<"too_long">>}, docket_serial:admit(<<"a">>, <<"Moreau">>, 65537)),
    ?assertEqual({refused, <<"too_short">>}, docket_serial:admit(<<"a">>, <<"Moreau">>, 1)),
    ?assertEqual({refused, <<"malformed_id">>}, docket_serial:admit(<<"a b">>, <<"Moreau">>, 10)),
    ?assertEqual({refused, <<"malformed_id">>}, docket_serial:admit(<<>>, <<"Moreau">>, 10)),
    ?assertEqual({refused, <<"malformed_id">>}, docket_serial:admit(binary:copy(<<"a">>, 201), <<"Moreau">>, 10)),
    ?assertEqual({refused, <<"no_party">>}, docket_serial:admit(<<"a">>, <<" ">>, 10)),
    ?assertEqual({refused, <<"vexatious_party">>}, docket_serial:admit(<<"a">>, <<"Jarndyce and Jarndyce">>, 10)),
    %% Kin of all who could preside.
    ?assertEqual({refused, <<"no_bench">>}, docket_serial:admit(<<"a">>, <<"Aubry, Girard, Jolivet & Delorme">>, 10)),
    ?assertEqual(ok, docket_serial:admit(<<"a">>, <<"Aubry, Girard & Jolivet">>, 10)).

any_text_is_one_string() ->
    %% A line more or less than one would leave an answer that belongs to another request.
    Texts = [<<"\"">>, <<"\\">>, <<"x\", 1). halt. admit(\"a">>, <<"a\nb">>, <<"a\r\n">>, <<"\t.\f">>, <<"~a~w%">>,
             <<0, 1, 127>>, <<"'`{}[]()|,.">>, unicode:characters_to_binary([233, 8364, 128512, 16#85, 16#2028, 16#feff])],
    [?assertEqual({Text, ok}, {Text, docket_serial:admit(<<"a">>, <<"x", Text/binary>>, 10)}) || Text <- Texts],
    ?assertEqual({refused, <<"not_understood">>}, docket_serial:admit(<<"a">>, <<255, 254>>, 10)),
    ?assertEqual({refused, <<"too_short">>}, docket_serial:admit(<<"a">>, <<"x">>, 0)).

%% Each gets its own answer.
many_at_once() ->
    Self = self(),
    Ask = fun(N) -> Self ! {N, docket_serial:admit(<<"a">>, <<"x">>, case N rem 2 of 0 -> 10; 1 -> 1 end)} end,
    Numbers = lists:seq(1, 200),
    _ = [spawn_link(fun() -> Ask(N) end) || N <- Numbers],
    Expected = [{N, case N rem 2 of 0 -> ok; 1 -> {refused, <<"too_short">>} end} || N <- Numbers],
    ?assertEqual(Expected, [receive {N, Answer} -> {N, Answer} end || N <- Numbers]).

starts_again() ->
    ?assertEqual(ok, docket_serial:admit(<<"a">>, <<"x">>, 10)),
    Before = os_pid(),
    _ = os:cmd("kill -9 " ++ integer_to_list(Before)),
    ok = wait_for(fun() -> is_integer(os_pid()) andalso os_pid() =/= Before end),
    ok = wait_for(fun() -> docket_serial:admit(<<"a">>, <<"x">>, 10) =:= ok end).

os_pid() ->
    case element(3, sys:get_state(docket_serial_server)) of
        none -> none;
        Port -> case erlang:port_info(Port, os_pid) of {os_pid, Pid} -> Pid; undefined -> none end
    end.

%% However the VM ends, the Prolog server does, too.
ends_with_the_vm_test_() ->
    {timeout, 60, fun() ->
        Number = docket_probe:free_port(),
        Start = io_lib:format("{ok, _} = docket_serial_server:start_link(#{serial => true, is_first => true, "
                              "first => \"127.0.0.1\", port => ~b}), io:format(\"up~~n\").", [Number]),
        Erl = open_port({spawn_executable, os:find_executable("erl")},
                        [{args, ["-noshell", "-noinput", "-pa", filename:dirname(code:which(docket_serial)), "-eval", Start]},
                         {line, 100}, exit_status]),
        receive {Erl, {data, {eol, "up"}}} -> ok end,
        {os_pid, Vm} = erlang:port_info(Erl, os_pid),
        ?assertEqual(true, listens(Number)),
        _ = os:cmd("kill -9 " ++ integer_to_list(Vm)),
        ok = wait_for(fun() -> not listens(Number) end)
    end}.

%% Its port is another's: said at once, and no member that runs without it.
cannot_start_test_() ->
    {timeout, 60, fun() ->
        {ok, Taken} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
        {ok, Number} = inet:port(Taken),
        process_flag(trap_exit, true),
        Options = #{serial => true, is_first => true, first => <<"127.0.0.1">>, port => Number},
        #{level := Level} = logger:get_primary_config(),
        ok = logger:set_primary_config(level, none),
        ?assertMatch({error, {exit_status, 1}}, docket_serial_server:start_link(Options)),
        ok = logger:set_primary_config(level, Level),
        ok = gen_tcp:close(Taken)
    end}.

nobody_there_test() ->
    with(#{port => docket_probe:free_port()}, fun() ->
        {error, Why} = docket_serial:admit(<<"a">>, <<"x">>, 10),
        ?assertMatch({match, _}, re:run(Why, "connection refused"))
    end).

%% The answer to the first comes when it is no longer awaited. The second must not get it.
late_test() ->
    with_fake([{300, <<"refused(first).\n">>}, {0, <<"admitted.\n">>}], #{limit_ms => 100}, fun() ->
        ?assertEqual({error, <<"the serial server did not answer within 100 ms">>}, docket_serial:admit(<<"a">>, <<"x">>, 10)),
        ok = wait_for(fun() ->
            Answer = docket_serial:admit(<<"a">>, <<"x">>, 10),
            ?assertNotMatch({refused, _}, Answer),
            Answer =:= ok
        end)
    end).

%% Those who wait for their turn have the same limit.
turn_test() ->
    with_fake([silent], #{limit_ms => 100}, fun() ->
        Self = self(),
        _ = [spawn_link(fun() -> Self ! {answer, docket_serial:admit(<<"a">>, <<"x">>, 10)} end) || _ <- lists:seq(1, 10)],
        Answers = [receive {answer, Answer} -> Answer end || _ <- lists:seq(1, 10)],
        ?assertEqual([{error, <<"the serial server did not answer within 100 ms">>}], lists:usort(Answers))
    end).

%% A connection that was closed since the last request is no failure.
closed_between_test() ->
    with_fake([{0, <<"admitted.\n">>}, close, {0, <<"admitted.\n">>}], #{}, fun() ->
        ?assertEqual(ok, docket_serial:admit(<<"a">>, <<"x">>, 10)),
        ?assertEqual(ok, docket_serial:admit(<<"a">>, <<"x">>, 10))
    end).

%% One that is closed at each request is.
always_closed_test() ->
    with_fake([close], #{}, fun() ->
        [?assertEqual({error, <<"the serial server closed the connection">>}, docket_serial:admit(<<"a">>, <<"x">>, 10))
         || _ <- lists:seq(1, 3)]
    end).

nonsense_test() ->
    with_fake([{0, <<"perhaps.\n">>}], #{}, fun() ->
        ?assertEqual({error, <<"the serial server answered <<\"perhaps.\\n\">>">>}, docket_serial:admit(<<"a">>, <<"x">>, 10))
    end).

with(Options, Test) ->
    Started = start(Options),
    try Test() after stop(Started) end.

with_fake(Script, Options, Test) ->
    {Number, Server} = fake(Script),
    try with(Options#{port => Number}, Test) after exit(Server, kill) end.

%% A server that does these things at its requests, the last of them again and again; each connection after `close` or a late
%% answer is a new one.
fake(Script) ->
    Self = self(),
    Server = spawn(fun() ->
        {ok, Listening} = gen_tcp:listen(0, [binary, {packet, line}, {active, false}, {ip, {127, 0, 0, 1}}]),
        {ok, Number} = inet:port(Listening),
        Self ! {port, self(), Number},
        {ok, Socket} = gen_tcp:accept(Listening),
        play(Script, Listening, Socket)
    end),
    receive {port, Server, Number} -> {Number, Server} end.

play([Step | Rest], Listening, Socket) ->
    Next = case Rest of [] -> [Step]; _ -> Rest end,
    case gen_tcp:recv(Socket, 0) of
        {ok, _} when Step =:= close ->
            ok = gen_tcp:close(Socket),
            {ok, Another} = gen_tcp:accept(Listening),
            play(Next, Listening, Another);
        {ok, _} when Step =:= silent ->
            play(Next, Listening, Socket);
        {ok, _} ->
            {Wait, Line} = Step,
            timer:sleep(Wait),
            _ = gen_tcp:send(Socket, Line),
            play(Next, Listening, Socket);
        {error, closed} ->
            {ok, Another} = gen_tcp:accept(Listening),
            play([Step | Rest], Listening, Another)
    end.

start(Options) ->
    All = maps:merge(#{serial => true, is_first => false, first => "127.0.0.1"}, Options),
    [begin {ok, Pid} = apply(M, F, A), Pid end || #{start := {M, F, A}} <- docket_serial:child_specs(All)].

stop(Pids) ->
    [begin unlink(Pid), ok = gen_server:stop(Pid) end || Pid <- lists:reverse(Pids)].

listens(Number) ->
    case gen_tcp:connect({127, 0, 0, 1}, Number, []) of
        {ok, Socket} -> gen_tcp:close(Socket), true;
        {error, _} -> false
    end.

wait_for(Ask) ->
    case Ask() of
        true -> ok;
        false -> timer:sleep(20), wait_for(Ask)
    end.
