%% One member as its clients and whoever started it see it: answers, refusals, two VMs, what it cannot do.
-module(docket_member_SUITE).
-compile([export_all, nowarn_export_all]).
-include_lib("stdlib/include/assert.hrl").

-define(DOCUMENT, <<"{\"party\":\"P\"}">>).

all() -> [{group, members}].

groups() ->
    [{members, [parallel],
      [answers, refuses, admission_refuses_at_once, work_is_in_flight, two_vms, web_is_killed, core_is_killed, bad_options, taken_ports, hooks, serial_server, picture]}].

suite() -> [{timetrap, {seconds, 60}}].

%% ---- Answers

answers(_) ->
    with(["--copies", "ram"], fun cases/1).

cases(M) ->
    {201, #{<<"etag">> := <<"\"1\"">>, <<"x-member">> := <<"127.0.0.2">>}, <<>>} = post(M, "a", ?DOCUMENT),
    {409, _, _} = post(M, "a", ?DOCUMENT),
    {200, #{<<"etag">> := <<"\"1\"">>}, ?DOCUMENT} = docket_probe:get(M, "/cases/a"),
    {404, #{<<"x-member">> := <<"127.0.0.2">>}, _} = docket_probe:get(M, "/cases/b"),
    {428, _, _} = put(M, "a", [], ?DOCUMENT),
    {412, #{<<"etag">> := <<"\"1\"">>}, _} = put(M, "a", [{"if-match", "\"2\""}], ?DOCUMENT),
    {404, _, _} = put(M, "b", [{"if-match", "\"1\""}], ?DOCUMENT),
    {200, #{<<"etag">> := <<"\"2\"">>}, _} = put(M, "a", [{"if-match", "\"1\""}], <<"{\"party\":\"Q\"}">>),
    {200, _, <<"[\"a\"]">>} = docket_probe:get(M, "/cases?party=Q"),
    {200, _, <<"[]">>} = docket_probe:get(M, "/cases?party=P"),
    {200, #{<<"etag">> := <<"\"3\"">>}, _} = put(M, "a", [{"if-match", "*"}], <<"{\"party\":\"Q\"}">>),
    {200, _, <<"[\"a\"]">>} = docket_probe:get(M, "/cases?party=Q"),
    {412, _, _} = docket_probe:ask(M, "DELETE", "/cases/a", [{"if-match", "\"1\""}]),
    {204, _, <<>>} = docket_probe:ask(M, "DELETE", "/cases/a", [{"if-match", "\"3\""}]),
    {404, _, _} = docket_probe:ask(M, "DELETE", "/cases/a", []),
    {201, _, _} = post(M, "c", ?DOCUMENT),
    {200, _, _} = docket_probe:ask(M, "DELETE", "/cases", []),
    {200, _, <<"[]">>} = docket_probe:get(M, "/cases"),
    ok.

refuses(_) ->
    with(["--copies", "ram"], fun(M) ->
        {400, _, <<"the document is not JSON\n">>} = post(M, "a", <<"{">>),
        {400, _, _} = post(M, "a%20b", ?DOCUMENT),
        {400, _, _} = put(M, "a", [{"if-match", "1"}], ?DOCUMENT),
        {400, _, <<"limit: expected a whole number from 1 to 1000\n">>} = docket_probe:get(M, "/cases?limit=x"),
        {400, _, _} = docket_probe:get(M, "/mandelbrot?size=0&iterations=1"),
        {400, _, _} = docket_probe:get(M, "/mandelbrot?size=8"),
        {404, _, _} = docket_probe:get(M, "/"),
        {404, _, _} = docket_probe:get(M, "/cases/a/b"),
        {405, #{<<"allow">> := <<"GET, POST, PUT, DELETE">>}, _} = docket_probe:ask(M, "PATCH", "/cases/a", []),
        {405, _, _} = docket_probe:ask(M, "POST", "/metrics", []),
        {413, _, _} = post(M, "a", binary:copy(<<" ">>, 65537)),
        {413, _, _} = post(M, "a", binary:copy(<<" ">>, 900000)),
        {400, _, _} = docket_probe:ask(M, "POST", "/cases/a", [{"content-length", "x"}]),
        Largest = <<"{\"party\":\"", (binary:copy(<<"x">>, 65536 - 12))/binary, "\"}">>,
        65536 = byte_size(Largest),
        {201, _, _} = post(M, "largest", Largest),
        {200, _, Largest} = docket_probe:get(M, "/cases/largest")
    end).

%% One request is let in and does not end: its body does not come. The next is refused, and what watches is not.
admission_refuses_at_once(_) ->
    with(["--copies", "ram", "--admission", "1"], fun(#{http := Port} = M) ->
        {ok, Stuck} = gen_tcp:connect({127, 0, 0, 2}, Port, [binary, {active, false}]),
        ok = gen_tcp:send(Stuck, "POST /cases/stuck HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n"),
        docket_probe:until(fun() -> metric(M, "docket_requests_in_flight") =:= 1 end),
        {503, #{<<"retry-after">> := <<"1">>, <<"x-refused">> := <<"admission">>, <<"x-member">> := _}, _} = post(M, "a", ?DOCUMENT),
        {503, _, _} = docket_probe:get(M, "/cases/a"),
        [200 = docket_probe:status(M, Path) || Path <- ["/health", "/health/ready", "/metrics", "/inspect", "/audit"]],
        ?assertEqual(2, metric(M, "docket_requests_refused_total")),
        ok = gen_tcp:send(Stuck, ?DOCUMENT),
        {ok, <<"HTTP/1.1 201", _/binary>>} = gen_tcp:recv(Stuck, 0, 5000),
        %% The connection that was refused goes on, its body was read.
        docket_probe:until(fun() -> metric(M, "docket_requests_in_flight") =:= 0 end),
        {200, _, _} = docket_probe:get(M, "/cases/stuck")
    end).

%% Work that does not end while the test lasts: only requests to /cases have it, and it counts.
work_is_in_flight(_) ->
    with(["--copies", "ram", "--admission", "1", "--work-ms", "60000"], fun(#{http := Port} = M) ->
        {ok, Busy} = gen_tcp:connect({127, 0, 0, 2}, Port, [binary, {active, false}]),
        ok = gen_tcp:send(Busy, "GET /cases/a HTTP/1.1\r\nhost: x\r\n\r\n"),
        docket_probe:until(fun() -> metric(M, "docket_requests_in_flight") =:= 1 end),
        {503, #{<<"x-refused">> := <<"admission">>}, _} = docket_probe:get(M, "/cases/a"),
        [200 = docket_probe:status(M, Path) || Path <- ["/health", "/metrics", "/inspect", "/audit"]],
        ?assertEqual(1, metric(M, "docket_requests_in_flight"))
    end).

%% ---- What else it has

%% The rules are Prolog's; here it matters that a member asks, and what it makes of the answer.
serial_server(_) ->
    case os:find_executable("swipl") of
        false ->
            {skip, "SWI-Prolog is not installed"};
        _ ->
            with(["--copies", "ram", "--serial", "true"], fun(M) ->
                docket_probe:until(fun() -> element(1, post(M, "first", ?DOCUMENT)) =/= 503 end),
                {201, _, _} = post(M, "a", ?DOCUMENT),
                {422, _, _} = post(M, "b", <<"{\"party\":\"\"}">>),
                {422, _, _} = put(M, "a", [{"if-match", "\"1\""}], <<"{\"party\":\"\"}">>),
                {200, _, <<"[\"a\",\"first\"]">>} = docket_probe:get(M, "/cases?party=P")
            end)
    end.

picture(_) ->
    with(["--copies", "ram", "--layout", "web_and_core"], fun(M) ->
        {200, _, Body} = docket_probe:get(M, "/mandelbrot?size=20&iterations=50"),
        {struct, [{<<"size">>, 20}, {<<"iterations">>, 50}, {<<"inside">>, Inside}, {<<"workers">>, 1},
                  {<<"nodes">>, [<<"docket@127.0.0.2">>]}]} = mochijson2:decode(Body),
        true = Inside > 0 andalso Inside < 400
    end).

%% ---- Two VMs

two_vms(_) ->
    with(["--copies", "ram", "--layout", "web_and_core"], fun(M) ->
        cases(M),
        ?assertMatch([_ | _], docket_probe:kill_group(M)),
        {200, _, <<"{\"records\": {\n\n}}\n">>} = docket_probe:get(M, "/audit"),
        ?assert(metric(M, "docket_mnesia_transactions_total") > 0),
        docket_probe:signal(M, "TERM"),
        {0, _} = docket_probe:ending(M),
        %% The same ports are free again: the core is gone as well.
        Again = docket_probe:ready(docket_probe:again(M)),
        docket_probe:stop([Again])
    end).

web_is_killed(_) ->
    with(["--copies", "ram", "--layout", "web_and_core"], fun(M) ->
        Core = docket_probe:kill_group(M),
        docket_probe:signal(M, "KILL"),
        docket_probe:until(fun() -> os:cmd("kill -0 " ++ Core) =/= "" end)
    end).

core_is_killed(_) ->
    with(["--copies", "ram", "--layout", "web_and_core"], fun(M) ->
        "" = os:cmd("kill -9 " ++ docket_probe:kill_group(M)),
        {137, _} = docket_probe:ending(M)
    end).

%% ---- What it cannot do

bad_options(_) ->
    [?assertEqual({2, [Line]}, docket_probe:ending(docket_probe:launch(Arguments))) || {Arguments, Line} <- [
        {["--write", "x"],
         <<"docket: cannot start: --write: expected transaction, sync_transaction, async_dirty, sync_dirty, got \"x\"">>},
        {["--host", "127.0.0.9", "--members", "127.0.0.2"], <<"docket: cannot start: --host: 127.0.0.9 is not one of --members 127.0.0.2">>},
        {["--cores", "x"], <<"docket: cannot start: --cores: expected a whole number, got \"x\"">>}]].

taken_ports(_) ->
    with(["--copies", "ram"], fun(#{http := Http, arguments := Arguments}) ->
        {1, [Line]} = docket_probe:ending(docket_probe:launch(Arguments)),
        {match, _} = re:run(Line, "^docket: cannot listen for its peers on 127.0.0.2:[0-9]+: address not available or already in use$"),
        Other = integer_to_list(docket_probe:free_port()),
        {1, [Line2]} = docket_probe:ending(docket_probe:launch(Arguments ++ ["--distribution-port", Other])),
        ?assertEqual(iolist_to_binary(["docket: cannot listen on 127.0.0.2:", integer_to_list(Http), ": address already in use"]), Line2)
    end).

%% ---- Hooks

hooks(_) ->
    with(["--copies", "ram"], fun(M) ->
        {201, _, _} = post(M, "a", <<"{\"party\":\"\\u00fc\",\n\"x\":\"\\\"\"}">>),
        ?assertEqual({struct, [{<<"records">>, {struct, [{<<"a">>, {struct, [{<<"value">>, <<"{\"party\":\"\\u00fc\",\n\"x\":\"\\\"\"}">>}, {<<"version">>, <<"1">>}]}}]}}]},
                     mochijson2:decode(hook("audit", M))),
        {struct, Facts} = mochijson2:decode(hook("inspect", M)),
        ?assertMatch({_, true}, lists:keyfind(<<"ready">>, 1, Facts)),
        "{}\n" = hook("reset", M),
        {200, _, <<"{\"records\": {\n\n}}\n">>} = docket_probe:get(M, "/audit"),
        {200, _, <<"[]">>} = docket_probe:get(M, "/cases?party=%C3%BC")
    end).

hook(Name, #{address := Address, http := Port}) ->
    os:cmd("PLIMSOLL_HOST=" ++ Address ++ " PLIMSOLL_PORT_HTTP=" ++ integer_to_list(Port) ++ " " ++ filename:join([docket_probe:home(), "hooks", Name])).

%% ---- Steps

with(Arguments, Fun) ->
    [Member] = docket_probe:start(1, Arguments),
    try
        Fun(Member)
    after
        docket_probe:stop([Member])
    end.

post(M, Id, Document) -> docket_probe:ask(M, "POST", "/cases/" ++ Id, [], Document).
put(M, Id, Headers, Document) -> docket_probe:ask(M, "PUT", "/cases/" ++ Id, Headers, Document).

metric(M, Name) ->
    {200, _, Text} = docket_probe:get(M, "/metrics"),
    {match, [Value]} = re:run(Text, "\n" ++ Name ++ " ([0-9]+)\n", [{capture, all_but_first, list}]),
    list_to_integer(Value).
