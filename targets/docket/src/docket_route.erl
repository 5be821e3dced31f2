%% What a request means and what is answered: PROTOCOL.md, line by line.
-module(docket_route).

-export([is_always_admitted/1, answer/5]).
-export_type([answer/0, pages/0]).

-type headers() :: [{string(), string()}].
-type pages() :: fun(() -> done | broken | {iodata(), pages()}).
-type answer() :: {100..599, headers(), iodata() | {pages, iodata(), pages()}}.
-type head() :: fun((string()) -> string() | undefined).

-define(JSON, {"content-type", "application/json"}).
-define(PAGE, 20).
-define(LARGEST_PAGE, 1000).
-define(LARGEST_PICTURE, 16384).
-define(MOST_ITERATIONS, 1000000).
-define(HEALTH_MS, 3000).

%% @doc What whoever watches a member asks is answered however busy it is.
-spec is_always_admitted([binary()]) -> boolean().
is_always_admitted([Word | _]) -> lists:member(Word, [<<"health">>, <<"metrics">>, <<"inspect">>, <<"audit">>]);
is_always_admitted(_) -> false.

%% @doc The answer to a request.
-spec answer(Method :: atom() | string(), Path :: [binary()], Query :: string(), head(), Body :: binary()) -> answer().
answer(Method, Path, Query, Head, Body) ->
    case allowed(Path) of
        [] ->
            {404, [], "there is no such path\n"};
        Methods ->
            case lists:member(Method, Methods) of
                true -> work(Path), route(Method, Path, Query, Head, Body);
                false -> {405, [{"allow", lists:append(lists:join(", ", [atom_to_list(M) || M <- Methods]))}], "not with this method\n"}
            end
    end.

-spec work([binary()]) -> ok.
work([<<"cases">> | _]) -> docket_work:compute(docket_work:rounds(docket_options:get(work_ms)));
work(_) -> ok.

-spec allowed([binary()]) -> [atom()].
allowed([<<"cases">>]) -> ['GET', 'DELETE'];
allowed([<<"cases">>, _]) -> ['GET', 'POST', 'PUT', 'DELETE'];
allowed([<<"health">>]) -> ['GET'];
allowed([<<"health">>, <<"ready">>]) -> ['GET'];
allowed([Word]) when Word =:= <<"mandelbrot">>; Word =:= <<"metrics">>; Word =:= <<"inspect">>; Word =:= <<"audit">> -> ['GET'];
allowed(_) -> [].

-spec route(atom(), [binary()], string(), head(), binary()) -> answer().
route('GET', [<<"health">>], _, _, _) ->
    {200, [], "ok\n"};
route('GET', [<<"health">>, <<"ready">>], _, _, _) ->
    case ready() of
        true -> {200, [], "ready\n"};
        Why -> {503, [], [unicode:characters_to_binary(Why), "\n"]}
    end;
route('GET', [<<"metrics">>], _, _, _) ->
    {200, [{"content-type", "text/plain; version=0.0.4; charset=utf-8"}], docket_metrics:text()};
route('GET', [<<"inspect">>], _, _, _) ->
    {200, [?JSON], [docket_inspect:json(), "\n"]};
route('GET', [<<"audit">>], _, _, _) ->
    audit();
route('GET', [<<"mandelbrot">>], Query, _, _) ->
    with(fun([Size, Iterations]) -> mandelbrot(Size, Iterations) end,
         [whole("size", Query, none, 1, ?LARGEST_PICTURE), whole("iterations", Query, none, 1, ?MOST_ITERATIONS)]);
route('GET', [<<"cases">>], Query, _, _) ->
    list(Query);
route('DELETE', [<<"cases">>], _, _, _) ->
    case docket_core:ask(docket_register, clear, []) of
        ok -> {200, [?JSON], "{}\n"};
        Failure -> other(Failure)
    end;
route(Method, [<<"cases">>, Id], _, Head, Body) ->
    case docket_case:is_id(Id) of
        true -> one(Method, Id, Head, Body);
        false -> {400, [], "an id is 1 to 200 of A-Z a-z 0-9 . _ -\n"}
    end.

-spec ready() -> true | unicode:chardata().
ready() ->
    case docket_core:ask(docket_cluster, ready, [], ?HEALTH_MS) of
        {aborted, Reason} -> io_lib:format("no answer from its core: ~0tp", [Reason]);
        Ready -> Ready
    end.

-spec list(string()) -> answer().
list(Query) ->
    Asked = mochiweb_util:parse_qs(Query),
    case {lists:keyfind("party", 1, Asked), lists:keyfind("after", 1, Asked)} of
        {{_, Party}, _} ->
            ids(docket_core:ask(docket_register, of_party, [list_to_binary(Party)]));
        {false, After} ->
            Id = case After of {_, Text} -> list_to_binary(Text); false -> <<>> end,
            with(fun([Limit]) -> ids(docket_core:ask(docket_register, page, [Id, Limit])) end,
                 [whole("limit", Query, ?PAGE, 1, ?LARGEST_PAGE)])
    end.

%% Ids need no escaping.
-spec ids({ok, [docket_case:id()]} | docket_register:failure()) -> answer().
ids({ok, Ids}) -> {200, [?JSON], ["[", lists:join(",", [[$", Id, $"] || Id <- Ids]), "]"]};
ids(Failure) -> other(Failure).

-spec one('GET' | 'POST' | 'PUT' | 'DELETE', docket_case:id(), head(), binary()) -> answer().
one('GET', Id, _, _) ->
    case docket_core:ask(docket_register, read, [Id]) of
        {ok, Version, Document} -> {200, [?JSON, {"etag", docket_case:etag(Version)}], Document};
        Other -> other(Other)
    end;
one('POST', Id, _, Body) ->
    document(Id, Body, fun(Party) ->
        case docket_core:ask(docket_register, create, [Id, Party, Body]) of
            {ok, Version} -> {201, [{"etag", docket_case:etag(Version)}], ""};
            Other -> other(Other)
        end
    end);
one('PUT', Id, Head, Body) ->
    case if_match(Head) of
        none ->
            {428, [], "if-match is needed: the version that was read\n"};
        bad ->
            bad_match();
        Seen ->
            document(Id, Body, fun(Party) ->
                case docket_core:ask(docket_register, modify, [Id, Seen, Party, Body]) of
                    {ok, Version} -> {200, [{"etag", docket_case:etag(Version)}], ""};
                    Other -> other(Other)
                end
            end)
    end;
one('DELETE', Id, Head, _) ->
    case if_match(Head) of
        bad ->
            bad_match();
        Match ->
            Seen = case Match of none -> any; _ -> Match end,
            case docket_core:ask(docket_register, delete, [Id, Seen]) of
                ok -> {204, [], ""};
                Other -> other(Other)
            end
    end.

%% With a good document and, if it is on, the consent of the serial server.
-spec document(docket_case:id(), binary(), fun((docket_case:party()) -> answer())) -> answer().
document(Id, Body, Then) ->
    case docket_case:party(Body) of
        {ok, Party} ->
            case docket_admittance:ask(Id, Party, byte_size(Body)) of
                ok -> Then(Party);
                {refused, Reason} -> {422, [], [said(Reason), "\n"]};
                {error, Reason} -> {503, [], ["the serial server: ", said(Reason), "\n"]};
                Other -> other(Other)
            end;
        {error, Text} ->
            {400, [], [Text, "\n"]}
    end.

-spec if_match(head()) -> docket_case:version() | any | none | bad.
if_match(Head) ->
    case Head("if-match") of
        undefined ->
            none;
        "*" ->
            any;
        Text ->
            case docket_case:version(Text) of
                {ok, Version} -> Version;
                error -> bad
            end
    end.

-spec bad_match() -> answer().
bad_match() -> {400, [], "if-match is not a version: \"1\", with the quotes\n"}.

%% What is no success.
-spec other(exists | missing | {other, docket_case:version()} | docket_register:failure()) -> answer().
other(exists) -> {409, [], "there is such a case\n"};
other(missing) -> {404, [], "there is no such case\n"};
other({other, Version}) -> {412, [{"etag", docket_case:etag(Version)}], "the case has another version\n"};
other({unready, Why}) -> {503, [], ["this member does not serve yet: ", unicode:characters_to_binary(Why), "\n"]};
other({aborted, Reason}) -> {503, [], io_lib:format("aborted: ~0tp~n", [Reason])}.

-spec mandelbrot(pos_integer(), pos_integer()) -> answer().
mandelbrot(Size, Iterations) ->
    case docket_core:ask(docket_mandelbrot, picture, [Size, Iterations]) of
        #{inside := Inside, workers := Workers, nodes := Nodes} ->
            Names = lists:join(",", [io_lib:format("\"~ts\"", [Node]) || Node <- Nodes]),
            {200, [?JSON, {"x-members-used", integer_to_list(length(Nodes))}],
             io_lib:format("{\"size\":~b,\"iterations\":~b,\"inside\":~b,\"workers\":~b,\"nodes\":[~ts]}",
                           [Size, Iterations, Inside, Workers, Names])};
        Failure ->
            other(Failure)
    end.

%% Page by page: a member may have more cases than it could hold twice.
-spec audit() -> answer().
audit() ->
    case docket_core:ask(docket_register, audit, [<<>>]) of
        {aborted, _} = Failure -> other(Failure);
        Rows -> {200, [?JSON], {pages, "{\"records\": {\n", pages(Rows, "")}}
    end.

-spec pages([tuple()] | docket_register:failure(), string()) -> pages().
pages({aborted, _}, _) ->
    fun() -> broken end;
pages([], _) ->
    fun() -> {"\n}}\n", fun() -> done end} end;
pages(Rows, Between) ->
    fun() ->
        {Last, _, _} = lists:last(Rows),
        Lines = [["\"", Id, "\": {\"value\": \"", docket_case:escape(Document), "\", \"version\": \"", integer_to_list(Version), "\"}"]
                 || {Id, Version, Document} <- Rows],
        Next = docket_core:ask(docket_register, audit, [Last]),
        {[Between, lists:join(",\n", Lines)], pages(Next, ",\n")}
    end.

-type read() :: {ok, integer()} | {error, iolist()}.

-spec with(fun(([integer()]) -> answer()), [read()]) -> answer().
with(Fun, Read) ->
    case [Text || {error, Text} <- Read] of
        [] -> Fun([N || {ok, N} <- Read]);
        [Text | _] -> {400, [], [Text, "\n"]}
    end.

-spec whole(string(), string(), integer() | none, integer(), integer()) -> read().
whole(Name, Query, Default, Min, Max) ->
    Expected = {error, io_lib:format("~ts: expected a whole number from ~b to ~b", [Name, Min, Max])},
    case lists:keyfind(Name, 1, mochiweb_util:parse_qs(Query)) of
        false when is_integer(Default) ->
            {ok, Default};
        false ->
            Expected;
        {_, Text} ->
            try list_to_integer(Text) of
                N when N >= Min, N =< Max -> {ok, N};
                _ -> Expected
            catch
                error:badarg -> Expected
            end
    end.

-spec said(term()) -> unicode:chardata().
said(Reason) when is_binary(Reason) -> Reason;
said(Reason) -> io_lib:format("~0tp", [Reason]).
