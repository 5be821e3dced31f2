%% Real members for tests: bin/docket on 127.0.0.2 and up, what they print, how they end, and a small HTTP client.
-module(docket_probe).

-export([cluster/1, cluster/2, start/2, again/1, launch/1, pid/1, signal/2, ending/1, lines/1, stop/1]).
-export([get/2, ask/4, ask/5, ready/1, status/2, ids/1, until/1, until/2, home/0, folder/0, free_port/0, kill_group/1]).

-define(PATIENCE_MS, 60000).

%% Members are killed when the one who started them is gone, whatever happened to it.
-define(KEEPER, "exec 3<&0; \"$@\" </dev/null 3<&- & p=$!; echo \"pid $p\"; (cat <&3; kill -9 $p) >/dev/null 2>&1 & "
                "w=$!; wait $p; s=$?; kill $w 2>/dev/null; exit $s").

%% N members that form a cluster, not started.
cluster(N) -> cluster(N, []).

cluster(N, Arguments) ->
    Addresses = ["127.0.0." ++ integer_to_list(I) || I <- lists:seq(2, N + 1)],
    [Http, Distribution, Serial] = [integer_to_list(free_port()) || _ <- [1, 2, 3]],
    Folder = folder(),
    [#{address => Address, http => list_to_integer(Http),
       arguments => ["--host", Address, "--http-port", Http, "--distribution-port", Distribution, "--serial-port", Serial,
                     "--members", lists:append(lists:join(",", Addresses)), "--data", filename:join(Folder, Address),
                     "--cores", "1"] ++ Arguments}
     || Address <- Addresses].

start(N, Arguments) ->
    Members = [again(M) || M <- cluster(N, Arguments)],
    lists:foreach(fun ready/1, Members),
    Members.

%% Starts a member, or starts it again with what it left.
again(#{arguments := Arguments} = Member) ->
    Member#{process => launch(Arguments)}.

%% A process that keeps what bin/docket prints.
launch(Arguments) ->
    spawn(fun() ->
        Port = open_port({spawn_executable, "/bin/sh"},
                         [{args, ["-c", ?KEEPER, "sh", filename:join(home(), "bin/docket") | Arguments]},
                          exit_status, stderr_to_stdout, binary, {line, 4000}]),
        keep(Port, none, [], [])
    end).

keep(Port, Pid, Lines, Waiting) ->
    receive
        {Port, {data, {_, <<"pid ", Number/binary>>}}} -> keep(Port, binary_to_integer(Number), Lines, Waiting);
        {Port, {data, {_, Line}}} -> keep(Port, Pid, [Line | Lines], Waiting);
        {Port, {exit_status, Status}} ->
            [From ! {ended, self(), {Status, lists:reverse(Lines)}} || From <- Waiting],
            kept(Pid, Status, Lines);
        {From, pid} when Pid =/= none -> From ! {self(), Pid}, keep(Port, Pid, Lines, Waiting);
        {From, lines} -> From ! {self(), lists:reverse(Lines)}, keep(Port, Pid, Lines, Waiting);
        {From, ending} -> keep(Port, Pid, Lines, [From | Waiting])
    end.

kept(Pid, Status, Lines) ->
    receive
        {From, pid} -> From ! {self(), Pid};
        {From, lines} -> From ! {self(), lists:reverse(Lines)};
        {From, ending} -> From ! {ended, self(), {Status, lists:reverse(Lines)}}
    end,
    kept(Pid, Status, Lines).

pid(#{process := Process}) -> call(Process, pid).
lines(#{process := Process}) -> call(Process, lines).

call(Process, What) ->
    Process ! {self(), What},
    receive {Process, Answer} -> Answer after ?PATIENCE_MS -> error({no_answer, What}) end.

%% The status and all lines of a member that ends, or of what was launched.
ending(#{process := Process}) -> ending(Process);
ending(Process) ->
    Process ! {self(), ending},
    receive {ended, Process, Ending} -> Ending after ?PATIENCE_MS -> error(does_not_end) end.

signal(Member, Name) ->
    "" = os:cmd("kill -" ++ Name ++ " " ++ integer_to_list(pid(Member))),
    Member.

%% Ends members however they are.
stop(Members) when is_list(Members) ->
    [os:cmd("kill -9 " ++ integer_to_list(pid(M))) || #{process := _} = M <- Members],
    [ending(M) || #{process := _} = M <- Members],
    ok.

%% The VM that a member's web server started, if any.
kill_group(Member) ->
    Children = "pgrep -P " ++ integer_to_list(pid(Member)),
    string:trim(os:cmd("for c in $(" ++ Children ++ "); do pgrep -P $c beam; done")).

%% ---- HTTP

get(Member, Path) -> ask(Member, "GET", Path, []).
ask(Member, Method, Path, Headers) -> ask(Member, Method, Path, Headers, <<>>).

%% {Status, Headers with small letters, Body}, or {error, Reason} if there is no answer.
ask(#{address := Address, http := Port}, Method, Path, Headers, Body) ->
    {ok, Ip} = inet:parse_address(Address),
    case gen_tcp:connect(Ip, Port, [binary, {active, false}, {packet, http_bin}], 5000) of
        {ok, Socket} ->
            Length = case {Body, Method} of
                {<<>>, "GET"} -> "";
                _ -> ["content-length: ", integer_to_list(byte_size(Body)), "\r\n"]
            end,
            ok = gen_tcp:send(Socket, [Method, " ", Path, " HTTP/1.1\r\nhost: ", Address, "\r\nconnection: close\r\n", Length,
                                       [[Name, ": ", Value, "\r\n"] || {Name, Value} <- Headers], "\r\n", Body]),
            Answer = answer(Socket),
            gen_tcp:close(Socket),
            Answer;
        Error ->
            Error
    end.

answer(Socket) ->
    case gen_tcp:recv(Socket, 0, 30000) of
        {ok, {http_response, _, Status, _}} -> headers(Socket, Status, #{});
        {ok, Other} -> {error, Other};
        Error -> Error
    end.

headers(Socket, Status, Headers) ->
    case gen_tcp:recv(Socket, 0, 30000) of
        {ok, {http_header, _, Name, _, Value}} ->
            headers(Socket, Status, Headers#{string:lowercase(text(Name)) => Value});
        {ok, http_eoh} ->
            ok = inet:setopts(Socket, [{packet, raw}]),
            Body = rest(Socket, <<>>),
            {Status, Headers, case Headers of #{<<"transfer-encoding">> := <<"chunked">>} -> chunks(Body); _ -> Body end}
    end.

text(Name) when is_atom(Name) -> atom_to_binary(Name);
text(Name) -> Name.

rest(Socket, Sofar) ->
    case gen_tcp:recv(Socket, 0, 30000) of
        {ok, More} -> rest(Socket, <<Sofar/binary, More/binary>>);
        {error, closed} -> Sofar
    end.

chunks(Body) ->
    [Size, Rest] = binary:split(Body, <<"\r\n">>),
    case binary_to_integer(string:trim(Size), 16) of
        0 -> <<>>;
        N -> <<Chunk:N/binary, "\r\n", Others/binary>> = Rest, <<Chunk/binary, (chunks(Others))/binary>>
    end.

ready(Member) ->
    until(fun() -> status(Member, "/health/ready") =:= 200 end, fun() -> {not_ready, Member, lines(Member)} end),
    Member.

status(Member, Path) ->
    case get(Member, Path) of
        {error, Reason} -> Reason;
        {Status, _, _} -> Status
    end.

%% The ids that a member has of its own.
ids(Member) ->
    {200, _, Body} = get(Member, "/audit"),
    {struct, [{<<"records">>, {struct, Records}}]} = mochijson2:decode(Body),
    lists:sort([Id || {Id, _} <- Records]).

until(Fun) -> until(Fun, fun() -> never end).

%% Reason is made when patience ends: what there is to say then is what helps.
until(Fun, Reason) -> until(Fun, Reason, erlang:monotonic_time(millisecond) + ?PATIENCE_MS).

until(Fun, Reason, End) ->
    case Fun() of
        true -> ok;
        _ ->
            [error(Reason()) || erlang:monotonic_time(millisecond) > End],
            timer:sleep(50),
            until(Fun, Reason, End)
    end.

%% ---- Places

%% The target's folder: rebar3 builds into _build/test/lib/docket there.
home() -> lists:foldl(fun(_, Folder) -> filename:dirname(Folder) end, code:lib_dir(docket), "four").

folder() ->
    Folder = filename:join([home(), "_build/tmp", integer_to_list(erlang:unique_integer([positive]))]),
    ok = filelib:ensure_path(Folder),
    Folder.

%% Below the ports that the kernel gives to connections, so that none of those is in the way. Each is handed out once: cases run
%% side by side, and a port that is free now may be the next case's in a moment.
free_port() ->
    Turn = erlang:unique_integer([positive, monotonic]),
    Port = 20000 + (erlang:phash2(os:getpid(), 10000) + Turn) rem 10000,
    case gen_tcp:listen(Port, [{reuseaddr, true}]) of
        {ok, Socket} -> gen_tcp:close(Socket), Port;
        {error, _} -> free_port()
    end.
