%% Real members: they form one cluster, lose members, get them back, and say what they cannot do.
-module(docket_cluster_SUITE).
-compile([export_all, nowarn_export_all]).
-include_lib("stdlib/include/assert.hrl").

-define(DOCUMENT, <<"{\"party\":\"P\"}">>).

%% They mostly wait, and each has its own ports.
all() -> [{group, members}].

groups() ->
    [{members, [parallel],
      [forms_one_cluster, first_is_killed_ram, first_is_killed_disc, other_is_killed_ram, other_is_killed_disc,
       two_are_killed_at_once, all_are_stopped, all_are_killed, folder_is_lost, split_brain, tables_elsewhere,
       schema_of_another_cluster, folder_of_another_cluster, never_alone]}].

suite() -> [{timetrap, {seconds, 100}}].

%% ---- Forming

forms_one_cluster(_) ->
    with(3, ["--write", "sync_transaction", "--copies", "ram"], fun(Members) ->
        [?assertEqual([true, true, true], in_cluster(M)) || M <- Members],
        Created = [create(M, "case-" ++ integer_to_list(N)) || {N, M} <- lists:zip([1, 2, 3], Members)],
        [?assertEqual({200, ?DOCUMENT}, browse(M, Id)) || M <- Members, Id <- Created],
        [?assertEqual([<<"case-1">>, <<"case-2">>, <<"case-3">>], docket_probe:ids(M)) || M <- Members]
    end).

%% A fresh member does not make a cluster of its own while it does not know what the others have.
never_alone(_) ->
    [First, Second | _] = docket_probe:cluster(3, ["--copies", "ram"]),
    Started = [docket_probe:again(First), docket_probe:again(Second)],
    try
        docket_probe:until(fun() ->
            case docket_probe:get(hd(Started), "/health/ready") of
                {503, _, Why} -> binary:match(Why, <<"no answer from docket@127.0.0.4">>) =/= nomatch;
                _ -> false
            end
        end),
        {503, _, _} = docket_probe:ask(hd(Started), "POST", "/cases/a", [], ?DOCUMENT),
        {503, _, _} = docket_probe:get(hd(Started), "/audit"),
        200 = docket_probe:status(hd(Started), "/health")
    after
        docket_probe:stop(Started)
    end.

%% ---- Losing members and getting them back

first_is_killed_ram(_) -> one_is_killed(1, "ram").
first_is_killed_disc(_) -> one_is_killed(1, "disc").
other_is_killed_ram(_) -> one_is_killed(3, "ram").
other_is_killed_disc(_) -> one_is_killed(3, "disc").

one_is_killed(Which, Copies) ->
    with(3, ["--write", "sync_transaction", "--copies", Copies], fun(Members) ->
        Victim = lists:nth(Which, Members),
        Others = Members -- [Victim],
        create(Victim, "before"),
        kill([Victim]),
        create(hd(Others), "while"),
        Back = docket_probe:ready(docket_probe:again(Victim)),
        try
            create(Back, "after"),
            [?assertEqual([<<"after">>, <<"before">>, <<"while">>], docket_probe:ids(M)) || M <- [Back | Others]],
            [?assertEqual([true, true, true], in_cluster(M)) || M <- [Back | Others]],
            ?assertEqual({200, ?DOCUMENT}, browse(Back, "while"))
        after
            docket_probe:stop([Back])
        end
    end).

two_are_killed_at_once(_) ->
    with(3, ["--write", "sync_transaction", "--copies", "ram"], fun([First, Second, Third]) ->
        create(First, "before"),
        kill([First, Second]),
        Back = [docket_probe:again(M) || M <- [First, Second]],
        try
            [docket_probe:ready(M) || M <- Back],
            [?assertEqual([<<"before">>], docket_probe:ids(M)) || M <- [Third | Back]]
        after
            docket_probe:stop(Back)
        end
    end).

all_are_stopped(_) -> all_come_back("TERM", 0).
all_are_killed(_) -> all_come_back("KILL", 137).

all_come_back(Signal, Status) ->
    with(3, ["--write", "sync_transaction"], fun(Members) ->
        create(hd(Members), "early"),
        %% Mnesia writes its log behind: what was answered in the last moments may be lost if all are killed at once.
        timer:sleep(3000),
        [docket_probe:signal(M, Signal) || M <- Members],
        [?assertMatch({Status, _}, docket_probe:ending(M)) || M <- Members],
        Back = [docket_probe:again(M) || M <- Members],
        try
            [docket_probe:ready(M) || M <- Back],
            [?assertEqual([<<"early">>], docket_probe:ids(M)) || M <- Back],
            create(lists:last(Back), "late"),
            [?assertEqual([<<"early">>, <<"late">>], docket_probe:ids(M)) || M <- Back]
        after
            docket_probe:stop(Back)
        end
    end).

%% A member with copies on disk that comes back without them is let in as a new one.
folder_is_lost(_) ->
    with(2, ["--write", "sync_transaction"], fun([First, Second]) ->
        create(First, "kept"),
        kill([First]),
        ok = file:del_dir_r(folder(First)),
        Back = docket_probe:ready(docket_probe:again(First)),
        try
            [?assertEqual([<<"kept">>], docket_probe:ids(M)) || M <- [Back, Second]]
        after
            docket_probe:stop([Back])
        end
    end).

%% ---- What goes wrong

%% A member that does nothing for longer than the others wait is, to them, a network that broke and healed.
split_brain(_) ->
    with(2, ["--write", "async_dirty", "--copies", "ram"], fun([First, Second]) ->
        create(First, "both"),
        docket_probe:until(fun() -> docket_probe:ids(Second) =:= [<<"both">>] end),
        docket_probe:signal(Second, "STOP"),
        docket_probe:until(fun() -> contains(First, "docket@127.0.0.3 is down") end),
        create(First, "one-side"),
        docket_probe:signal(Second, "CONT"),
        docket_probe:until(fun() -> contains(Second, "inconsistent_database running_partitioned_network docket@127.0.0.2") end),
        create(Second, "other-side"),
        ?assertEqual([<<"both">>, <<"one-side">>], docket_probe:ids(First)),
        ?assertEqual([<<"both">>, <<"other-side">>], docket_probe:ids(Second)),
        ?assertMatch({match, _}, re:run(metrics(Second), "\ndocket_inconsistent_database_total [1-9]")),
        ?assertMatch(#{<<"apart_from">> := [<<"127.0.0.2">>]}, inspect(Second)),
        ?assertEqual(200, docket_probe:status(Second, "/health/ready"))
    end).

%% Only the member that was stopped first comes back: the last cases are with the other.
tables_elsewhere(_) ->
    with(2, [], fun([First, Second]) ->
        docket_probe:signal(First, "TERM"),
        {0, _} = docket_probe:ending(First),
        create(Second, "later"),
        kill([Second]),
        Back = docket_probe:again(First),
        {1, Lines} = docket_probe:ending(Back),
        [Waits, Cannot] = [Line || <<"docket: ", Line/binary>> <- Lines],
        ?assertEqual(<<"waits for tables: docket_case, docket_party not loaded, the last cases may be with docket@127.0.0.3">>, Waits),
        ?assertEqual(<<"cannot load its tables: docket_case, docket_party not loaded, the last cases may be with docket@127.0.0.3; "
                       "start those members, too, or empty the data folders of all">>, Cannot)
    end).

%% The same members formed two clusters at different times, and one of each is started.
schema_of_another_cluster(_) ->
    [First, Second] = Plan = docket_probe:cluster(2),
    once(Plan),
    ok = file:rename(folder(Second), folder(Second) ++ ".old"),
    ok = file:del_dir_r(folder(First)),
    once(Plan),
    ok = file:del_dir_r(folder(Second)),
    ok = file:rename(folder(Second) ++ ".old", folder(Second)),
    Started = [docket_probe:again(M) || M <- Plan],
    try
        docket_probe:until(fun() -> lists:any(fun is_refused/1, Started) end)
    after
        docket_probe:stop(Started)
    end.

is_refused(Member) -> contains(Member, "docket: cannot join the others: their schema is not the one in its data folder").

folder_of_another_cluster(_) ->
    [#{arguments := Arguments} = Member] = docket_probe:cluster(1),
    once([Member]),
    {2, [Line]} = docket_probe:ending(docket_probe:launch(Arguments ++ ["--members", "127.0.0.2,127.0.0.3"])),
    ?assertEqual(<<"docket: cannot serve with docket@127.0.0.2, docket@127.0.0.3: its data folder is of a cluster of "
                   "docket@127.0.0.2; start it with those, or empty the folder">>, Line).

%% ---- Steps

with(N, Arguments, Fun) ->
    Members = docket_probe:start(N, Arguments),
    try
        Fun(Members)
    after
        docket_probe:stop(Members)
    end.

%% Forms a cluster and stops it in order.
once(Plan) ->
    Members = [docket_probe:again(M) || M <- Plan],
    [docket_probe:ready(M) || M <- Members],
    [docket_probe:signal(M, "TERM") || M <- Members],
    [{0, _} = docket_probe:ending(M) || M <- Members].

kill(Members) ->
    [docket_probe:signal(M, "KILL") || M <- Members],
    [{137, _} = docket_probe:ending(M) || M <- Members].

create(Member, Id) ->
    {201, _, _} = docket_probe:ask(Member, "POST", "/cases/" ++ Id, [], ?DOCUMENT),
    Id.

browse(Member, Id) ->
    {Status, _, Body} = docket_probe:get(Member, "/cases/" ++ Id),
    {Status, Body}.

folder(#{arguments := Arguments}) ->
    [Folder] = [F || {"--data", F} <- lists:zip(lists:droplast(Arguments), tl(Arguments))],
    Folder.

contains(Member, Text) ->
    lists:any(fun(Line) -> string:find(Line, Text) =/= nomatch end, docket_probe:lines(Member)).

metrics(Member) ->
    {200, _, Text} = docket_probe:get(Member, "/metrics"),
    Text.

inspect(Member) ->
    {200, _, Body} = docket_probe:get(Member, "/inspect"),
    {struct, Facts} = mochijson2:decode(Body),
    maps:from_list(Facts).

in_cluster(Member) ->
    #{<<"members">> := Members} = inspect(Member),
    [proplists:get_value(<<"in_cluster">>, Facts) || {struct, Facts} <- Members].
