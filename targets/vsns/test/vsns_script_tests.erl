%% bin/vsns as a process of its own: what Plimsoll starts, signals and kills.
-module(vsns_script_tests).
-include_lib("eunit/include/eunit.hrl").

run(Arguments) ->
    open_port({spawn_executable, filename:join(vsns_probe:home(), "bin/vsns")},
              [{args, Arguments}, exit_status, stderr_to_stdout, binary, {line, 1000}]).

%% What it printed, until it ended, and its status.
ending(Port) -> ending(Port, []).
ending(Port, Lines) ->
    receive
        {Port, {data, {_, Line}}} -> ending(Port, [Line | Lines]);
        {Port, {exit_status, Status}} -> {Status, lists:reverse(Lines)}
    end.

connect(Number) ->
    case gen_tcp:connect({127, 0, 0, 1}, Number, [binary, {active, false}]) of
        {ok, C} -> C;
        {error, econnrefused} -> timer:sleep(20), connect(Number)
    end.

signal(Port, Name) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    "" = os:cmd("kill -" ++ Name ++ " " ++ integer_to_list(Pid)).

port_taken_test_() ->
    {timeout, 30, fun() ->
        {ok, Taken} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
        {ok, Number} = inet:port(Taken),
        Line = iolist_to_binary(["vsns: cannot listen on 127.0.0.1:", integer_to_list(Number), ": address already in use"]),
        ?assertEqual({1, [Line]}, ending(run(["--port", integer_to_list(Number)])))
    end}.

wrong_option_test_() ->
    {timeout, 30, fun() ->
        ?assertEqual({2, [<<"vsns: --state: expected process, ets, mnesia, got \"x\"">>]}, ending(run(["--state", "x"]))),
        ?assertMatch({2, [_]}, ending(run(["--schedulers", "x"])))
    end}.

limits_of_the_vm_test_() ->
    {timeout, 30, fun() ->
        ?assertMatch({2, [<<"vsns: --max-ports: expected a whole number, got \"x\"">>]}, ending(run(["--max-ports", "x"]))),
        Number = vsns_probe:free_port(),
        Port = run(["--port", integer_to_list(Number), "--open-files", "512", "--socket-buffers", "65536", "--max-ports", "1024"]),
        C = connect(Number),
        ?assertEqual(ok, vsns_probe:call(C, ping)),
        {os_pid, Pid} = erlang:port_info(Port, os_pid),
        Limits = os:cmd("grep 'Max open files' /proc/" ++ integer_to_list(Pid) ++ "/limits"),
        ?assertMatch(["Max", "open", "files", "512" | _], string:lexemes(Limits, " ")),
        signal(Port, "TERM"),
        ?assertMatch({0, _}, ending(Port))
    end}.

folder_that_cannot_be_made_test_() ->
    {timeout, 30, fun() ->
        {Status, [Line]} = ending(run(["--state", "mnesia", "--data", "/dev/null/x"])),
        ?assertMatch({1, {_, _}}, {Status, binary:match(Line, <<"cannot open Mnesia">>)})
    end}.

term_test_() ->
    {timeout, 30, fun() ->
        Number = vsns_probe:free_port(),
        Port = run(["--port", integer_to_list(Number)]),
        C = connect(Number),
        ?assertEqual(ok, vsns_probe:call(C, ping)),
        signal(Port, "TERM"),
        ?assertMatch({0, _}, ending(Port)),
        ?assertEqual(true, vsns_probe:closed(C))
    end}.

oops_logs_a_few_lines_test_() ->
    {timeout, 30, fun() ->
        Number = vsns_probe:free_port(),
        Port = run(["--port", integer_to_list(Number), "--coupling", "isolated"]),
        C = connect(Number),
        ok = gen_tcp:send(C, <<3:32, "bad">>),
        {0, {bad_request, _}} = vsns_probe:answer(C, ping),
        ?assertEqual(ok, vsns_probe:call(C, oops)),
        vsns_probe:until(fun() -> vsns_probe:call(C, ping) =:= ok end),
        signal(Port, "TERM"),
        {0, Lines} = ending(Port),
        ?assertMatch([_Listening, _Down, _Supervisor, _Up, _Stopping], Lines)
    end}.

%% An answered save survives SIGKILL of the whole node.
mnesia_survives_kill_test_() ->
    {timeout, 60, fun() ->
        Number = vsns_probe:free_port(),
        Arguments = ["--port", integer_to_list(Number), "--state", "mnesia", "--data", vsns_probe:folder()],
        First = run(Arguments),
        C = connect(Number),
        Requests = [{save, <<"s">>, <<N:16>>, <<"v">>} || N <- lists:seq(1, 100)],
        [?assertEqual(ok, vsns_probe:call(C, R)) || R <- Requests],
        signal(First, "KILL"),
        {137, _} = ending(First),
        Second = run(Arguments),
        D = connect(Number),
        {page, false, Entries} = vsns_probe:call(D, {load_all, <<"s">>, <<>>, 1000}),
        ?assertEqual(100, length(Entries)),
        signal(Second, "TERM"),
        ?assertMatch({0, _}, ending(Second))
    end}.
