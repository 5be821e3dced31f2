%% bin/proxy with the real Apache httpd and the real HAProxy, in front of three members that count what they get.
-module(docket_proxy_tests).

-include_lib("eunit/include/eunit.hrl").

-define(HOSTS, ["127.0.0.2", "127.0.0.3", "127.0.0.4"]).

both_test_() ->
    [{setup, fun() -> up(Kind) end, fun down/1, fun(Site) ->
        [{Kind ++ ": " ++ Title, {timeout, 120, fun() -> fresh(Site), Test(Site) end}} || {Title, Test} <- tests()]
    end} || Kind <- ["apache", "haproxy"]].

tests() ->
    [{"each in turn", fun each_in_turn/1},
     {"as it was sent", fun as_it_was_sent/1},
     {"a refusal is an answer", fun refusal/1},
     {"never sent twice", fun never_sent_twice/1},
     {"a dead member", fun dead_member/1},
     {"a member that is not ready", fun not_ready/1},
     {"two thousand clients", fun many_clients/1},
     {"ends with clients connected", fun ends/1}].

%% One client or thirty at once: each member gets a third, to the request.
each_in_turn(Site) ->
    Socket = connect(Site),
    Members = [member(ask(Socket, "GET", "/x", [], "")) || _ <- lists:seq(1, 30)],
    ?assertEqual(lists:append(lists:duplicate(10, lists:sublist(Members, 3))), Members),
    ?assertEqual([10, 10, 10], counts(Site)),
    in_parallel(30, fun() ->
        One = connect(Site),
        [?assertMatch({200, _, _}, ask(One, "POST", "/x", [], "body")) || _ <- lists:seq(1, 20)]
    end),
    ?assertEqual([210, 210, 210], counts(Site)).

as_it_was_sent(Site) ->
    Socket = connect(Site),
    Body = binary:copy(<<"0123456789abcdef">>, 4096),
    {200, Headers, Seen} = ask(Socket, "PUT", "/cases/a%2Fb..%41?party=%22x%22&a=+", [{"if-match", "\"7\""}], Body),
    ?assertEqual(<<"\"8\"">>, proplists:get_value(<<"etag">>, Headers)),
    Expected = <<"PUT /cases/a%2Fb..%41?party=%22x%22&a=+ if-match: \"7\" ", Body/binary>>,
    ?assertEqual(Expected, Seen),
    ?assertMatch({204, _, <<>>}, ask(Socket, "DELETE", "/no-content", [], "")).

%% 503 of a member goes to the client, and the member gets its next turn. Apache closes the client's connection after it, and
%% says so.
refusal(Site) ->
    become(Site, "127.0.0.3", refusing),
    Answers = [ask_once(Site, "POST", "/x", [], "body") || _ <- lists:seq(1, 30)],
    ?assertEqual([10, 10, 10], counts(Site)),
    Refused = [Headers || {503, Headers, _} <- Answers],
    ?assertEqual(10, length(Refused)),
    [?assertEqual({<<"1">>, <<"admission">>, <<"127.0.0.3">>},
                  {proplists:get_value(<<"retry-after">>, Headers), proplists:get_value(<<"x-refused">>, Headers),
                   proplists:get_value(<<"x-member">>, Headers)}) || Headers <- Refused].

%% A member that ends in the middle of a request may have done what was asked.
never_sent_twice(Site) ->
    [become(Site, Host, dropping) || Host <- ?HOSTS],
    [begin
         Before = lists:sum(counts(Site)),
         Answer = ask_once(Site, Method, "/x", [], "body"),
         ?assert(lists:member(element(1, Answer), [error, 502, 503])),
         ?assertEqual({Method, Before + 1}, {Method, lists:sum(counts(Site))})
     end || Method <- ["POST", "PUT", "DELETE", "POST", "PUT", "DELETE"]],
    %% Also on connections, on both sides, that were used before.
    [become(Site, Host, serving) || Host <- ?HOSTS],
    ok = all_serve(Site),
    Socket = connect(Site),
    [?assertMatch({200, _, _}, ask(Socket, "POST", "/x", [], "body")) || _ <- lists:seq(1, 6)],
    [become(Site, Host, dropping) || Host <- ?HOSTS],
    Before = lists:sum(counts(Site)),
    ?assert(lists:member(element(1, ask(Socket, "POST", "/x", [], "body")), [error, 502, 503])),
    ?assertEqual(Before + 1, lists:sum(counts(Site))).

dead_member(Site) ->
    Socket = connect(Site),
    [?assertMatch({200, _, _}, ask(Socket, "POST", "/x", [], "body")) || _ <- lists:seq(1, 9)],
    become(Site, "127.0.0.3", dead),
    %% One request may be under way on a connection that is just being closed.
    Answers = [ask_once(Site, "POST", "/x", [], "body") || _ <- lists:seq(1, 100)],
    ?assert(length([ok || {200, _, _} <- Answers]) >= 99),
    ?assertEqual(["127.0.0.2", "127.0.0.4"], lists:usort([member(Answer) || {200, _, _} = Answer <- Answers])),
    become(Site, "127.0.0.3", serving),
    ok = all_serve(Site).

%% As long as it says that it does not serve; and it is still asked.
not_ready(Site) ->
    become(Site, "127.0.0.4", loading),
    Two = fun() -> lists:usort([member(ask_once(Site, "GET", "/x", [], "")) || _ <- lists:seq(1, 12)]) end,
    ok = wait_for(fun() -> Two() =:= ["127.0.0.2", "127.0.0.3"] end),
    become(Site, "127.0.0.4", serving),
    ok = all_serve(Site).

%% All at once, on connections that stay, and none is closed. Fewer where this process may not open so many files.
many_clients(Site) ->
    [become(Site, Host, slow) || Host <- ?HOSTS],
    Files = list_to_integer(string:trim(os:cmd("ulimit -n"))),
    Clients = min(2000, (Files - 200) div 3),
    in_parallel(Clients, fun() ->
        Socket = connect(Site),
        [?assertMatch({200, _, _}, ask(Socket, "GET", "/x", [], "")) || _ <- lists:seq(1, 6)]
    end),
    ?assertEqual(6 * Clients, lists:sum(counts(Site))).

ends(#{proxy := Proxy} = Site) ->
    Sockets = [connect(Site) || _ <- lists:seq(1, 20)],
    [?assertMatch({200, _, _}, ask(Socket, "GET", "/x", [], "")) || Socket <- Sockets],
    terminate(Proxy),
    %% 143: by the signal
    ?assert(lists:member(element(1, outcome(Proxy)), [0, 143])),
    ok = wait_for(fun() -> not is_up(Site) end).

bad_options_test_() ->
    Good = ["--host", "127.0.0.1", "--port", "1", "--members", "127.0.0.2", "--member-port", "2", "--data", "/nowhere/at/all"],
    With = fun(Name, Value) -> [case I rem 2 =:= 0 andalso lists:nth(I - 1, Good) =:= Name of true -> Value; false -> Word end
                                || {I, Word} <- lists:enumerate(Good)] end,
    Cases = [{["--kind", "nginx" | Good], "proxy: --kind: expected apache or haproxy, got \"nginx\"\n"},
             {With("--port", "0"), "proxy: --port: expected a whole number from 1 to 65535, got \"0\"\n"},
             {With("--port", "99999999999999999999"),
              "proxy: --port: expected a whole number from 1 to 65535, got \"99999999999999999999\"\n"},
             {With("--member-port", "x"), "proxy: --member-port: expected a whole number from 1 to 65535, got \"x\"\n"},
             {With("--members", "a,,b"), "proxy: --members: an address is missing\n"},
             {With("--members", "a,b;c"), "proxy: --members: expected an address, got \"b;c\"\n"},
             {["--cores", "-1" | Good], "proxy: --cores: expected a whole number from 1 to 1024, got \"-1\"\n"},
             {["--frob" | Good], "proxy: there is no option \"--frob\" (--help lists them)\n"},
             {Good ++ ["--kind"], "proxy: --kind: its value is missing\n"},
             %% All at once.
             {["--host", "h"], "proxy: --port: is missing\nproxy: --member-port: is missing\n"
                               "proxy: --members: an address is missing\nproxy: --data: is missing\n"}],
    [{Text, ?_assertEqual({2, Text}, outcome(proxy(Arguments)))} || {Arguments, Text} <- Cases].

folder_test() ->
    ?assertEqual({1, "proxy: cannot make the folder /dev/null/x\n"},
                 outcome(proxy(["--host", "127.0.0.1", "--port", "1", "--members", "127.0.0.2", "--member-port", "2",
                                "--data", "/dev/null/x"]))).

%% What the server itself says of it is to be seen.
port_taken_test_() ->
    [{Kind, {timeout, 60, fun() ->
        {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
        {ok, Port} = inet:port(Socket),
        {Status, Text} = outcome(proxy(arguments(Kind, Port, 1))),
        ?assertEqual(1, Status),
        ?assertMatch({match, _}, re:run(Text, "Address already in use"))
    end}} || Kind <- ["apache", "haproxy"]].

%% ---- the site ----

up(Kind) ->
    MemberPort = docket_probe:free_port(),
    Members = [{Host, start_member(Host, MemberPort)} || Host <- ?HOSTS],
    Port = docket_probe:free_port(),
    Proxy = proxy(arguments(Kind, Port, MemberPort)),
    Site = #{port => Port, proxy => Proxy, members => Members},
    ok = wait_for(fun() -> is_up(Site) end),
    Site.

down(#{proxy := Proxy, members := Members}) ->
    terminate(Proxy),
    [exit(Pid, kill) || {_, Pid} <- Members].

fresh(#{members := Members} = Site) ->
    [become(Site, Host, serving) || Host <- ?HOSTS],
    ok = all_serve(Site),
    [call(Pid, reset) || {_, Pid} <- Members].

%% All get their turn: thrice in a row, so that none is just about to be left out.
all_serve(Site) ->
    Turn = fun() -> lists:sort([member(ask_once(Site, "GET", "/x", [], "")) || _ <- ?HOSTS]) end,
    wait_for(fun() -> [Turn(), Turn(), Turn()] =:= [?HOSTS, ?HOSTS, ?HOSTS] end).

arguments(Kind, Port, MemberPort) ->
    Data = filename:join([docket_probe:home(), "_build", "tmp", "proxy of " ++ Kind ++ " " ++ integer_to_list(Port)]),
    ["--kind", Kind, "--host", "127.0.0.1", "--port", integer_to_list(Port), "--members", lists:join($,, ?HOSTS),
     "--member-port", integer_to_list(MemberPort), "--data", Data, "--cores", "2"].


%% Held by a process of its own, which keeps what it says: tests of one setup are not all run by the same process.
proxy(Arguments) ->
    spawn(fun() ->
        Port = open_port({spawn_executable, filename:join([docket_probe:home(), "bin", "proxy"])},
                         [{args, [lists:flatten(Argument) || Argument <- Arguments]}, stderr_to_stdout, exit_status]),
        hold(Port, [])
    end).

hold(Port, Said) ->
    receive
        {Port, {data, Data}} -> hold(Port, [Said, Data]);
        {Port, {exit_status, Status}} -> held({Status, lists:flatten(Said)});
        {call, From, Ref, terminate} ->
            {os_pid, Pid} = erlang:port_info(Port, os_pid),
            From ! {Ref, os:cmd("kill " ++ integer_to_list(Pid))},
            hold(Port, Said)
    end.

held(Outcome) ->
    receive
        {call, From, Ref, outcome} -> From ! {Ref, Outcome}, held(Outcome);
        {call, From, Ref, terminate} -> From ! {Ref, ""}, held(Outcome)
    end.

terminate(Proxy) -> call(Proxy, terminate).

%% Its status and all it said, when it has ended.
outcome(Proxy) -> call(Proxy, outcome).

is_up(#{port := Port}) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, []) of
        {ok, Socket} -> gen_tcp:close(Socket), true;
        {error, _} -> false
    end.

%% ---- a client ----

connect(#{port := Port}) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {packet, http_bin}, {active, false}, {nodelay, true}]),
    Socket.

ask(Socket, Method, Path, Headers, Body) ->
    Lines = [[Name, ": ", Value, "\r\n"] || {Name, Value} <- [{"host", "docket"} | Headers]],
    Length = integer_to_list(iolist_size(Body)),
    _ = gen_tcp:send(Socket, [Method, " ", Path, " HTTP/1.1\r\n", Lines, "content-length: ", Length, "\r\n\r\n", Body]),
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_response, _, Status, _}} ->
            {ok, Answered} = headers(Socket, []),
            {Status, Answered, body(Socket, Answered)};
        {error, Reason} ->
            {error, Reason}
    end.

%% On a connection of its own.
ask_once(Site, Method, Path, Headers, Body) ->
    Socket = connect(Site),
    Answer = ask(Socket, Method, Path, Headers, Body),
    ok = gen_tcp:close(Socket),
    Answer.

member({_, Headers, _}) -> binary_to_list(proplists:get_value(<<"x-member">>, Headers, <<"none">>));
member({error, _}) -> "none".

headers(Socket, Headers) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_header, _, Name, _, Value}} -> headers(Socket, [{lower(Name), Value} | Headers]);
        {ok, http_eoh} -> {ok, Headers};
        {error, Reason} -> {error, Reason}
    end.

lower(Name) when is_atom(Name) -> lower(atom_to_binary(Name));
lower(Name) -> string:lowercase(Name).

body(Socket, Headers) ->
    case binary_to_integer(proplists:get_value(<<"content-length">>, Headers, <<"0">>)) of
        0 ->
            <<>>;
        Length ->
            ok = inet:setopts(Socket, [{packet, raw}]),
            {ok, Body} = gen_tcp:recv(Socket, Length),
            ok = inet:setopts(Socket, [{packet, http_bin}]),
            Body
    end.

%% ---- a member ----

start_member(Host, Port) ->
    Pid = spawn(fun() -> run_member(#{host => Host, port => Port, mode => dead, count => 0, listening => none}) end),
    ok = call(Pid, {become, serving}),
    Pid.

become(#{members := Members}, Host, Mode) -> ok = call(proplists:get_value(Host, Members), {become, Mode}).
counts(#{members := Members}) -> [call(Pid, count) || {_, Pid} <- Members].

call(Pid, Question) ->
    Ref = make_ref(),
    Pid ! {call, self(), Ref, Question},
    receive {Ref, Answer} -> Answer end.

run_member(#{mode := Mode, count := Count} = State) ->
    receive
        {call, From, Ref, {become, New}} ->
            Next = become(New, State),
            From ! {Ref, ok},
            run_member(Next);
        {call, From, Ref, count} ->
            From ! {Ref, Count},
            run_member(State);
        {call, From, Ref, reset} ->
            From ! {Ref, ok},
            run_member(State#{count := 0});
        {call, From, Ref, mode} ->
            From ! {Ref, Mode},
            run_member(State);
        {call, From, Ref, counted} ->
            From ! {Ref, Mode},
            run_member(State#{count := Count + 1})
    end.

become(dead, #{listening := Listening} = State) when Listening =/= none ->
    %% As with a process that was killed, its connections are closed, too.
    {Acceptor, Monitor} = Listening,
    exit(Acceptor, kill),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    State#{mode := dead, listening := none};
become(Mode, #{listening := none, host := Host, port := Port} = State) when Mode =/= dead ->
    Member = self(),
    Started = spawn_monitor(fun() ->
        {ok, Address} = inet:parse_address(Host),
        {ok, Listening} = gen_tcp:listen(Port, [binary, {packet, http_bin}, {active, false}, {ip, Address}, {reuseaddr, true},
                                                {nodelay, true}, {backlog, 4096}]),
        Member ! listens,
        accept(Listening, Host, Member)
    end),
    receive listens -> ok end,
    State#{mode := Mode, listening := Started};
become(Mode, State) ->
    State#{mode := Mode}.

accept(Listening, Host, Member) ->
    {ok, Socket} = gen_tcp:accept(Listening),
    %% Linked: it ends with the acceptor.
    Pid = spawn_link(fun() -> receive go -> serve(Socket, Host, Member) end end),
    ok = gen_tcp:controlling_process(Socket, Pid),
    Pid ! go,
    accept(Listening, Host, Member).

serve(Socket, Host, Member) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_request, Method, {abs_path, Path}, _}} ->
            {ok, Headers} = headers(Socket, []),
            Body = body(Socket, Headers),
            Question = case Path of <<"/health/ready">> -> mode; _ -> counted end,
            Answer = answer(call(Member, Question), Path, word(Method), Headers, Body),
            reply(Answer, Socket, Host),
            case Answer of drop -> ok; _ -> serve(Socket, Host, Member) end;
        {error, _} ->
            gen_tcp:close(Socket)
    end.

word(Method) when is_atom(Method) -> atom_to_binary(Method);
word(Method) -> Method.

answer(loading, <<"/health/ready">>, _, _, _) -> {503, [], <<"loading">>};
answer(_, <<"/health/ready">>, _, _, _) -> {200, [], <<"ready">>};
answer(refusing, _, _, _, _) -> {503, ["retry-after: 1\r\nx-refused: admission\r\n"], <<"later">>};
answer(dropping, _, _, _, _) -> drop;
answer(slow, _, _, _, _) -> timer:sleep(200), {200, [], <<"slow">>};
answer(_, <<"/no-content">>, _, _, _) -> {204, [], <<>>};
answer(_, Path, Method, Headers, Body) ->
    Match = proplists:get_value(<<"if-match">>, Headers, <<"none">>),
    {200, ["etag: \"8\"\r\n"], <<Method/binary, " ", Path/binary, " if-match: ", Match/binary, " ", Body/binary>>}.

reply(drop, Socket, _) ->
    ok = gen_tcp:close(Socket);
reply({Status, Lines, Body}, Socket, Host) ->
    Length = case Status of 204 -> []; _ -> ["content-length: ", integer_to_list(byte_size(Body)), "\r\n"] end,
    Head = ["HTTP/1.1 ", integer_to_list(Status), " Answer\r\nx-member: ", Host, "\r\n", Lines, Length, "\r\n"],
    gen_tcp:send(Socket, [Head, Body]).

%% ---- the rest ----

in_parallel(N, Task) ->
    Pids = [spawn_monitor(Task) || _ <- lists:seq(1, N)],
    ?assertEqual([normal], lists:usort([receive {'DOWN', Monitor, _, _, Reason} -> Reason end || {_, Monitor} <- Pids])).

wait_for(Ask) ->
    case Ask() of
        true -> ok;
        false -> timer:sleep(50), wait_for(Ask)
    end.
