%% The cases, in a Mnesia table: created, browsed, modified and deleted in the modes the member was started with.
%%
%% Whose cases they are stands in a second table, by party. An index of Mnesia would do that, too, but a transaction that looks
%% into one holds all writers of the whole table up; here it meets those of its own party only.
%%
%% All that a request does happens in one mnesia:activity/2, the check of the version, too. In the dirty modes that is no atomic
%% step, and is not meant to be: what that costs is what they are compared for.
-module(docket_register).

-export([tables/1, create/3, read/1, of_party/1, page/2, modify/4, delete/2, clear/0, audit/1]).
-export_type([failure/0]).

%% Why nothing can be said about a request: Mnesia's reason, or why the member is not in its cluster yet.
-type failure() :: {aborted, term()} | {unready, unicode:chardata()}.

-define(TABLE, docket_case).
-record(docket_case, {
    id :: docket_case:id(),
    version :: docket_case:version(),
    party :: docket_case:party(),
    document :: docket_case:document()
}).

-define(PARTIES, docket_party).
-record(docket_party, {
    party :: docket_case:party(),
    id :: docket_case:id()
}).

-define(AUDIT_PAGE, 200).

%% @doc The tables as Mnesia is to make them, on the nodes and with the kind of copy that `Copies' says.
-spec tables({ram_copies | disc_copies, [node()]}) -> [{atom(), [tuple()]}].
tables(Copies) ->
    [{?TABLE, [{type, ordered_set}, Copies, {attributes, record_info(fields, docket_case)}]},
     {?PARTIES, [{type, bag}, Copies, {attributes, record_info(fields, docket_party)}]}].

%% @doc A new case, with version 1.
-spec create(docket_case:id(), docket_case:party(), docket_case:document()) -> {ok, docket_case:version()} | exists | failure().
create(Id, Party, Document) ->
    write(fun() ->
        case mnesia:read(?TABLE, Id, write) of
            [] ->
                ok = mnesia:write(?PARTIES, #docket_party{party = Party, id = Id}, write),
                put(Id, 1, Party, Document);
            [_] ->
                exists
        end
    end).

%% @doc A case as it is.
-spec read(docket_case:id()) -> {ok, docket_case:version(), docket_case:document()} | missing | failure().
read(Id) ->
    read_only(fun() ->
        case mnesia:read(?TABLE, Id, read) of
            [#docket_case{version = Version, document = Document}] -> {ok, Version, Document};
            [] -> missing
        end
    end).

%% @doc The ids of all cases of a party, in order.
-spec of_party(docket_case:party()) -> {ok, [docket_case:id()]} | failure().
of_party(Party) ->
    read_only(fun() ->
        {ok, lists:sort([Id || #docket_party{id = Id} <- mnesia:read(?PARTIES, Party, read)])}
    end).

%% @doc The next ids after one, which need not be there; <<>> is before all.
-spec page(docket_case:id() | <<>>, pos_integer()) -> {ok, [docket_case:id()]} | failure().
page(After, Limit) ->
    read_only(fun() -> {ok, walk(mnesia:next(?TABLE, After), Limit)} end).

-spec walk(docket_case:id() | '$end_of_table', non_neg_integer()) -> [docket_case:id()].
walk('$end_of_table', _) -> [];
walk(_, 0) -> [];
walk(Id, Limit) -> [Id | walk(mnesia:next(?TABLE, Id), Limit - 1)].

%% @doc The same case with another document, if it still has the version that the writer saw.
-spec modify(docket_case:id(), docket_case:version() | any, docket_case:party(), docket_case:document()) ->
    {ok, docket_case:version()} | missing | {other, docket_case:version()} | failure().
modify(Id, Seen, Party, Document) ->
    write(fun() ->
        case mnesia:read(?TABLE, Id, write) of
            [#docket_case{version = Version, party = Before}] when Seen =:= any; Seen =:= Version ->
                ok = move(Id, Before, Party),
                put(Id, Version + 1, Party, Document);
            [#docket_case{version = Other}] -> {other, Other};
            [] -> missing
        end
    end).

%% @doc Deletes a case, if it still has the version that the writer saw; `any' if that does not matter.
-spec delete(docket_case:id(), docket_case:version() | any) -> ok | missing | {other, docket_case:version()} | failure().
delete(Id, Seen) ->
    write(fun() ->
        case mnesia:read(?TABLE, Id, write) of
            [#docket_case{version = Version, party = Party}] when Seen =:= any; Seen =:= Version ->
                ok = mnesia:delete_object(?PARTIES, #docket_party{party = Party, id = Id}, write),
                mnesia:delete(?TABLE, Id, write);
            [#docket_case{version = Other}] -> {other, Other};
            [] -> missing
        end
    end).

%% @doc Removes all cases from all members, also those that members disagree about.
-spec clear() -> ok | failure().
clear() ->
    case docket_cluster:ready() of
        true -> clear([?TABLE, ?PARTIES]);
        Why -> {unready, Why}
    end.

-spec clear([atom()]) -> ok | failure().
clear([]) ->
    ok;
clear([Table | Others]) ->
    case mnesia:clear_table(Table) of
        {atomic, ok} -> clear(Others);
        Aborted -> Aborted
    end.

%% @doc The next cases after an id as this member has them, from its own copy and without asking anybody.
-spec audit(docket_case:id() | <<>>) -> [{docket_case:id(), docket_case:version(), docket_case:document()}] | failure().
audit(After) ->
    try
        audit(ets:next(?TABLE, After), ?AUDIT_PAGE)
    catch
        error:badarg -> {aborted, {no_exists, ?TABLE}}
    end.

-spec audit(docket_case:id() | '$end_of_table', non_neg_integer()) ->
    [{docket_case:id(), docket_case:version(), docket_case:document()}].
audit('$end_of_table', _) -> [];
audit(_, 0) -> [];
audit(Id, Limit) ->
    Rows = [{Id, Version, Document} || #docket_case{version = Version, document = Document} <- ets:lookup(?TABLE, Id)],
    Rows ++ audit(ets:next(?TABLE, Id), Limit - 1).

-spec move(docket_case:id(), From :: docket_case:party(), To :: docket_case:party()) -> ok.
move(_, Party, Party) ->
    ok;
move(Id, From, To) ->
    ok = mnesia:delete_object(?PARTIES, #docket_party{party = From, id = Id}, write),
    mnesia:write(?PARTIES, #docket_party{party = To, id = Id}, write).

-spec put(docket_case:id(), docket_case:version(), docket_case:party(), docket_case:document()) -> {ok, docket_case:version()}.
put(Id, Version, Party, Document) ->
    ok = mnesia:write(?TABLE, #docket_case{id = Id, version = Version, party = Party, document = Document}, write),
    {ok, Version}.

-spec write(fun(() -> Result)) -> Result | failure().
write(Fun) ->
    activity(docket_options:get(write), Fun).

-spec read_only(fun(() -> Result)) -> Result | failure().
read_only(Fun) ->
    activity(docket_options:get(read), Fun).

-spec activity(docket_options:mode(), fun(() -> Result)) -> Result | failure().
activity(Mode, Fun) ->
    case docket_cluster:ready() of
        true ->
            try
                mnesia:activity(Mode, Fun)
            catch
                exit:{aborted, Reason} -> {aborted, Reason}
            end;
        Why ->
            {unready, Why}
    end.
